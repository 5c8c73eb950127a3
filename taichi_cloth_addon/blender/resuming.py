# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cancelled bake goes on with: which of the settings it takes over, and when it cannot.

What is simulated next follows the scene as it is now: fabric, wind, gravity, the end of the
range, integrator, substeps, device. The frames that are done stay, and notes in the sidecar say
what is different about them. A cloth that is not where it was would jump, so that is refused, as
are another first frame and another frame rate.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import bpy
import numpy as np

from ..cache import job as jobs
from ..cache import resume, sidecar
from ..cache.frames import FrameBlock
from ..cache.job import Job
from ..engine.solver import SolverOptions
from . import attach, capture, effectors, results
from .plans import BakeError, Group, Plan, Target
from .properties import DEVICES, INTEGRATORS, QUALITIES, cloth_settings

_TOLERANCE = 1e-4
"""Share of a cloth's size by which it may be off its place: not seen, and more than rounding."""


def plan(scene: bpy.types.Scene, objects: Sequence[bpy.types.Object]) -> Plan:
    """Plan to go on with cancelled bakes of the objects and of those baked with them.

    Raises:
        BakeError: there is none, an object of it is gone, or it cannot go on.
    """
    groups: dict[Path, Group] = {}
    notices: list[str] = []
    by_uid = {cloth_settings(ob).uid: ob for ob in scene.objects if ob.type == "MESH"}
    # A fresh duplicate has the uid of its original; what was asked for comes first.
    by_uid.update({cloth_settings(ob).uid: ob for ob in objects})
    for ob in objects:
        folder = results.unfinished_job(ob)
        if folder is None or folder in groups:
            continue
        job = jobs.read_job(folder)
        found = []
        for cloth in job.cloths:
            if cloth.uid not in by_uid:
                raise BakeError(
                    f"{cloth.part.name} was baked together with {ob.name} and is gone; "
                    "bake again from the start"
                )
            found.append(by_uid[cloth.uid])
        last = _last_frame(scene, found, job, folder)
        if last != job.frame_end:
            notices.append(f"{ob.name}: the bake goes on to frame {last}, not {job.frame_end}")
        targets = [Target(one.name, one.session_uid, cloth_settings(one).uid) for one in found]
        groups[folder] = Group(tuple(targets), job.frame_start, last)
    if not groups:
        raise BakeError("There is no cancelled bake to resume; use Bake Cloth")
    return Plan(list(groups.values()), notices)


def _last_frame(
    scene: bpy.types.Scene, objects: Sequence[bpy.types.Object], job: Job, folder: Path
) -> int:
    """Check what decides the frames; return where the bake ends now."""
    name = objects[0].name
    fps = effectors.frames_per_second(scene)
    if not math.isclose(fps, job.fps, rel_tol=1e-6):
        raise BakeError(
            f"{name}: the cancelled bake has {job.fps:.6g} frames per second, the scene has "
            f"{fps:.6g} now. Set it back to resume, or bake again"
        )
    ranges = {capture.frame_range(scene, ob) for ob in objects}
    if len(ranges) > 1:
        names = ", ".join(ob.name for ob in objects)
        raise BakeError(
            f"{names} were baked together and have different ranges now. Set them alike to "
            "resume, or bake again"
        )
    first, last = ranges.pop()
    if first != job.frame_start:
        raise BakeError(
            f"{name}: the cancelled bake starts at frame {job.frame_start}, the range at {first} "
            "now. Set it back to resume, or bake again"
        )
    state = jobs.read_state(folder)
    if state is not None and last < state[0]:
        raise BakeError(
            f"{name}: frames up to {state[0]} are done, and the range ends at {last} now. End it "
            "later to resume, or bake again"
        )
    return last


def prepare(
    scene: bpy.types.Scene,
    objects: Sequence[bpy.types.Object],
    captured: capture.Capture,
) -> tuple[Path, int]:
    """Make the cancelled bake of the objects one that goes on with the scene as it is now.

    The job of ``captured`` becomes the one that goes on.

    Args:
        scene: the scene.
        objects: in the order of the job.
        captured: the scene at the first frame.

    Returns:
        The job folder and the first frame that the worker needs.

    Raises:
        BakeError: the bake cannot go on. The text names the object and the way out.
        CacheError: the disk refuses.
    """
    folder = results.unfinished_job(objects[0])
    if folder is None:
        raise BakeError(f"The cancelled bake of {objects[0].name} is gone; bake again")
    old = jobs.read_job(folder)
    _check_meshes(old, captured.job)
    state = jobs.read_state(folder)
    reached = old.frame_start if state is None else state[0]
    block = captured.first if reached == old.frame_start else captured.block(reached)
    before = jobs.read_frame(folder, reached, cloth_count=len(old.cloths), pin_count=old.pin_count)
    _check_places(old, captured, before, block)
    if results.is_carried(objects[0], folder):
        targets = [Path(cloth.pc2) for cloth in captured.job.cloths]
        folder = resume.carry(folder, targets)
        for ob, source, target in zip(objects, old.cloths, targets, strict=True):
            if results.playing_path(ob) == Path(source.pc2) and target.exists():
                attach.attach(ob, target, old.frame_start, scene)
    captured.job = _merged(old, captured.job, reached)
    jobs.remove_frames(folder, after=reached)
    if before is None:
        jobs.write_frame(folder, block)
    jobs.update_job(folder, captured.job)
    return folder, reached + 1


def _check_meshes(old: Job, new: Job) -> None:
    for was, now in zip(old.cloths, new.cloths, strict=True):
        same_pins = np.array_equal(was.part.pin_vertices, now.part.pin_vertices)
        if was.topology_hash != now.topology_hash or not same_pins:
            raise BakeError(
                f"The mesh or the pins of {now.part.name} changed since the bake was "
                "cancelled; bake again from the start"
            )


def _check_places(
    old: Job, captured: capture.Capture, before: FrameBlock | None, block: FrameBlock
) -> None:
    """Check that the cloths are where the frames done end."""
    pin = 0
    for i, (was, now) in enumerate(zip(old.cloths, captured.job.cloths, strict=True)):
        name, shape = now.part.name, now.part.rest
        # What Blender has in float32 is rounded, the more the farther away it is.
        tolerance = _TOLERANCE * float(np.ptp(shape, axis=0).max())
        tolerance += 8.0 * float(np.spacing(np.float32(np.abs(shape).max())))
        pins = slice(pin, pin + len(now.part.pin_vertices))
        pin = pins.stop
        if before is not None:
            local = _moved(shape, np.linalg.inv(captured.first.matrices[i]))
            corners = np.array([local.min(axis=0), local.max(axis=0)])
            corners = np.array(np.meshgrid(*corners.T)).reshape(3, -1).T
            was_there = _moved(corners, before.matrices[i])
            off = _distance(was_there, _moved(corners, block.matrices[i]))
            if off > tolerance:
                raise BakeError(
                    f"{name} was moved since its bake was cancelled: it is {_length(off)} from "
                    f"where it was at frame {block.frame}. Move it back to resume, or bake again"
                )
            targets = [each.inputs.samples[-1].pin_targets[pins] for each in (before, block)]
            off = _distance(*targets)
            if off > tolerance:
                raise BakeError(
                    f"The pins of {name} were moved since its bake was cancelled: they are up to "
                    f"{_length(off)} from where they were at frame {block.frame}. Move them back "
                    "to resume, or bake again"
                )
        off = _distance(was.part.rest, shape)
        if off > tolerance:
            raise BakeError(
                f"{name} has another shape or place at frame {old.frame_start} than when its "
                f"bake was cancelled, up to {_length(off)} away. Undo that to resume, or bake "
                "again"
            )


def _moved(points: capture.Array, matrix: capture.Array) -> capture.Array:
    return np.asarray(points @ matrix[:3, :3].T + matrix[:3, 3])


def _distance(one: capture.Array, other: capture.Array) -> float:
    return float(np.linalg.norm(one - other, axis=1).max(initial=0.0))


def _length(metres: float) -> str:
    return f"{1000.0 * metres:.3g} mm" if metres < 0.1 else f"{metres:.3g} m"  # noqa: PLR2004


def _merged(old: Job, new: Job, reached: int) -> Job:
    """The new job, with the shape that the frames done started from."""
    cloths = []
    for was, now in zip(old.cloths, new.cloths, strict=True):
        shape = was.part
        part = replace(now.part, mesh=shape.mesh, rest=shape.rest, positions=shape.positions)
        cloths.append(replace(now, part=part))
    settings, notes = new.settings_hash, []
    if sidecar.what_of(old.settings_hash) != sidecar.what_of(new.settings_hash):
        # The status goes on saying that the bake is not of the settings as they are.
        what = sidecar.what_of(old.settings_hash)
        how = [each.rpartition(".")[2] for each in new.settings_hash.split()]
        settings = " ".join(f"{a}.{b}" for a, b in zip(what, how, strict=True))
        notes.append(
            f"Resumed after frame {reached} with other settings; the frames up to there have "
            "the earlier ones"
        )
    changes = _differences(old, new)
    if changes:
        notes.append(f"From frame {reached + 1} on: {', '.join(changes)}")
    return replace(new, cloths=tuple(cloths), settings_hash=settings, notes=(*new.notes, *notes))


def _differences(old: Job, new: Job) -> list[str]:
    """How it is simulated, where that changed."""
    found = []
    if old.options.integrator is not new.options.integrator:
        was, now = (_label(INTEGRATORS, o.options.integrator.value) for o in (old, new))
        found.append(f"integrator {now} instead of {was}")
    if old.options.quality is not new.options.quality:
        was, now = (_label(QUALITIES, o.options.quality.value) for o in (old, new))
        found.append(f"quality {now} instead of {was}")
    if old.options.substeps != new.options.substeps:
        found.append(f"{_substeps(new.options)} instead of {_substeps(old.options)}")
    if old.device is not new.device:
        was, now = (_label(DEVICES, job.device.value) for job in (old, new))
        found.append(f"device {now} instead of {was}")
    return found


def _label(items: Sequence[tuple[str, str, str]], name: str) -> str:
    return next((label for each, label, _ in items if each == name), name)


def _substeps(options: SolverOptions) -> str:
    return f"{options.substeps} substeps" if options.substeps else "automatic substeps"
