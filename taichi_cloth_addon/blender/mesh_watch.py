# SPDX-License-Identifier: GPL-3.0-or-later
"""Notices that a mesh gets other vertices or polygons while it is baked."""

from collections.abc import Sequence

import bpy

from . import capture, changes


class MeshWatch:
    """The meshes of a running bake as they were at its start."""

    def __init__(self, objects: Sequence[bpy.types.Object], topology: Sequence[str]) -> None:
        """Remember the meshes.

        Args:
            objects: that are baked.
            topology: hash of each one's mesh; see ``capture.topology_hash``.
        """
        uids = [ob.session_uid for ob in objects]
        self._topology = dict(zip(uids, topology, strict=True))
        self._stamps = {uid: changes.stamp(uid) for uid in uids}
        self._sizes = {ob.session_uid: _sizes(ob) for ob in objects}

    def changed(self, objects: Sequence[bpy.types.Object]) -> str:
        """Name of an object whose mesh is another one now, or nothing.

        A mesh in Edit Mode counts when the user leaves it.
        """
        for ob in objects:
            uid = ob.session_uid
            if _in_edit_mode(ob):
                continue
            if _sizes(ob) != self._sizes[uid]:
                return ob.name
            stamp = changes.stamp(uid)
            if stamp == self._stamps[uid]:
                continue
            self._stamps[uid] = stamp
            if capture.topology_hash(ob) != self._topology[uid]:
                return ob.name
        return ""


def _sizes(ob: bpy.types.Object) -> tuple[int, ...]:
    mesh = capture.base_mesh(ob)
    return len(mesh.vertices), len(mesh.edges), len(mesh.polygons), len(mesh.loops)


def edited(objects: Sequence[bpy.types.Object]) -> str:
    """Name of an object whose mesh is in Edit Mode, or nothing."""
    return next((ob.name for ob in objects if _in_edit_mode(ob)), "")


def _in_edit_mode(ob: bpy.types.Object) -> bool:
    """Whether the mesh is edited, also through another object that shares it."""
    return ob.mode == "EDIT" or capture.base_mesh(ob).is_editmode
