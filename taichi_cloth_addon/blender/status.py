# SPDX-License-Identifier: GPL-3.0-or-later
"""What state a cloth is in: ``Object.taichi_cloth_status``.

The state is not stored but found out: from the running bake, the modifier on the object, the
files on disk and the hashes of settings and mesh. So it is right after undo, redo, loading, and
after a crash in the middle of a bake. Answers are kept until ``changes`` says that something
may be different.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import bpy
from bpy.props import IntProperty, StringProperty

from ..cache import pc2
from ..cache.sidecar import FrameStatistics, Sidecar
from ..cache.storage import CacheError
from . import attach, capture, changes, results
from .properties import INTEGRATORS, cloth_settings

NONE, BAKING, BAKED, PARTIAL, OUTDATED, ERROR = (
    "NONE",
    "BAKING",
    "BAKED",
    "PARTIAL",
    "OUTDATED",
    "ERROR",
)
CHEAP_SECONDS = 0.002
PATIENCE = 30.0
"""A redraw asks again at the earliest after this many times what the last answer took."""


@dataclass(frozen=True)
class View:
    """What is known of a cloth's bake.

    Attributes:
        state: NONE, BAKING, BAKED, PARTIAL, OUTDATED or ERROR.
        message: a sentence for the user, or nothing.
        frame_first: first baked frame, 0 without one.
        frame_last: last baked frame, -1 without one.
        playing: whether the object shows a bake.
        resumable: whether a cancelled bake can go on.
        deletable: whether there is anything to delete.
        device: that the bake ran on, in words.
        seconds_per_frame: of the bake, on average.
        method: how it was integrated, in words.
        warnings: what the bake had to say.
    """

    state: str = NONE
    message: str = ""
    frame_first: int = 0
    frame_last: int = -1
    playing: bool = False
    resumable: bool = False
    deletable: bool = False
    device: str = ""
    seconds_per_frame: float = 0.0
    method: str = ""
    warnings: tuple[str, ...] = ()


class Running(Protocol):
    """The progress of a bake, as far as it is shown here."""

    frame: int | None

    def text(self) -> str:
        """One line."""
        ...


@dataclass
class _Answer:
    view: View
    stamp: tuple[int, int]
    asked: float
    took: float


_answers: dict[int, _Answer] = {}
_failures: dict[int, str] = {}
_problems: dict[int, tuple[tuple[object, ...], list[capture.Problem]]] = {}
_baking: dict[int, int] = {}
_running: Running | None = None


class ClothStatus(bpy.types.PropertyGroup):
    """State of one cloth: ``Object.taichi_cloth_status``, read-only."""

    if TYPE_CHECKING:
        state: str
        message: str
        frame_first: int
        frame_last: int
    else:
        state: StringProperty(
            name="State",
            description="NONE, BAKING, BAKED, PARTIAL, OUTDATED or ERROR",
            get=lambda self: view(self.id_data).state,
        )
        message: StringProperty(
            name="Message",
            description="Why the state is what it is",
            get=lambda self: view(self.id_data).message,
        )
        frame_first: IntProperty(
            name="First Frame",
            description="First baked frame",
            get=lambda self: view(self.id_data).frame_first,
        )
        frame_last: IntProperty(
            name="Last Frame",
            description="Last baked frame",
            get=lambda self: view(self.id_data).frame_last,
        )


def view(ob: bpy.types.Object) -> View:
    """The state as it is now."""
    if ob.is_evaluated:
        ob = _original(ob)
    uid = ob.session_uid
    if uid in _baking:
        return _baking_view(uid)
    answer = _answers.get(uid)
    stamp = changes.stamp(uid)
    if answer is None or answer.stamp != stamp:
        began = time.perf_counter()
        found = _look(ob)
        took = time.perf_counter() - began
        answer = _answers[uid] = _Answer(found, stamp, began + took, took)
    return answer.view


def peek(ob: bpy.types.Object) -> View:
    """The state for drawing: perhaps a moment old, if finding it out takes long."""
    answer = _answers.get(ob.session_uid)
    if answer is None or ob.session_uid in _baking:
        return view(ob)
    if ob.mode == "EDIT" or answer.stamp == changes.stamp(ob.session_uid):
        return answer.view
    wait = answer.asked + PATIENCE * answer.took - time.perf_counter()
    if answer.took < CHEAP_SECONDS or wait <= 0.0:
        return view(ob)
    if not bpy.app.background and not bpy.app.timers.is_registered(_redraw):
        bpy.app.timers.register(_redraw, first_interval=wait)
    return answer.view


def _redraw() -> None:
    """Have the sidebars drawn again: what they show was a moment old."""
    manager = bpy.context.window_manager
    for window in manager.windows if manager is not None else ():
        for area in window.screen.areas:
            for region in area.regions if area.type == "VIEW_3D" else ():
                if region.type == "UI":
                    region.tag_redraw()


def _original(ob: bpy.types.Object) -> bpy.types.Object:
    assert ob.original is not None
    return ob.original


def _baking_view(session_uid: int) -> View:
    assert _running is not None
    first, frame = _baking[session_uid], _running.frame
    last = first - 1 if frame is None else frame
    return View(BAKING, _running.text(), first, last)


def _look(ob: bpy.types.Object) -> View:
    if ob.type != "MESH" or not cloth_settings(ob).uid:
        return View()
    failure = _failures.get(ob.session_uid, "")
    own = results.own_path(ob)
    playing = results.playing_path(ob)
    resumable = ob.library is None and not _baking and results.unfinished_job(ob) is not None
    on_disk = own is not None and own.exists()
    deletable = resumable or on_disk or attach.is_attached(ob)
    from_keys = playing is None and attach.is_attached(ob)
    shown = own if from_keys else playing
    if from_keys and (shown is None or not shown.exists()):
        return View(
            ERROR if failure else BAKED,
            failure or "Baked to shape keys",
            resumable=resumable,
            deletable=True,
        )
    if shown is None:
        return View(ERROR if failure else NONE, failure, resumable=resumable, deletable=deletable)
    state, message, found = ERROR, "", None
    if not shown.exists():
        message = f'The baked file "{shown}" is missing; bake again or bring it back'
    else:
        try:
            found = results.read_sidecar(shown)
            state, message = _compare(ob, found)
            frames = 0 if found.frame_last is None else found.frame_last - found.frame_first + 1
            if pc2.read_header(shown, found.vertex_count).count < frames:
                state, message = ERROR, f'The baked file "{shown}" is cut short; bake again'
        except CacheError as error:
            message = str(error)
    if state == PARTIAL and not resumable and ob.library is None and not _baking:
        message += ". What Resume needs is gone; bake again"
    if failure:
        state, message = ERROR, failure
    if found is None:
        return View(state, message, resumable=resumable, deletable=deletable)
    times = [entry.seconds for entry in found.statistics]
    return View(
        state,
        message,
        found.frame_first,
        found.frame_first - 1 if found.frame_last is None else found.frame_last,
        playing=playing is not None,
        resumable=resumable,
        deletable=deletable,
        device=found.device,
        seconds_per_frame=sum(times) / len(times) if times else 0.0,
        method=method(found.statistics),
        warnings=found.warnings,
    )


def method(statistics: Sequence[FrameStatistics]) -> str:
    """What integrated the frames, with how many steps, and what the other way would take."""
    simulated = [entry for entry in statistics if entry.integrator]
    if not simulated:
        return ""
    names = [entry.integrator for entry in simulated]
    name = max(sorted(set(names)), key=names.count)
    chosen = [entry for entry in simulated if entry.integrator == name]

    def mean(values: Sequence[float]) -> str:
        return f"{sum(values) / len(values):.0f}"

    label = next(label for each, label, _ in INTEGRATORS if each == name)
    text = f"{label}: {mean([entry.substeps for entry in chosen])} steps per frame"
    if any(entry.iterations for entry in chosen):
        text += f", {mean([entry.iterations for entry in chosen])} iterations"
        text += f", residual {max(entry.residual or 0.0 for entry in chosen):.2g}"
    shares = [entry.explicit_share or 0.0 for entry in chosen]
    if name != "EXPLICIT" and max(shares) > 0.0:
        text += f", {100.0 * sum(shares) / len(shares):.0f} % of the springs explicit"
    others = [entry.explicit_steps for entry in chosen if entry.explicit_steps]
    if name != "EXPLICIT" and others:
        text += f" (explicit: {mean(others)} steps)"
    return text


def _compare(ob: bpy.types.Object, baked: Sidecar) -> tuple[str, str]:
    """State and message of an object that plays this bake."""
    problem = attach.verify(ob)
    if problem:
        return OUTDATED, problem
    scene = _scene_of(ob)
    if scene is None:
        return BAKED, ""
    first, last = capture.frame_range(scene, ob)
    if (first, last) != (baked.frame_first, baked.frame_end_wanted):
        return OUTDATED, (
            f"Baked for the frames {baked.frame_first} to {baked.frame_end_wanted}, "
            f"the range is {first} to {last} now"
        )
    # The bake's hash is made of those of the cloths that were baked together.
    if capture.settings_hash(ob, scene) not in baked.settings_hash.split():
        return OUTDATED, "A setting, the scene or the mesh changed since the bake"
    if not baked.complete:
        return PARTIAL, f"Stopped at frame {baked.frame_last} of {baked.frame_end_wanted}"
    return BAKED, ""


def _scene_of(ob: bpy.types.Object) -> bpy.types.Scene | None:
    scene = bpy.context.scene
    if scene is not None and ob.name in scene.objects:
        return scene
    return next((s for s in ob.users_scene), None)


# ---------------------------------------------------------------------- told by others


def show_baking(first_frames: dict[int, int], progress: Running | None) -> None:
    """Tell which objects (session_uid: first frame) are being baked."""
    global _running  # noqa: PLW0603 - one bake per Blender
    for uid in _baking.keys() - first_frames.keys():
        _answers.pop(uid, None)  # What was true before the bake is not to be shown after it.
    _baking.clear()
    _baking.update(first_frames)
    _running = progress


def remember_failure(session_uid: int, message: str) -> None:
    """Keep why the last bake of an object failed; nothing if it did not."""
    if message:
        _failures[session_uid] = message
    else:
        _failures.pop(session_uid, None)
    changes.mark(session_uid)


def remember_problems(
    objects: Iterable[bpy.types.Object], problems: Iterable[capture.Problem]
) -> None:
    """Keep what the check of these objects found, for the panel."""
    by_name: dict[str, list[capture.Problem]] = {}
    for problem in problems:
        by_name.setdefault(problem.object_name, []).append(problem)
    for ob in objects:
        _problems[ob.session_uid] = _glance(ob), by_name.get(ob.name, [])


def problems(ob: bpy.types.Object) -> list[capture.Problem]:
    """What the last check of the object found, unless it has changed visibly since."""
    seen, found = _problems.get(ob.session_uid, ((), []))
    return found if seen == _glance(ob) else []


def _glance(ob: bpy.types.Object) -> tuple[object, ...]:
    mesh, settings = ob.data, cloth_settings(ob)
    assert isinstance(mesh, bpy.types.Mesh)
    return (
        *(len(mesh.vertices), len(mesh.polygons), len(ob.vertex_groups), len(ob.modifiers)),
        *(settings.pin_group, settings.cache_folder, settings.use_scene_range),
        *(settings.frame_start, settings.frame_end, ob.hide_viewport),
    )


def forget(session_uid: int) -> None:
    """Forget an object that is no cloth any more."""
    for known in (_answers, _failures, _problems):
        known.pop(session_uid, None)
    changes.mark(session_uid)


def clear() -> None:
    """Forget all: another file was loaded, or the add-on goes."""
    for known in (_answers, _failures, _problems):
        known.clear()
    show_baking({}, None)
    changes.clear()
    if bpy.app.timers.is_registered(_redraw):
        bpy.app.timers.unregister(_redraw)


def undone() -> None:
    """Undo or redo: failures belong to what was undone."""
    _failures.clear()
    _problems.clear()
    changes.mark_all()
