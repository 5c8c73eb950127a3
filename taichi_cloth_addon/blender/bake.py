# SPDX-License-Identifier: GPL-3.0-or-later
"""One bake's life: capture the scene, feed the worker, follow it, cancel it, attach the result.

A session is pumped: each call of ``pump`` does a little work and returns, so that the window
stays alive. ``execute``, the modal operator and the command line all drive the same session.
It keeps no pointers into Blender's data between two calls; objects are found again by their
``session_uid``, so they may be renamed, edited or deleted meanwhile.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path

import bpy

from ..cache import files
from ..cache import job as jobs
from ..cache.files import BakeFiles
from ..cache.storage import CacheError, make_folder
from . import (
    attach,
    capture,
    changes,
    finished,
    mesh_watch,
    notes,
    plans,
    preferences,
    process,
    results,
    resuming,
    status,
)
from .plans import BakeError, Target
from .process import Event, WorkerError, WorkerProcess
from .progress import Progress, duration, number
from .properties import cloth_settings

AHEAD = 24
"""Frames that are captured before the worker has asked for them."""
IDLE_SECONDS = 0.003


class Outcome(Enum):
    """How a session stands."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"


EXPECTED = (BakeError, capture.CaptureError, attach.AttachError, CacheError, WorkerError)
"""What goes wrong outside of this program; the texts are for the user."""


_current: "BakeSession | None" = None


def current() -> "BakeSession | None":
    """The bake that runs in this Blender, if one does."""
    return _current


def shutdown() -> None:
    """End a running bake at once: another file is loaded, or Blender or the add-on ends."""
    if _current is not None:
        _current.abort()
    process.end_leaving()


class BakeSession:
    """One press of Bake Cloth."""

    def __init__(
        self,
        scene: bpy.types.Scene,
        objects: Sequence[bpy.types.Object],
        *,
        resume: bool = False,
    ) -> None:
        """Plan a bake of the objects.

        Args:
            scene: the scene they are in.
            objects: mesh objects; those without cloth settings get them.
            resume: go on where the last bake was cancelled.

        Raises:
            BakeError: another bake runs, or there is nothing to bake or to resume.
        """
        if _current is not None:
            raise BakeError("A bake is running already; wait for it or cancel it")
        if not objects:
            raise BakeError("There is no cloth to bake; select a mesh object")
        self.progress = Progress()
        self.outcome = Outcome.RUNNING
        self.notices: list[str] = []
        self.error = ""
        self.changed = False  # Whether the .blend was changed, for the undo step.
        self.live = False  # Whether the user can see the timeline between two pumps.
        self._scene_uid = scene.session_uid
        self._resume = resume
        self._steps: Iterator[None] | None = None
        self._cancelled = False
        self._capture: capture.Capture | None = None
        self._worker: WorkerProcess | None = None
        self._watch: mesh_watch.MeshWatch
        self._job: jobs.Job
        self._job_folder = Path()
        self._next_frame = 0
        self._worker_frame = 0
        self._end_event: Event | None = None
        self._started = time.monotonic()
        self._baked: list[str] = []
        plan = (resuming if resume else plans).plan(scene, objects)
        self.notices += plan.notices
        self.changed = plan.changed
        self._groups = plan.groups
        self.group = self._groups[0]
        if len(self._groups) > 1:
            labels = "; ".join(group.label() for group in self._groups)
            self.notices.append(
                "The ranges differ, so these are baked one after the other and do not meet: "
                + labels
            )

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Take the place of the one running bake."""
        global _current  # noqa: PLW0603 - one bake per Blender
        _current = self
        self._show()

    @property
    def running(self) -> bool:
        """Whether there is something left to pump."""
        return self.outcome is Outcome.RUNNING

    def cancel(self) -> None:
        """Ask for the end; ``pump`` on until ``running`` is false, about a second at most."""
        self._cancelled = True
        if self._worker is not None:
            self._worker.cancel()

    def abort(self) -> None:
        """End now, without attaching anything."""
        if self._worker is not None:
            self._worker.end()
            self._worker.close()
            self._worker = None
        self._drop_capture()
        if self.running:
            self._end(Outcome.CANCELLED)

    def pump(self, budget: float = 0.05) -> None:
        """Work for about ``budget`` seconds, at least one frame change if one is due."""
        if not self.running:
            return
        deadline = time.monotonic() + budget
        try:
            self._step(deadline)
        except EXPECTED as error:
            self._fail(str(error))
        except OSError as error:
            self._fail(f"{error.filename or 'The cache'}: {error.strerror or error}")
        except BaseException:
            self.abort()  # A fault of this program; it must not leave a worker behind.
            raise
        if self.running:
            self._show()

    def summary(self) -> str:
        """What happened, in one line."""
        if self.outcome is Outcome.FAILED:
            return self.error
        done = "; ".join(self._baked)
        if self.outcome is Outcome.CANCELLED:
            return f"Cancelled. {done}" if done else "Cancelled"
        device = f" on {self.progress.device}" if self.progress.device else ""
        return f"Baked {done} in {duration(time.monotonic() - self._started)}{device}"

    # ------------------------------------------------------------------ steps

    def _step(self, deadline: float) -> None:
        if self._worker is None:
            if self._cancelled:
                self._drop_capture()
                self._end(Outcome.CANCELLED)
            else:
                self._prepare(deadline)
            return
        self._read_events()
        stopped = self._end_event is not None and self._end_event.get("state") != "done"
        if stopped or not self._worker.running():
            self._read_events()
            self._finish_group()
            return
        if not self._cancelled and not self.error:
            self._capture_frames(deadline)

    def _scene(self) -> bpy.types.Scene:
        for scene in bpy.data.scenes:
            if scene.session_uid == self._scene_uid:
                return scene
        raise BakeError("The scene of this bake was deleted")

    def _objects(self) -> list[bpy.types.Object]:
        found = []
        for target in self.group.targets:
            ob = target.find()
            if ob is None:
                raise BakeError(f"{target.name} was deleted while it was baking")
            found.append(ob)
        return found

    def _prepare(self, deadline: float) -> None:
        """Go on with what comes before the worker, a step at least."""
        if self._steps is None:
            self._steps = self._group_steps()
        for _ in self._steps:
            if time.monotonic() > deadline:
                return
        self._steps = None

    def _group_steps(self) -> Iterator[None]:
        """Check the group, read its first frame, start its worker; with pauses."""
        count = sum(len(capture.base_mesh(ob).vertices) for ob in self._objects())
        self.progress = Progress(
            phase=f"checking {number(count)} vertices",
            total=self.group.frame_end - self.group.frame_start + 1,
            messages=self.progress.messages,
        )
        yield
        known = capture.KnownWeights()
        problems = yield from capture.check_steps(self._found, known)
        status.remember_problems(self._objects(), problems)
        errors = [p.message for p in problems if p.severity == "ERROR"]
        if errors:
            raise BakeError("\n".join(errors))
        self.notices += [p.message for p in problems if p.severity != "ERROR"]
        self.progress.phase = f"reading {number(count)} vertices"
        yield
        scene, objects = self._found()
        for ob in objects:
            make_folder(capture.cache_path(ob, scene).parent)
        results.prune_unsaved(capture.cache_path(objects[0], scene).parent)
        del scene, objects, ob
        frames = self.group.frame_start, self.group.frame_end
        self._capture = yield from capture.begin_steps(self._found, *frames, known)
        self.progress.phase = "starting"
        if not self._resume:  # Resuming may have to read yet another frame.
            yield
            self.put_back()
        yield
        self._begin_group(self._capture)

    def _found(self) -> tuple[bpy.types.Scene, list[bpy.types.Object]]:
        return self._scene(), self._objects()

    def _begin_group(self, captured: capture.Capture) -> None:
        """Write the job and start the worker on it."""
        scene, objects = self._found()
        captured.job = replace(
            captured.job,
            device=preferences.device(scene),
            kernel_cache=str(preferences.user_folder("kernels")),
            notes=notes.notes_on(scene, objects, captured.job),
        )
        if self._resume:
            playing = [results.playing_path(ob) for ob in objects]
            self._job_folder, self._next_frame = resuming.prepare(scene, objects, captured)
            self.changed |= playing != [results.playing_path(ob) for ob in objects]
            self.put_back()
        else:
            folder = capture.cache_path(objects[0], scene).parent
            self._job_folder = jobs.job_folder(folder, self.group.targets[0].uid)
            for ob in objects:
                self._discard_other_job(ob)
            jobs.write_job(self._job_folder, captured.job)
            jobs.write_frame(self._job_folder, captured.first)
            self._next_frame = self.group.frame_start + 1
        self._job = captured.job
        topology = [cloth.topology_hash for cloth in self._job.cloths]
        self._watch = mesh_watch.MeshWatch(objects, topology)
        self._worker_frame = self._next_frame - 1
        self._worker = WorkerProcess(self._job_folder, resume=self._resume, polite=self.live)
        self._end_event = None

    def _discard_other_job(self, ob: bpy.types.Object) -> None:
        """A new bake ends what could be resumed, also if the object had other company then."""
        other = results.find_job(ob)
        if other is not None and other != self._job_folder:
            results.end_job(other)

    def _capture_frames(self, deadline: float) -> None:
        captured = self._capture
        last = min(self.group.frame_end, self._worker_frame + AHEAD)
        self.progress.waiting = ""
        there = [ob for target in self.group.targets if (ob := target.find()) is not None]
        if not there:
            # Once all is captured nothing else would look.
            self._objects()
        changed = self._watch.changed(there)
        if changed:
            raise BakeError(
                f"The mesh of {changed} changed while it was baking. Undo the edit and press "
                "Resume Bake, or bake again"
            )
        if captured is None or self._next_frame > last:
            return
        edited = mesh_watch.edited(self._objects())
        if edited:
            # In Edit Mode the evaluated mesh leaves modifiers out; capture goes on afterwards.
            if self._next_frame == self._worker_frame + 1:
                self.progress.waiting = f"{edited} leaves Edit Mode"
            return
        while self._next_frame <= last:
            block = captured.advance(self._next_frame)
            if block is not None:
                jobs.write_frame(self._job_folder, block)
                self._next_frame += 1
            if time.monotonic() > deadline:
                break
        if self.live:
            captured.restore(if_quick=True)

    def put_back(self) -> None:
        """Put the timeline back where the user has it: the file is saved, or the bake ends."""
        if self._capture is not None:
            self._capture.restore()

    def _read_events(self) -> None:
        if self._worker is None:
            return
        progress = self.progress
        for event in self._worker.events():
            match event.get("event"):
                case "start":
                    progress.device = str(event.get("device", ""))
                    self._message(*event.get("messages", ()))
                case "phase":
                    progress.phase = str(event.get("phase", ""))
                case "frame":
                    self._worker_frame = int(event["frame"])
                    progress.done = int(event["done"])
                    progress.total = int(event["total"])
                    # The first frame is not simulated: the kernels are compiled after it.
                    simulated = event.get("statistics", {}).get("integrator")
                    if simulated or progress.done == progress.total:
                        progress.phase = "simulating"
                        progress.frame = self._worker_frame
                    pace, left = event.get("pace"), event.get("left")
                    progress.seconds_per_frame = 0.0 if pace is None else float(pace)
                    progress.seconds_left = None if left is None else float(left)
                case "warning":
                    self._message(event.get("message", ""))
                case "end":
                    self._end_event = event

    def _message(self, *texts: object) -> None:
        for text in texts:
            if text and str(text) not in self.progress.messages:
                self.progress.messages.append(str(text))

    # ------------------------------------------------------------------ end

    def _finish_group(self) -> None:
        worker = self._worker
        assert worker is not None
        self._worker = None
        self._drop_capture()
        if worker.running():
            worker.leave_alone()
        else:
            worker.close()
        event = self._end_event
        state = str(event.get("state")) if event else ""
        if not state:
            # Killed: by us after the time of grace, or by a crash.
            state = "cancelled" if self._cancelled or self.error else "failed"
        if state == "failed":
            self.error = self.error or self._failure(worker, event)
        if self.error:
            state = "failed"
        for cloth, target in zip(self._job.cloths, self.group.targets, strict=True):
            self._finish_object(Path(cloth.pc2), target, done=state == "done")
        if state == "done":
            results.end_job(self._job_folder)
            following = self._groups.index(self.group) + 1
            if following < len(self._groups) and not self._cancelled:
                self.group = self._groups[following]
                return
            self._end(Outcome.CANCELLED if following < len(self._groups) else Outcome.DONE)
        else:
            self._end(Outcome.FAILED if state == "failed" else Outcome.CANCELLED)

    def _failure(self, worker: WorkerProcess, event: Event | None) -> str:
        message = str(event.get("message", "")) if event else ""
        if message:
            return message
        tail = worker.log_tail()
        log = f": {tail}" if tail else ""
        return f"The worker process ended unexpectedly (exit code {worker.exit_code}){log}"

    def _finish_object(self, path: Path, target: Target, *, done: bool) -> None:
        outcome = files.settle(path)
        ob = target.find()
        if ob is None:
            # Undo may bring the object back, so its files stay.
            self._baked.append(f"{target.name} (deleted meanwhile; its frames stay for an undo)")
        if ob is None or outcome is files.Outcome.NONE:
            return
        scene = self._scene()
        playing = results.playing_path(ob)
        elsewhere = playing is not None and playing != path and playing.exists()
        if not done and (BakeFiles(path).part.pc2.exists() or elsewhere):
            self._baked.append(f"{ob.name} keeps its earlier bake; Resume goes on with the new one")
            return
        known = results.read_sidecar(path)
        attach.attach(ob, path, known.frame_first, scene)
        attach.refresh(ob, scene)
        self.changed = True
        self._baked.append(f"{ob.name}, frames {known.frame_first} to {known.frame_last}")
        if done and cloth_settings(ob).output == "SHAPE_KEYS":
            finished.to_shape_keys(scene, ob)

    def _fail(self, message: str) -> None:
        self.error = self.error or message
        if self._worker is not None:
            self._worker.cancel()
        else:
            self._drop_capture()
            self._end(Outcome.FAILED)

    def _drop_capture(self) -> None:
        self._steps = None
        self.put_back()
        self._capture = None

    def _end(self, outcome: Outcome) -> None:
        global _current  # noqa: PLW0603 - one bake per Blender
        self.outcome = outcome
        if _current is self:
            _current = None
        status.show_baking({}, None)
        if bpy.data.filepath:
            self.notices += finished.move_unsaved(bpy.data.filepath)
        for group in self._groups:
            for target in group.targets:
                failed = outcome is Outcome.FAILED and target in self.group.targets
                status.remember_failure(target.session_uid, self.error if failed else "")
        changes.mark_all()

    def _show(self) -> None:
        first_frames = {
            target.session_uid: group.frame_start
            for group in self._groups
            for target in group.targets
        }
        status.show_baking(first_frames, self.progress)


def run(session: BakeSession, tick: Callable[[BakeSession], None] | None = None) -> None:
    """Bake to the end, in this call.

    Args:
        session: a session that was not started yet.
        tick: called after each pump.
    """
    session.start()
    try:
        while session.running:
            session.pump()
            if tick is not None:
                tick(session)
            time.sleep(IDLE_SECONDS)
    finally:
        if session.running:
            session.abort()
