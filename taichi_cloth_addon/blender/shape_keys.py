# SPDX-License-Identifier: GPL-3.0-or-later
"""A bake as shape keys. Writes keys and drivers; part of ``attach``.

One key per frame. A mesh without keys of the artist's gets absolute keys played by their
evaluation time; a mesh with relative keys gets relative ones, each up for its frame, and while
the bake plays, the artist's keys are muted by a driver. Modifiers whose deformation is already
in the baked shape are switched off by drivers for as long as well. Before the first frame all
is as ever, and ``remove`` takes it all off again.
"""

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import numpy.typing as npt

from ..cache import pc2
from . import animation, effectors, evaluated, stack

_SPACING = 10.0
"""Evaluation time from one absolute key to the next (Blender's own)."""
_BYTES_PER_VERTEX = 12
_SWITCHES = ("show_viewport", "show_render")


class AttachError(Exception):
    """A bake cannot be put on an object. The text names it and the way out."""


def estimate_shape_keys(vertex_count: int, frames: int) -> int:
    """Bytes that the keys of a bake add to the .blend (in memory as well)."""
    return vertex_count * (frames + 1) * _BYTES_PER_VERTEX


def has_keys(ob: bpy.types.Object) -> bool:
    """Whether the object plays a bake from shape keys."""
    return isinstance(ob.data, bpy.types.Mesh) and bool(evaluated.own_keys(ob))


def make(ob: bpy.types.Object, scene: bpy.types.Scene, path: Path) -> int:
    """Put a point cache on the object as shape keys; the bytes they take.

    Raises:
        AttachError: the object cannot get such keys.
        CacheError: the file cannot be read or does not fit.
    """
    mesh = evaluated.base_mesh(ob)
    if mesh.is_editmode:
        raise AttachError(f'"{ob.name}" is in Edit Mode. Leave it (Tab) to get shape keys.')
    header = pc2.read_header(path, len(mesh.vertices))
    frames = pc2.read_frames(path)
    if not len(frames):
        raise AttachError(f'"{path}" has no frames. Bake again.')
    place = evaluated.place_of(ob, evaluated.view_layer_of(scene, ob))
    relative = len(evaluated.user_keys(ob)) > 1
    problem = place.error or _obstacle(ob, place.before, relative)
    if problem:
        raise AttachError(problem)
    remove(ob)
    if mesh.library is not None or mesh.users - mesh.use_fake_user > 1:
        ob.data = mesh.copy()
        mesh = evaluated.base_mesh(ob)
    length = effectors.frame_length(scene)
    first = round(header.start)
    if relative:
        _make_relative(ob, mesh, frames, first, length)
    else:
        _make_absolute(ob, mesh, frames, first, length)
    _switch_modifiers(ob, place.before, first * length)
    return estimate_shape_keys(len(mesh.vertices), len(frames))


def _obstacle(ob: bpy.types.Object, before: tuple[str, ...], relative: bool) -> str:
    """Why the object cannot get such keys, and the way out; empty if it can."""
    keys = evaluated.base_mesh(ob).shape_keys
    if keys is not None and relative:
        if not keys.use_relative:
            return (
                f'"{ob.name}" has absolute shape keys, which cannot play beside a bake. '
                "Keep the point cache, or apply the keys."
            )
        for key in evaluated.user_keys(ob)[1:]:
            if _animated(keys, animation.property_path("key_blocks", key.name, "mute")):
                return (
                    f'"{ob.name}": the mute switch of the shape key "{key.name}" is animated, so '
                    "it cannot be used for the bake. Keep the point cache."
                )
    for name in before:
        for attribute in _SWITCHES:
            if _animated(ob, animation.property_path("modifiers", name, attribute)):
                return (
                    f'"{ob.name}": the visibility of the modifier "{name}" is animated, so it '
                    "cannot be switched off for shape keys. Keep the point cache."
                )
    return ""


def _animated(block: bpy.types.ID, path: str) -> bool:
    """Whether the artist animates the property."""
    own = [curve.data_path for curve in animation.switches(block)]
    return path not in own and animation.is_animated(block, path)


def _add_key(
    ob: bpy.types.Object, frame: int, positions: npt.NDArray[np.float32]
) -> bpy.types.ShapeKey:
    key = ob.shape_key_add(name=f"{evaluated.KEY_PREFIX}{frame}", from_mix=False)
    key.data.foreach_set("co", np.ascontiguousarray(positions, np.float32).reshape(-1))
    return key


def _make_absolute(
    ob: bpy.types.Object,
    mesh: bpy.types.Mesh,
    frames: npt.NDArray[np.float32],
    first: int,
    length: float,
) -> None:
    if mesh.shape_keys is None:
        ob.shape_key_add(name=f"{evaluated.KEY_PREFIX}Rest", from_mix=False)
    keys = mesh.shape_keys
    assert keys is not None
    for index, positions in enumerate(frames):
        _add_key(ob, first + index, positions)
    keys.use_relative = False
    for key in keys.key_blocks:
        key.interpolation = "KEY_LINEAR"
    ob.active_shape_key_index = 0
    start, end = first * length, (first + len(frames) - 1) * length
    times = [key.frame for key in keys.key_blocks]
    # Evaluation time 0 is the basis: what the mesh is before the bake.
    points = [(start - length, times[0]), (start, times[1])]
    kinds: list[animation.Interpolation] = ["CONSTANT", "LINEAR"]
    if end > start:
        points.append((end, times[-1]))
        kinds.append("LINEAR")
    animation.set_points(animation.ensure_fcurve(keys, "eval_time"), points, kinds)


def _make_relative(
    ob: bpy.types.Object,
    mesh: bpy.types.Mesh,
    frames: npt.NDArray[np.float32],
    first: int,
    length: float,
) -> None:
    keys = mesh.shape_keys
    assert keys is not None
    basis = keys.reference_key
    for key in evaluated.user_keys(ob)[1:]:
        path = animation.property_path("key_blocks", key.name, "mute")
        if not key.mute:
            animation.add_switch(keys, path, first * length, before=False)
    last = len(frames) - 1
    for index, positions in enumerate(frames):
        key = _add_key(ob, first + index, positions)
        key.relative_key = basis
        key.value = 0.0
        time = (first + index) * length
        points = [(time - length, 0.0), (time, 1.0), (time + length, 0.0)]
        kinds: list[animation.Interpolation] = ["LINEAR", "LINEAR", "LINEAR"]
        if index == 0:  # it comes at once
            kinds[0] = "CONSTANT"
        if index == last:  # and the last one stays
            points.pop()
            kinds.pop()
        path = animation.property_path("key_blocks", key.name, "value")
        animation.set_points(animation.ensure_fcurve(keys, path), points, kinds)


def _switch_modifiers(ob: bpy.types.Object, before: tuple[str, ...], time: float) -> None:
    """Switch off, while the bake plays, what moves the mesh in front of it."""
    for name in before:
        modifier = ob.modifiers[name]
        if stack.role(modifier) is stack.Role.WEIGHTS:
            continue
        for attribute in _SWITCHES:
            path = animation.property_path("modifiers", name, attribute)
            if getattr(modifier, attribute):
                animation.add_switch(ob, path, time, before=True)


def remove(ob: bpy.types.Object) -> None:
    """Take off the shape keys of a bake and what came with them."""
    if not has_keys(ob):
        return
    for curve in animation.switches(ob):
        owner, _, attribute = curve.data_path.rpartition(".")
        if attribute not in _SWITCHES:
            continue
        modifier = ob.path_resolve(owner)
        ob.driver_remove(curve.data_path)
        setattr(modifier, attribute, True)
    animation.tidy(ob)
    mesh = evaluated.base_mesh(ob)
    keys = mesh.shape_keys
    assert keys is not None
    own = evaluated.own_keys(ob)
    for curve in animation.switches(keys):
        owner, _, attribute = curve.data_path.rpartition(".")
        if attribute == "mute":
            key: Any = keys.path_resolve(owner)
            keys.driver_remove(curve.data_path)
            key.mute = False
    _remove_curves(keys, own)
    for key in reversed(own):  # the rest shape last
        ob.shape_key_remove(key)
    keys = mesh.shape_keys
    if keys is not None:
        if not keys.use_relative:
            keys.use_relative = True
        animation.tidy(keys)


def _remove_curves(keys: bpy.types.Key, own: list[bpy.types.ShapeKey]) -> None:
    paths = {animation.property_path("key_blocks", key.name, "value") for key in own}
    if not keys.use_relative:
        paths.add("eval_time")
    animation.remove_curves(keys, paths)
