# SPDX-License-Identifier: GPL-3.0-or-later
"""The child process of a bake: job folder in, point caches and JSON lines out.

    python -m taichi_cloth_addon.worker JOB [--attended] [--resume]

Each line on stdout is a JSON object with an "event": start, phase, frame, warning, end.
Everything else that is printed goes to stderr. Exit code: 0 done, 1 failed, 2 wrong usage,
3 cancelled.
"""

import argparse
import faulthandler
import json
import os
import signal
import statistics
import sys
import threading
import time
import tomllib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .cache.files import settle
from .cache.job import Job, JobCloth, JobError, clear_state, read_frame, read_job, write_state
from .cache.recorder import Recorder
from .cache.resume import ResumePlan, plan_resume
from .cache.sidecar import FrameStatistics, Sidecar
from .cache.storage import CacheError
from .engine.inputs import FrameInputs

if TYPE_CHECKING:
    from .engine.model import ClothModel
    from .engine.simulate import Frame

DONE, FAILED, USAGE, CANCELLED = 0, 1, 2, 3
"""Exit codes."""

POLL_SECONDS = 0.005
WAITING_AFTER = 0.05
"""s without the next frame's inputs before the phase is called waiting."""
PACE_FRAMES = 15
"""Frames in the running median that the time left is told from."""

Array = npt.NDArray[np.float64]


class StoppedError(Exception):
    """The bake was cancelled while it waited for inputs."""


@dataclass(frozen=True)
class Engine:
    """What the worker uses of the engine. Loading it does not start Taichi."""

    start: Callable[..., Any]
    build_model: Callable[..., "ClothModel"]
    simulate: Callable[..., Iterator["Frame"]]
    cancelled: type[Exception]
    known_errors: tuple[type[Exception], ...]
    """Errors whose text is written for the user."""


def load_engine() -> Engine:
    """Import the engine; late, so that wrong usage and cancelling are quick."""
    from .engine import model, runtime, simulate  # noqa: PLC0415 (the device is not needed yet)

    def start(device: str, cache_folder: str | None, vertex_count: int) -> runtime.Runtime:
        threads = runtime.suitable_threads(vertex_count)
        return runtime.start(runtime.Device(device), cache_folder, threads)

    return Engine(
        start=start,
        build_model=model.build_model,
        simulate=simulate.simulate,
        cancelled=simulate.Cancelled,
        known_errors=(simulate.SimulationError, runtime.RuntimeUnavailableError, ValueError),
    )


class Reporter:
    """Writes events as JSON lines. A reader that went away counts as a wish to stop."""

    def __init__(self, stream: IO[str], stop: threading.Event) -> None:
        self._stream = stream
        self._stop = stop
        self.phase_now = ""

    def emit(self, event: str, **values: Any) -> None:
        """Write one event."""
        try:
            self._stream.write(json.dumps({"event": event, **values}, allow_nan=False) + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            self._stop.set()

    def phase(self, name: str) -> None:
        """Say what happens now, once per change."""
        if name != self.phase_now:
            self.phase_now = name
            self.emit("phase", phase=name)


class Pace:
    """Tells the pace and the time left from a running median of the frames simulated lately."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._mark = time.perf_counter()
        self._waited = 0.0

    def waited(self, seconds: float) -> None:
        """Note time spent waiting for inputs."""
        self._waited += seconds

    def lap(self, *, simulated: bool) -> float:
        """End a frame; return the seconds it took, waiting left out."""
        now = time.perf_counter()
        wall = now - self._mark
        busy = max(wall - self._waited, 0.0)
        self._mark = now
        self._waited = 0.0
        if simulated:
            self._seconds.append(wall)
        return busy

    def now(self) -> float | None:
        """Return the seconds that a frame takes, waiting included, or None while unknown.

        The first frame simulated is left out: kernels are compiled during it.
        """
        known = self._seconds[1:][-PACE_FRAMES:]
        return statistics.median(known) if known else None

    def left(self, frames: int) -> float | None:
        """Return the seconds that ``frames`` more will take, or None while unknown."""
        pace = self.now()
        if frames == 0:
            return 0.0
        return None if pace is None else pace * frames


class Bake:
    """One run of the worker on one job."""

    def __init__(
        self,
        folder: Path,
        job: Job,
        engine: Engine,
        reporter: Reporter,
        *,
        attended: bool,
        cancelled: Callable[[], bool],
    ) -> None:
        """Prepare a run.

        Args:
            folder: of the job.
            job: that was read from it.
            engine: that simulates.
            reporter: takes the events.
            attended: wait for inputs that are not there yet.
            cancelled: whether to stop.
        """
        self.folder = folder
        self.job = job
        self.engine = engine
        self.reporter = reporter
        self.attended = attended
        self.cancelled = cancelled
        self.frame_last: int | None = None
        self._recorders: list[Recorder] = []
        self._matrices: dict[int, Array] = {}
        self._pace = Pace()
        self._warned: set[str] = set()

    def run(self, *, resume: bool) -> None:
        """Bake the job to its end.

        Args:
            resume: go on from the checkpoint.

        Raises:
            StoppedError: cancelled while it waited; Engine.cancelled while it simulated.
            CacheError: files of job or cache are missing, damaged or cannot be written.
        """
        job = self.job
        self.reporter.phase("starting")
        plan = plan_resume(self.folder, job) if resume else None
        if plan is None:
            clear_state(self.folder)
        else:
            self.frame_last = plan.frame
        if plan is None or plan.frame < job.frame_end:
            self._simulate(plan)
        else:
            self._open(plan, "")
            self._publish(job.notes)
        for recorder, cloth in zip(self._recorders, job.cloths, strict=True):
            recorder.finish(cloth.pc2)

    def _simulate(self, plan: ResumePlan | None) -> None:
        job = self.job
        self._stop_if_cancelled()
        vertex_count = sum(cloth.part.mesh.vertex_count for cloth in job.cloths)
        compiled = bool(job.kernel_cache) and any(Path(job.kernel_cache).glob("*.tic"))

        def tell(phase: str) -> None:
            self.reporter.phase(
                "loading the solver" if compiled and phase == "compiling" else phase
            )

        runtime = self.engine.start(job.device.value, job.kernel_cache or None, vertex_count)
        self.reporter.emit(
            "start",
            device=runtime.description,
            messages=list(runtime.messages),
            resumed_after=plan.frame if plan else None,
        )
        self._stop_if_cancelled()
        parts = [cloth.part for cloth in job.cloths]
        model = self.engine.build_model(parts, on_phase=self.reporter.phase)
        self._open(plan, runtime.description)
        self._publish((*model.warnings, *job.notes))
        first = plan.frame if plan else job.frame_start
        frames = self.engine.simulate(
            model,
            self._inputs(first),
            job.options,
            1.0 / job.fps,
            start=plan.state if plan else None,
            cancelled=self.cancelled,
            on_phase=tell,
            first_frame=job.frame_start,
        )
        for number, frame in enumerate(frames, first + 1 if plan else first):
            self._record(number, frame, model)
        if self.frame_last != job.frame_end:
            raise JobError(
                f"The solver stopped at frame {self.frame_last} without a reason, before "
                f"{job.frame_end}. Bake again."
            )

    def _stop_if_cancelled(self) -> None:
        if self.cancelled():
            raise StoppedError

    def _open(self, plan: ResumePlan | None, device: str) -> None:
        for index, cloth in enumerate(self.job.cloths):
            head = self._head(cloth, device)
            if plan is None:
                recorder = Recorder.begin(cloth.pc2, head)
            else:
                keep = plan.frame - self.job.frame_start + 1
                recorder = Recorder.resume(plan.files[index], head, keep)
            self._recorders.append(recorder)

    def _head(self, cloth: JobCloth, device: str) -> Sidecar:
        return Sidecar(
            extension_version=extension_version(),
            uid=cloth.uid,
            object_name=cloth.part.name,
            topology_hash=cloth.topology_hash,
            settings_hash=self.job.settings_hash,
            frame_first=self.job.frame_start,
            frame_last=None,
            frame_end_wanted=self.job.frame_end,
            fps=self.job.fps,
            vertex_count=cloth.part.mesh.vertex_count,
            device=device,
        )

    def _inputs(self, first: int) -> Iterator[FrameInputs]:
        for number in range(first, self.job.frame_end + 1):
            yield self._wait_for(number)

    def _wait_for(self, number: int) -> FrameInputs:
        """Return the inputs of a frame as soon as they are there."""
        job = self.job
        began = time.perf_counter()
        phase = self.reporter.phase_now
        while True:
            self._stop_if_cancelled()
            block = read_frame(
                self.folder, number, cloth_count=len(job.cloths), pin_count=job.pin_count
            )
            if block is not None:
                break
            if not self.attended:
                raise JobError(
                    f'"{self.folder}" has no inputs for frame {number}: they were captured up to '
                    f"frame {number - 1} only. Bake again in Blender, or set frame_end in job.json."
                )
            if not self.folder.is_dir():
                raise JobError(f'"{self.folder}" was deleted while it was baking. Bake again.')
            if time.perf_counter() - began > WAITING_AFTER:
                self.reporter.phase("waiting")
            time.sleep(POLL_SECONDS)
        self._pace.waited(time.perf_counter() - began)
        if self.reporter.phase_now == "waiting":
            self.reporter.phase(phase)
        self._matrices[number] = block.matrices
        return block.inputs

    def _record(self, number: int, frame: "Frame", model: "ClothModel") -> None:
        """Put one frame on the disk, then tell of it."""
        matrices = self._matrices.pop(number)
        seconds = self._pace.lap(simulated=frame.report is not None)
        entry = FrameStatistics.of(number, seconds, frame.report)
        for recorder, part, matrix in zip(self._recorders, model.slices, matrices, strict=True):
            recorder.append(frame.positions[part], matrix, entry)
        write_state(self.folder, number, frame.state)
        self.frame_last = number
        self._publish(frame.report.warnings if frame.report else (), number)
        values = asdict(entry)
        del values["frame"], values["seconds"]
        self.reporter.emit(
            "frame",
            frame=number,
            done=number - self.job.frame_start + 1,
            total=self.job.frame_count,
            seconds=seconds,
            pace=self._pace.now(),
            left=self._pace.left(self.job.frame_end - number),
            statistics=values,
        )

    def _publish(self, warnings: tuple[str, ...], number: int | None = None) -> None:
        """Bring the sidecars up to date and pass on warnings that are new."""
        new = [text for text in warnings if text not in self._warned]
        self._warned.update(new)
        place = "" if number is None else f"Frame {number}: "
        for recorder in self._recorders:
            recorder.publish([place + text for text in new])
        for text in new:
            self.reporter.emit("warning", message=place + text)

    def close(self) -> None:
        """Close all files as they are."""
        for recorder in self._recorders:
            recorder.close()

    def settle(self) -> list[str]:
        """Make what a bake that stopped early has left playable; return problems."""
        problems = []
        for cloth in self.job.cloths:
            try:
                settle(cloth.pc2)
            except CacheError as error:
                problems.append(str(error))
        return problems


def extension_version() -> str:
    """Return the version in the manifest: beside this file installed, above it in a checkout."""
    package = Path(__file__).parent
    for folder in (package, package.parent):
        try:
            text = (folder / "blender_manifest.toml").read_text(encoding="utf-8")
            return str(tomllib.loads(text)["version"])
        except (OSError, KeyError, ValueError):
            continue
    return "unknown"


def run(
    folder: Path,
    reporter: Reporter,
    *,
    attended: bool,
    resume: bool,
    cancelled: Callable[[], bool],
    load: Callable[[], Engine] = load_engine,
) -> int:
    """Bake a job, tell how it ended, and return the exit code.

    Args:
        folder: of the job.
        reporter: takes the events.
        attended: wait for inputs that are not there yet.
        resume: go on from the checkpoint.
        cancelled: whether to stop.
        load: brings the engine.
    """
    bake: Bake | None = None
    known: tuple[type[Exception], ...] = ()
    stops: tuple[type[Exception], ...] = (StoppedError,)
    code, message = DONE, ""
    try:
        job = read_job(folder)
        engine = load()
        known = engine.known_errors
        stops = (StoppedError, engine.cancelled)
        bake = Bake(folder, job, engine, reporter, attended=attended, cancelled=cancelled)
        bake.run(resume=resume)
    except MemoryError:
        code, message = FAILED, "There is not enough memory. Use a mesh with fewer vertices."
    except ImportError as error:
        traceback.print_exc()
        code = FAILED
        message = f"The solver does not load ({error}). Install the extension's zip again."
    except Exception as error:  # the border of the process: every failure becomes an event
        if isinstance(error, stops):
            code = CANCELLED
        elif isinstance(error, (CacheError, *known)):
            code, message = FAILED, str(error)
        else:
            traceback.print_exc()
            code, message = FAILED, f"The solver failed ({type(error).__name__}: {error})."
    problems: list[str] = []
    if bake is not None:
        bake.close()
        if code != DONE:
            problems = bake.settle()
    frame_last = bake.frame_last if bake else None
    if code == CANCELLED:
        message = "Cancelled" + ("." if frame_last is None else f" after frame {frame_last}.")
    states = {DONE: "done", FAILED: "failed", CANCELLED: "cancelled"}
    message = "\n".join(dict.fromkeys([message, *problems])).strip()
    reporter.emit("end", state=states[code], frame_last=frame_last, message=message)
    return code


def claim_stdout() -> IO[str]:
    """Keep stdout for events: what libraries print there, C code too, goes to stderr."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    sys.stdout.flush()
    os.dup2(2, 1)
    return stream


def listen(stop: threading.Event) -> None:
    """Set ``stop`` when the line "cancel" or the end of stdin arrives.

    stdin moves to a descriptor of its own: on Windows a thread that blocks in a read of the
    standard handle also blocks libraries that look at that handle while they are loaded.
    """
    source = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def follow() -> None:
        rest = b""
        while chunk := _read(source):
            *lines, rest = (rest + chunk).split(b"\n")
            if any(line.strip() == b"cancel" for line in lines):
                break
        stop.set()

    threading.Thread(target=follow, name="cancel", daemon=True).start()


def _read(source: int) -> bytes:
    """Read without the locks of Python's files, which a blocked thread holds at exit."""
    try:
        return os.read(source, 4096)
    except OSError:
        return b""


def main(arguments: list[str] | None = None, load: Callable[[], Engine] = load_engine) -> int:
    """Run the worker on a command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="worker", description="Bake the job in a job folder.")
    parser.add_argument("job", metavar="JOB", type=Path, help="the job folder")
    parser.add_argument(
        "--attended",
        action="store_true",
        help='wait for inputs; stop when stdin ends or says "cancel"',
    )
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    chosen = parser.parse_args(arguments)
    stop = threading.Event()
    reporter = Reporter(claim_stdout(), stop)
    faulthandler.enable()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    if chosen.attended:
        listen(stop)
    return run(
        chosen.job,
        reporter,
        attended=chosen.attended,
        resume=chosen.resume,
        cancelled=stop.is_set,
        load=load,
    )


if __name__ == "__main__":
    sys.exit(main())
