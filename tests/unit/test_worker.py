# SPDX-License-Identifier: GPL-3.0-or-later
"""The worker with an engine that is not there: events, files, cancel, resume, failures."""

import io
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taichi_cloth_addon import worker
from taichi_cloth_addon.cache import pc2, sidecar, storage
from taichi_cloth_addon.cache.files import BakeFiles
from taichi_cloth_addon.cache.job import Job, frame_path, read_state, write_frame
from taichi_cloth_addon.cache.recorder import to_local
from taichi_cloth_addon.worker import CANCELLED, DONE, FAILED
from tests.cache.jobs import make_block, make_job, make_part, write_all
from tests.unit.fake_engine import FakeEngine, SimulationError

LAST = 6


@dataclass
class Bench:
    """A job, an engine, and runs of the worker on them."""

    cache: Path
    job: Job
    engine: FakeEngine = field(default_factory=FakeEngine)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.folder = write_all(self.job, self.cache)
        self.files = [BakeFiles(Path(cloth.pc2)) for cloth in self.job.cloths]
        self.stream = io.StringIO()

    def run(self, *, resume: bool = False, attended: bool = False) -> int:
        self.stream = io.StringIO()
        return worker.run(
            self.folder,
            worker.Reporter(self.stream, self.stop),
            attended=attended,
            resume=resume,
            cancelled=self.stop.is_set,
            load=self.engine.load,
        )

    def stop_at(self, index: int) -> None:
        self.engine.on_frame = lambda i: self.stop.set() if i == index else None

    def go_on(self) -> None:
        self.stop.clear()
        self.engine.on_frame = lambda _: None

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def named(self, event: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == event]

    @property
    def end(self) -> dict[str, Any]:
        assert [e["event"] for e in self.events].index("end") == len(self.events) - 1
        return self.events[-1]

    def rewrite(self, frame: int, **changes: Any) -> None:
        write_frame(self.folder, replace(make_block(self.job, frame), **changes))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    cache = tmp_path / "кэш"
    cache.mkdir()
    return Bench(cache, make_job(cache, end=LAST))


@pytest.fixture
def reference(tmp_path: Path) -> bytes:
    cache = tmp_path / "reference"
    cache.mkdir()
    whole = Bench(cache, make_job(cache, end=LAST))
    assert whole.run() == DONE
    return whole.files[0].pc2.read_bytes()


def test_compiled_kernels_are_loaded(tmp_path: Path) -> None:
    """Nothing is said of compiling where the cache has kernels already."""
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "one.tic").touch()
    cache = tmp_path / "cache"
    cache.mkdir()
    bench = Bench(cache, replace(make_job(cache, end=LAST), kernel_cache=str(kernels)))
    assert bench.run() == DONE
    phases = [e["phase"] for e in bench.named("phase")]
    assert phases == ["starting", "building", "loading the solver", "simulating"]


def test_a_whole_bake(bench: Bench) -> None:
    bench.engine.warnings = ("It stretches.",)
    assert bench.run() == DONE
    assert bench.end == {"event": "end", "state": "done", "frame_last": LAST, "message": ""}
    (start,) = bench.named("start")
    assert start["device"] == "Abacus (2 beads)"
    assert start["messages"] == ["CUDA is not there; Abacus is used."]
    assert bench.engine.starts == [("CPU", None)]
    phases = [e["phase"] for e in bench.named("phase")]
    assert phases == ["starting", "building", "compiling", "simulating"]
    frames = bench.named("frame")
    assert [e["frame"] for e in frames] == list(range(1, LAST + 1))
    assert [e["done"] for e in frames] == list(range(1, LAST + 1))
    assert {e["total"] for e in frames} == {LAST}
    assert [e["left"] is None for e in frames] == [True, True, False, False, False, False]
    assert frames[-1]["left"] == 0.0
    for event in frames[2:]:
        assert event["left"] == pytest.approx(event["pace"] * (LAST - event["frame"]))
    assert frames[1]["statistics"] == {
        "integrator": "SOR",
        "substeps": 5,
        "iterations": 50,
        "residual": 1e-6,
        "worst_strain": None,
        "explicit_share": 0.25,
        "explicit_steps": 0,
    }
    warnings = [e["message"] for e in bench.named("warning")]
    assert warnings == ["A loose vertex falls freely.", "Frame 2: It stretches."]
    known = sidecar.read(bench.files[0].sidecar)
    assert known.complete
    assert known.warnings == tuple(warnings)
    assert known.device == "Abacus (2 beads)"
    assert known.extension_version == "0.1.0"
    assert len(known.statistics) == LAST
    assert pc2.read_header(bench.files[0].pc2, 9).start == 1.0


def test_each_frame_is_on_disk_when_it_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    class Watching(worker.Reporter):
        def emit(self, event: str, **values: Any) -> None:
            super().emit(event, **values)
            if event == "frame":
                part = bench.files[0].part
                known = sidecar.read(part.sidecar)
                state = read_state(bench.folder)
                assert state is not None
                counts = pc2.read_header(part.pc2).count, known.frame_last, state[0]
                assert {*counts, len(known.statistics)} == {values["frame"]}
                seen.append(values["frame"])

    monkeypatch.setattr(worker, "Reporter", Watching)
    assert bench.run() == DONE
    assert seen == list(range(1, LAST + 1))


# Space -------------------------------------------------------------------------------------


def moved(frame: int) -> np.ndarray:
    """A mirrored, stretched, turned and moving object, parent included."""
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    matrix = np.eye(4)
    matrix[:3, :3] = (
        turn @ np.diag([-2.0, 0.5, 3.0]) @ np.array([[1, 0.3, 0], [0, 1, 0], [0, 0, 1]])
    )
    matrix[:3, 3] = [100.0 + frame, 0.0, -frame]
    return matrix


def test_each_cloth_is_written_in_its_own_space(tmp_path: Path) -> None:
    job = make_job(tmp_path, make_part(3), make_part(5), start=-20, end=-17)
    bench = Bench(tmp_path, job)
    for frame in range(-20, -16):
        bench.rewrite(frame, matrices=np.stack([moved(frame), np.eye(4)]))
    assert bench.run() == DONE
    assert [e["frame"] for e in bench.named("frame")] == [-20, -19, -18, -17]
    model = bench.engine.build_model([cloth.part for cloth in job.cloths])
    first = model.positions.astype(np.float32)
    local = pc2.read_frames(bench.files[0].pc2).astype(np.float64)
    assert local.shape == (4, 9, 3)
    for i, frame in enumerate(range(-20, -16)):
        matrix = moved(frame)
        world = local[i] @ matrix[:3, :3].T + matrix[:3, 3]
        other = pc2.read_frames(bench.files[1].pc2)[i]
        if i == 0:
            np.testing.assert_allclose(world, first[:9], atol=1e-5)
            np.testing.assert_array_equal(other, first[9:])
        assert other.shape == (25, 3)
    assert pc2.read_header(bench.files[1].pc2).start == -20.0


def test_the_local_positions_are_exact_far_from_the_origin() -> None:
    matrix = moved(3)
    local = np.random.default_rng(1).normal(size=(50, 3))
    world = local @ matrix[:3, :3].T + matrix[:3, 3]
    np.testing.assert_allclose(to_local(world, matrix, 3, "Flag"), local, atol=1e-12)


def test_a_flattened_object_is_named(bench: Bench) -> None:
    flat = np.diag([1.0, 1.0, 0.0, 1.0])[None]
    bench.rewrite(4, matrices=flat)
    assert bench.run() == FAILED
    assert bench.end["state"] == "failed"
    assert bench.end["frame_last"] == 3
    assert 'Frame 4: "Ткань" is scaled to zero' in bench.end["message"]
    assert pc2.read_header(bench.files[0].pc2).count == 3


# Cancel and resume -------------------------------------------------------------------------


def test_cancelling_a_first_bake_leaves_what_resumes(bench: Bench, reference: bytes) -> None:
    bench.stop_at(3)
    assert bench.run() == CANCELLED
    assert bench.end == {
        "event": "end",
        "state": "cancelled",
        "frame_last": 3,
        "message": "Cancelled after frame 3.",
    }
    assert pc2.read_header(bench.files[0].pc2).count == 3
    assert not sidecar.read(bench.files[0].sidecar).complete
    bench.go_on()
    assert bench.run(resume=True) == DONE
    assert [e["frame"] for e in bench.named("frame")] == [4, 5, 6]
    assert bench.named("frame")[0]["done"] == 4
    assert bench.named("start")[0]["resumed_after"] == 3
    assert bench.files[0].pc2.read_bytes() == reference
    known = sidecar.read(bench.files[0].sidecar)
    assert known.complete
    assert [entry.frame for entry in known.statistics] == list(range(1, LAST + 1))
    assert bench.run(resume=True) == DONE
    assert bench.engine.starts == [("CPU", None)] * 2
    assert bench.files[0].pc2.read_bytes() == reference


def test_cancelling_a_rebake_keeps_the_old_result(bench: Bench, reference: bytes) -> None:
    assert bench.run() == DONE
    bench.stop_at(2)
    assert bench.run() == CANCELLED
    assert bench.files[0].pc2.read_bytes() == reference
    assert pc2.read_header(bench.files[0].part.pc2).count == 2
    bench.go_on()
    assert bench.run(resume=True) == DONE
    assert bench.files[0].pc2.read_bytes() == reference
    assert not bench.files[0].part.pc2.exists()


def test_resuming_what_never_began(bench: Bench, reference: bytes) -> None:
    assert bench.run(resume=True) == DONE
    assert bench.files[0].pc2.read_bytes() == reference


def test_cancelling_before_anything(bench: Bench) -> None:
    bench.stop.set()
    assert bench.run(attended=True) == CANCELLED
    assert bench.end["frame_last"] is None
    assert bench.end["message"] == "Cancelled."
    assert bench.engine.starts == []
    assert not bench.files[0].pc2.exists()
    assert not bench.files[0].part.pc2.exists()


def later(seconds: float, action: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        time.sleep(seconds)
        action()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_cancelling_while_it_waits(bench: Bench) -> None:
    frame_path(bench.folder, 3).unlink()
    cancelled = []
    thread = later(0.3, lambda: (cancelled.append(time.perf_counter()), bench.stop.set()))
    assert bench.run(attended=True) == CANCELLED
    assert time.perf_counter() - cancelled[0] < 0.3
    thread.join()
    assert bench.end["frame_last"] == 2
    assert bench.named("phase")[-1]["phase"] == "waiting"


def test_a_reader_that_went_away(bench: Bench) -> None:
    bench.stream.close()
    broken = worker.Reporter(bench.stream, bench.stop)
    broken.emit("phase", phase="starting")
    assert bench.stop.is_set()


# Waiting -----------------------------------------------------------------------------------


def test_inputs_that_come_late(bench: Bench, reference: bytes) -> None:
    for frame in (3, 4, 5, 6):
        frame_path(bench.folder, frame).unlink()

    def capture() -> None:
        for frame in (3, 4, 5, 6):
            write_frame(bench.folder, make_block(bench.job, frame))
            time.sleep(0.02)

    thread = later(0.2, capture)
    assert bench.run(attended=True) == DONE
    thread.join()
    assert bench.files[0].pc2.read_bytes() == reference
    phases = [e["phase"] for e in bench.named("phase")]
    assert phases == ["starting", "building", "compiling", "simulating", "waiting", "simulating"]
    assert bench.named("frame")[2]["seconds"] < 0.1, "waiting is no simulating"


def test_inputs_that_never_come(bench: Bench) -> None:
    frame_path(bench.folder, 5).unlink()
    assert bench.run() == FAILED
    assert "has no inputs for frame 5: they were captured up to frame 4" in bench.end["message"]
    assert bench.end["frame_last"] == 4
    assert pc2.read_header(bench.files[0].pc2).count == 4


def test_inputs_that_do_not_fit(bench: Bench) -> None:
    block = make_block(bench.job, 3)
    more = np.concatenate([block.inputs.samples[0].pin_targets, np.zeros((1, 3))])
    samples = (replace(block.inputs.samples[0], pin_targets=more),)
    bench.rewrite(3, inputs=replace(block.inputs, samples=samples))
    assert bench.run() == FAILED
    assert "frame_+000003.npz" in bench.end["message"]
    assert bench.end["frame_last"] == 2


def test_the_job_is_deleted_while_it_waits(bench: Bench) -> None:
    frame_path(bench.folder, 3).unlink()
    thread = later(0.2, lambda: shutil.rmtree(bench.folder))
    assert bench.run(attended=True) == FAILED
    thread.join()
    assert "was deleted while it was baking" in bench.end["message"]


def test_the_inputs_are_those_of_their_frames(bench: Bench) -> None:
    for frame in range(1, LAST + 1):
        block = make_block(bench.job, frame)
        sample = replace(block.inputs.samples[0], gravity=np.array([0.0, 0.0, -float(frame)]))
        bench.rewrite(frame, inputs=replace(block.inputs, samples=(sample,)))
    bench.stop_at(3)
    bench.run()
    bench.go_on()
    bench.engine.seen.clear()
    assert bench.run(resume=True) == DONE
    # The frame to go on from comes first: between it and the next one inputs are interpolated.
    assert bench.engine.seen == [-3.0, -4.0, -5.0, -6.0]


# Failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SimulationError("The cloth blew up."), "The cloth blew up."),
        (MemoryError(), "There is not enough memory. Use a mesh with fewer vertices."),
        (ImportError("no taichi"), "The solver does not load (no taichi). Install"),
        (ZeroDivisionError("oops"), "The solver failed (ZeroDivisionError: oops)."),
    ],
)
def test_a_failure_keeps_the_frames_done(
    bench: Bench, error: Exception, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(index: int) -> None:
        if index == 4:
            raise error

    bench.engine.on_frame = fail
    assert bench.run() == FAILED
    assert bench.end["state"] == "failed"
    assert bench.end["message"].startswith(message)
    assert bench.end["frame_last"] == 4
    assert pc2.read_header(bench.files[0].pc2).count == 4
    assert capsys.readouterr().out == ""


def test_a_frame_that_is_not_finite_is_never_written(bench: Bench) -> None:
    bench.engine.spoil = 3
    assert bench.run() == FAILED
    assert bench.end["message"].startswith("Frame 4: 1 of 9 vertices")
    frames = pc2.read_frames(bench.files[0].pc2)
    assert len(frames) == 3
    assert np.isfinite(frames).all()


def test_taichi_is_missing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ImportError("No module named 'taichi'")

    monkeypatch.setattr(bench.engine, "load", missing)
    assert bench.run() == FAILED
    assert "No module named 'taichi'" in bench.end["message"]


def test_no_job(bench: Bench) -> None:
    shutil.rmtree(bench.folder)
    assert bench.run() == FAILED
    assert "is no job folder" in bench.end["message"]


def test_no_cache_folder(bench: Bench) -> None:
    text = (bench.folder / "job.json").read_text("utf-8")
    path = bench.folder / "job.json"
    text = text.replace('"a0.pc2"', json.dumps(str(bench.cache / "nope" / "a0.pc2")))
    path.write_text(text, "utf-8")
    assert bench.run() == FAILED
    assert "folder is missing: choose another cache folder" in bench.end["message"]


def test_a_locked_result_is_kept_beside_and_resume_ends_it(
    bench: Bench, reference: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench.run() == DONE
    bench.files[0].pc2.write_bytes(reference[:-1])
    real = os.replace

    def locked(source: Path, target: Path) -> None:
        if Path(target) == bench.files[0].pc2:
            raise PermissionError(13, "in use")
        real(source, target)

    monkeypatch.setattr(storage, "REPLACE_PAUSE", 0.001)
    monkeypatch.setattr(os, "replace", locked)
    assert bench.run() == FAILED
    assert bench.end["frame_last"] == LAST
    assert bench.end["message"].count("kept beside it") == 1
    assert bench.files[0].part.pc2.read_bytes() == reference
    monkeypatch.setattr(os, "replace", real)
    assert bench.run(resume=True) == DONE
    assert bench.files[0].pc2.read_bytes() == reference


def test_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    pace = worker.Pace()

    def lap(seconds: float, waited: float = 0.0) -> float:
        now[0] += seconds
        pace.waited(waited)
        return pace.lap(simulated=True)

    assert lap(8.0) == 8.0
    assert pace.left(10) is None, "kernels were compiled"
    assert lap(3.0, waited=2.0) == 1.0
    assert pace.left(10) == 30.0, "frames that wait take their time too"
    for _ in range(worker.PACE_FRAMES):
        lap(1.0)
    lap(50.0)
    assert pace.left(10) == 10.0, "one slow frame does not count"
    assert pace.left(0) == 0.0
