# SPDX-License-Identifier: GPL-3.0-or-later
"""F-curves and drivers across Blender versions, and the drivers that switch at a frame.

Such a driver is a simple expression (``frame >= 51``): Blender evaluates it without Python,
so it works where scripts are not allowed to run, on a render farm, and at sub-frames. It sits
on the data-block itself, not in an action, so an action shared with other objects stays as
it is.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal

import bpy

Interpolation = Literal["CONSTANT", "LINEAR"]

_SWITCH = re.compile(r"frame (>=|<) -?[0-9.]+(e[+-]?[0-9]+)?")


def fcurves(block: bpy.types.ID) -> Iterator[bpy.types.FCurve]:
    """F-curves of the data-block's own action (those of its slot, where actions have slots)."""
    data = getattr(block, "animation_data", None)
    action = data.action if data else None
    if data is None or action is None:
        return
    if not hasattr(action, "layers"):
        yield from action.fcurves
        return
    for bag in _bags(block):
        yield from bag.fcurves


def _bags(block: bpy.types.ID) -> Iterator["bpy.types.ActionChannelbag"]:
    """Where an action with slots keeps the F-curves of this data-block."""
    data = getattr(block, "animation_data", None)
    slot = data.action_slot if data else None
    if data is None or data.action is None or slot is None:
        return
    for layer in data.action.layers:
        for strip in layer.strips:
            if isinstance(strip, bpy.types.ActionKeyframeStrip):
                bag = strip.channelbag(slot)
                if bag is not None:
                    yield bag


def drivers(block: bpy.types.ID) -> list[bpy.types.FCurve]:
    """Drivers on the data-block."""
    data = getattr(block, "animation_data", None)
    return list(data.drivers) if data else []


def curves_on(block: bpy.types.ID, path: str) -> list[bpy.types.FCurve]:
    """F-curves and drivers that rule the property at ``path``."""
    return [c for c in (*fcurves(block), *drivers(block)) if c.data_path == path]


def is_animated(block: bpy.types.ID, path: str) -> bool:
    """Whether an F-curve or driver rules the property at ``path``."""
    return bool(curves_on(block, path))


def property_path(collection: str, name: str, attribute: str) -> str:
    """Path of an attribute of a named item, such as ``modifiers["Cloth"].factor``."""
    return f'{collection}["{bpy.utils.escape_identifier(name)}"].{attribute}'


def add_switch(block: bpy.types.ID, path: str, time: float, *, before: bool) -> None:
    """Drive a property: 1 from ``time`` on and 0 before it, or the other way round.

    Args:
        block: the data-block.
        path: of the property.
        time: frame, as the animation counts it (time remapping applied).
        before: the property is 1 before that time instead.
    """
    remove_switch(block, path)
    curve = block.driver_add(path)
    assert isinstance(curve, bpy.types.FCurve)
    driver = curve.driver
    assert driver is not None
    driver.type = "SCRIPTED"
    driver.expression = f"frame {'<' if before else '>='} {time:.9g}"


def switches(block: bpy.types.ID) -> list[bpy.types.FCurve]:
    """Drivers on the data-block that ``add_switch`` made."""
    return [
        curve
        for curve in drivers(block)
        if curve.driver is not None and _SWITCH.fullmatch(curve.driver.expression)
    ]


def remove_switch(block: bpy.types.ID, path: str) -> bool:
    """Remove the switch on ``path`` if there is one; whether there was."""
    for curve in switches(block):
        if curve.data_path == path:
            block.driver_remove(path)
            return True
    return False


def tidy(block: bpy.types.ID) -> None:
    """Remove animation data that holds nothing."""
    data = getattr(block, "animation_data", None)
    if data and not data.action and not len(data.drivers) and not len(data.nla_tracks):
        block.animation_data_clear()


def ensure_fcurve(block: bpy.types.ID, path: str) -> bpy.types.FCurve:
    """The F-curve on ``path`` in the data-block's action, made if it is missing."""
    for curve in fcurves(block):
        if curve.data_path == path:
            return curve
    data: Any = block.animation_data_create()
    if data.action is None:
        data.action = bpy.data.actions.new(f"{block.name} Action")
    action = data.action
    owner: Any = action
    if hasattr(action, "layers"):
        if data.action_slot is None:
            data.action_slot = action.slots.new(block.id_type, block.name)
        layer = action.layers[0] if len(action.layers) else action.layers.new("Layer")
        strip = layer.strips[0] if len(layer.strips) else layer.strips.new(type="KEYFRAME")
        owner = strip.channelbag(data.action_slot, ensure=True)
    made: bpy.types.FCurve = owner.fcurves.new(path)
    return made


def set_points(
    curve: bpy.types.FCurve,
    points: list[tuple[float, float]],
    interpolations: list[Interpolation],
) -> None:
    """Give an F-curve these (time, value) points and nothing else."""
    keys = curve.keyframe_points
    keys.clear()
    keys.add(len(points))
    for key, (time, value), interpolation in zip(keys, points, interpolations, strict=True):
        key.co = (time, value)
        key.handle_left = (time - 0.3, value)
        key.handle_right = (time + 0.3, value)
        key.interpolation = interpolation
    curve.extrapolation = "CONSTANT"
    curve.update()


def remove_curves(block: bpy.types.ID, paths: set[str]) -> None:
    """Remove the F-curves on these paths, and the action if it is empty then and unused."""
    data = getattr(block, "animation_data", None)
    action = data.action if data else None
    if data is None or action is None:
        return
    groups: list[Any] = [action] if not hasattr(action, "layers") else list(_bags(block))
    for group in groups:
        for curve in [c for c in group.fcurves if c.data_path in paths]:
            group.fcurves.remove(curve)
    if not any(len(group.fcurves) for group in groups):
        data.action = None
        if not action.users:
            bpy.data.actions.remove(action)
