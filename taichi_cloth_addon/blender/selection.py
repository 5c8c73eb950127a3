# SPDX-License-Identifier: GPL-3.0-or-later
"""Which objects an operator works on, and why it cannot."""

from collections.abc import Callable, Sequence

import bpy

from . import bake
from .properties import cloth_settings, is_cloth


def active_mesh(context: bpy.types.Context) -> bpy.types.Object | None:
    """The active object if it is a mesh."""
    ob = context.object
    return ob if ob is not None and ob.type == "MESH" else None


def active_cloth(context: bpy.types.Context) -> bpy.types.Object | None:
    """The active object if it is a cloth."""
    ob = active_mesh(context)
    return ob if ob is not None and is_cloth(ob) else None


def selected_meshes(context: bpy.types.Context) -> list[bpy.types.Object]:
    """The active and the selected mesh objects, the active one first."""
    active = active_mesh(context)
    others = [ob for ob in context.selected_objects if ob.type == "MESH" and ob != active]
    return others if active is None else [active, *others]


def bake_objects(context: bpy.types.Context) -> list[bpy.types.Object]:
    """The active mesh object and the selected cloths."""
    active = active_mesh(context)
    return [ob for ob in selected_meshes(context) if ob == active or is_cloth(ob)]


def locked(ob: bpy.types.Object) -> str:
    """Why modifiers and properties of the object cannot be changed, or nothing."""
    if ob.library is not None:
        return f"{ob.name} is linked from a library; make a library override or make it local"
    if ob.override_library is not None and ob.override_library.is_system_override:
        return f"{ob.name} is a library override that is not editable; make it editable"
    return ""


def wrong_mode(ob: bpy.types.Object) -> str:
    """Why the object cannot be read in the mode it is in, or nothing."""
    if ob.mode == "EDIT":
        return f"{ob.name} is in Edit Mode; press Tab to leave it"
    if ob.mode == "SCULPT" and ob.use_dynamic_topology_sculpting:
        return f"{ob.name} is sculpted with Dyntopo; switch Dyntopo off or leave Sculpt Mode"
    return ""


def refuse(operator: type[bpy.types.Operator], reason: str) -> bool:
    """Set the reason that Blender shows for a greyed button, and return False."""
    operator.poll_message_set(reason)
    return False


def ready(
    operator: type[bpy.types.Operator],
    objects: Sequence[bpy.types.Object],
    *checks: Callable[[bpy.types.Object], str],
) -> bool:
    """Whether there are objects, no bake runs, and every check passes on each object."""
    if not objects:
        return refuse(operator, "Select a mesh object")
    if bake.current() is not None:
        return refuse(operator, "A bake is running; wait for it or cancel it")
    for ob in objects:
        for check in (locked, *checks):
            reason = check(ob)
            if reason:
                return refuse(operator, reason)
    return True


def no_cloth(ob: bpy.types.Object) -> str:
    """Why the object is no cloth, or nothing."""
    return "" if cloth_settings(ob).enabled else f"{ob.name} is no cloth yet; press Add Cloth"
