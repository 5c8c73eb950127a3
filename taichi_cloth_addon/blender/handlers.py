# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender's application handlers. None of them does heavy work."""

import atexit
from collections.abc import Callable
from typing import Any

import bpy
from bpy.app.handlers import persistent

from . import bake, bake_operators, changes, finished, status
from .properties import is_cloth


@persistent  # type: ignore[untyped-decorator]
def _on_depsgraph_update(_scene: bpy.types.Scene, depsgraph: bpy.types.Depsgraph) -> None:
    for update in depsgraph.updates:
        original = update.id.original if update.id is not None else None
        if isinstance(original, bpy.types.Object):
            if update.is_updated_geometry and is_cloth(original):
                changes.mark(original.session_uid)
        elif isinstance(original, bpy.types.Scene):
            _look_at_scene(original)


_scenes: dict[int, tuple[object, ...]] = {}


def _look_at_scene(scene: bpy.types.Scene) -> None:
    """Blender tags the scene for a mere selection too, so look at what a bake depends on."""
    seen = (
        *(scene.frame_start, scene.frame_end, scene.use_custom_simulation_range),
        *(scene.simulation_frame_start, scene.simulation_frame_end),
        *(scene.render.fps, scene.render.fps_base),
        *(scene.render.frame_map_old, scene.render.frame_map_new),
        *(scene.use_gravity, scene.gravity[0], scene.gravity[1], scene.gravity[2]),
        *(scene.unit_settings.system, scene.unit_settings.scale_length),
    )
    if _scenes.get(scene.session_uid) != seen:
        _scenes[scene.session_uid] = seen
        changes.mark_all()


@persistent  # type: ignore[untyped-decorator]
def _on_undo(*_args: object) -> None:
    status.undone()


@persistent  # type: ignore[untyped-decorator]
def _on_load_pre(*_args: object) -> None:
    bake.shutdown()
    bake_operators.remove_timers()
    _scenes.clear()


@persistent  # type: ignore[untyped-decorator]
def _on_load_post(*_args: object) -> None:
    status.clear()


@persistent  # type: ignore[untyped-decorator]
def _on_save_pre(filepath: str = "", *_args: object) -> None:
    session = bake.current()
    if session is not None:
        session.put_back()  # The frame to be saved is the user's.
    elif filepath and not bpy.data.filepath:
        # Before the save and not after it, so that the file saved names the new place.
        finished.move_unsaved(filepath)


@persistent  # type: ignore[untyped-decorator]
def _on_save_post(*_args: object) -> None:
    changes.mark_all()


_HANDLERS: tuple[tuple[str, Callable[..., None]], ...] = (
    ("depsgraph_update_post", _on_depsgraph_update),
    ("undo_post", _on_undo),
    ("redo_post", _on_undo),
    ("load_pre", _on_load_pre),
    ("load_post", _on_load_post),
    ("save_pre", _on_save_pre),
    ("save_post", _on_save_post),
    ("exit_pre", _on_load_pre),  # Blender 5; before it atexit does.
)


def _lists() -> list[tuple[list[Any], Callable[..., None]]]:
    handlers = bpy.app.handlers
    return [(getattr(handlers, n), f) for n, f in _HANDLERS if hasattr(handlers, n)]


def _remove() -> None:
    for handlers, function in reversed(_lists()):
        if function in handlers:
            handlers.remove(function)


def _at_exit() -> None:
    """End the worker, and leave no handler: as a module, bpy calls them after Python's end."""
    bake.shutdown()
    _remove()


def register() -> None:
    """Add the handlers."""
    for handlers, function in _lists():
        handlers.append(function)
    atexit.register(_at_exit)


def unregister() -> None:
    """Remove the handlers; there are none any more where Python is at its end."""
    atexit.unregister(_at_exit)
    _remove()
