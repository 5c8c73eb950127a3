# SPDX-License-Identifier: GPL-3.0-or-later
"""The Blender side: the only place that imports bpy."""

import bpy

from . import (
    bake,
    bake_operators,
    cli,
    fix_operators,
    handlers,
    panels,
    preferences,
    properties,
    status,
)

CLASSES = (
    properties.ClothSettings,
    properties.SceneSettings,
    status.ClothStatus,
    preferences.TAICHI_CLOTH_AP_preferences,
    *fix_operators.CLASSES,
    *bake_operators.CLASSES,
    *panels.CLASSES,
)

POINTERS = (
    (bpy.types.Object, "taichi_cloth", properties.ClothSettings),
    (bpy.types.Object, "taichi_cloth_status", status.ClothStatus),
    (bpy.types.Scene, "taichi_cloth", properties.SceneSettings),
)


def register() -> None:
    """Register classes, pointers, handlers and the command line, in this order."""
    for cls in CLASSES:
        bpy.utils.register_class(cls)
    for owner, name, cls in POINTERS:
        pointer = bpy.props.PointerProperty(type=cls, override={"LIBRARY_OVERRIDABLE"})
        setattr(owner, name, pointer)
    handlers.register()
    cli.register()


def unregister() -> None:
    """End a running bake and undo ``register`` in reverse order."""
    bake.shutdown()
    bake_operators.remove_timers()
    cli.unregister()
    handlers.unregister()
    for owner, name, _cls in reversed(POINTERS):
        delattr(owner, name)
    for cls in reversed(CLASSES):
        bpy.utils.unregister_class(cls)
    status.clear()
