# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators that set a cloth up: add, preset, check, and the repairs that the panel offers."""

import math
from typing import TYPE_CHECKING, Literal

import bmesh
import bpy
from bpy.props import EnumProperty, IntProperty

from . import attach, capture, presets, selection, status
from .properties import cloth_settings, ensure_uid, is_cloth

Result = set[Literal["RUNNING_MODAL", "CANCELLED", "FINISHED", "PASS_THROUGH", "INTERFACE"]]

PIN_GROUP = "Pin"
CELLS = 1000
"""Faces that Subdivide aims at."""
MAX_CUTS = 100


class TAICHI_CLOTH_OT_add(bpy.types.Operator):
    """Make cloth of the selected meshes."""

    bl_description = "Make cloth of the selected meshes"
    bl_idname = "taichi_cloth.add"
    bl_label = "Add Cloth"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Whether a mesh is selected."""
        return selection.ready(cls, selection.selected_meshes(context))

    def execute(self, context: bpy.types.Context) -> Result:
        """Switch the settings on, and other simulations of the meshes off."""
        for ob in selection.selected_meshes(context):
            cloth_settings(ob).enabled = True
            ensure_uid(ob)
            for name in attach.disable_rival_modifiers(ob):
                self.report({"WARNING"}, f'The modifier "{name}" of {ob.name} was switched off')
        return {"FINISHED"}


class TAICHI_CLOTH_OT_apply_preset(bpy.types.Operator):
    """Set the fabric of the selected cloths."""

    bl_description = "Set the fabric of the selected cloths"
    bl_idname = "taichi_cloth.apply_preset"
    bl_label = "Fabric Preset"
    bl_options = {"REGISTER", "UNDO"}

    if TYPE_CHECKING:
        preset: str
    else:
        preset: EnumProperty(name="Fabric", description="A known fabric", items=presets.ITEMS)

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Whether the active object is a cloth."""
        ob = selection.active_mesh(context)
        return selection.ready(cls, [] if ob is None else [ob], selection.no_cloth)

    def execute(self, context: bpy.types.Context) -> Result:
        """Set it on the active and the selected cloths."""
        for ob in filter(is_cloth, selection.bake_objects(context)):
            presets.apply(cloth_settings(ob), self.preset)
        return {"FINISHED"}


class TAICHI_CLOTH_OT_check_mesh(bpy.types.Operator):
    """Look for what would spoil a bake of the selected cloths."""

    bl_description = "Look for what would spoil a bake of the selected cloths"
    bl_idname = "taichi_cloth.check_mesh"
    bl_label = "Check Mesh"
    bl_options = {"REGISTER"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Whether there is a mesh that can be read."""
        return selection.ready(cls, selection.bake_objects(context), selection.wrong_mode)

    def execute(self, context: bpy.types.Context) -> Result:
        """List every problem of every object."""
        scene = context.scene
        assert scene is not None
        objects = selection.bake_objects(context)
        problems = capture.check(scene, objects)
        status.remember_problems(objects, problems)
        errors = [p.message for p in problems if p.severity == "ERROR"]
        for problem in problems:
            if problem.severity != "ERROR":
                self.report({"WARNING"}, problem.message)
        if errors:
            self.report({"ERROR"}, "\n".join(errors))
            return {"CANCELLED"}
        if not problems:
            self.report({"INFO"}, "No problems found")
        return {"FINISHED"}


class TAICHI_CLOTH_OT_subdivide(bpy.types.Operator):
    """Divide the faces of the mesh, so that the cloth can fold."""

    bl_description = "Divide the faces of the mesh, so that the cloth can fold"
    bl_idname = "taichi_cloth.subdivide"
    bl_label = "Subdivide"
    bl_options = {"REGISTER", "UNDO"}

    if TYPE_CHECKING:
        cuts: int
    else:
        cuts: IntProperty(
            name="Cuts",
            description="Cuts per edge; 0 aims at about a thousand faces",
            default=0,
            min=0,
            max=MAX_CUTS,
        )

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Whether the active object is a mesh in a mode where it can be changed."""
        ob = selection.active_mesh(context)
        return selection.ready(cls, [] if ob is None else [ob], selection.wrong_mode)

    def execute(self, context: bpy.types.Context) -> Result:
        """Divide every edge; UV maps, vertex groups and shape keys go along."""
        ob = context.object
        assert ob is not None
        mesh = _mesh(ob)
        if mesh.users > 1:
            ob.data = mesh.copy()
            mesh = _mesh(ob)
        if not len(mesh.polygons):
            self.report({"ERROR"}, f"{ob.name} has no faces to divide; add faces to the mesh")
            return {"CANCELLED"}
        cuts = self.cuts or cuts_for(len(mesh.polygons))
        grid = bmesh.new()
        try:
            grid.from_mesh(mesh)
            large = [face for face in grid.faces if len(face.verts) > 4]  # noqa: PLR2004 - quad
            bmesh.ops.triangulate(grid, faces=large)
            bmesh.ops.subdivide_edges(
                grid,
                edges=[edge for edge in grid.edges if edge.link_faces],
                cuts=cuts,
                use_grid_fill=True,
            )
            grid.to_mesh(mesh)
        finally:
            grid.free()
        mesh.update()
        status.remember_problems([ob], [])
        self.report({"INFO"}, f"{ob.name} has {len(mesh.polygons)} faces now")
        return {"FINISHED"}


def _mesh(ob: bpy.types.Object) -> bpy.types.Mesh:
    assert isinstance(ob.data, bpy.types.Mesh)
    return ob.data


def cuts_for(faces: int) -> int:
    """Cuts per edge that bring a mesh of so many faces to about CELLS."""
    return max(1, min(MAX_CUTS, math.ceil(math.sqrt(CELLS / faces)) - 1))


class TAICHI_CLOTH_OT_pin_selected(bpy.types.Operator):
    """Pin the vertices that are selected in Edit Mode: they hold the cloth."""

    bl_description = "Pin the vertices that are selected in Edit Mode: they hold the cloth"
    bl_idname = "taichi_cloth.pin_selected"
    bl_label = "Pin Selected Vertices"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Whether the active object is a mesh."""
        ob = selection.active_mesh(context)
        return selection.ready(cls, [] if ob is None else [ob])

    def execute(self, context: bpy.types.Context) -> Result:
        """Put them into the pin group, which is made if there is none."""
        ob = context.object
        assert ob is not None
        mesh = _mesh(ob)
        editing = ob.mode == "EDIT"
        edited = bmesh.from_edit_mesh(mesh) if editing else None
        if edited is not None:
            selected = [v.index for v in edited.verts if v.select and not v.hide]
            total = len(edited.verts)
        else:
            selected = [v.index for v in mesh.vertices if v.select and not v.hide]
            total = len(mesh.vertices)
        if not selected or (len(selected) == total and not editing):
            what = "No vertex is" if not selected else "All vertices are"
            self.report(
                {"ERROR"},
                f"{what} selected on {ob.name}; select the ones to pin in Edit Mode",
            )
            return {"CANCELLED"}
        settings = cloth_settings(ob)
        group = ob.vertex_groups.get(settings.pin_group) if settings.pin_group else None
        if group is None:
            group = ob.vertex_groups.new(name=settings.pin_group or PIN_GROUP)
        if edited is not None:
            layer = edited.verts.layers.deform.verify()
            edited.verts.ensure_lookup_table()
            for index in selected:
                edited.verts[index][layer][group.index] = 1.0
            bmesh.update_edit_mesh(mesh, loop_triangles=False, destructive=False)
        else:
            group.add(selected, 1.0, "REPLACE")
        settings.pin_group = group.name
        status.remember_problems([ob], [])
        self.report({"INFO"}, f'{len(selected)} vertices are in "{group.name}" now')
        return {"FINISHED"}


CLASSES = (
    TAICHI_CLOTH_OT_add,
    TAICHI_CLOTH_OT_apply_preset,
    TAICHI_CLOTH_OT_check_mesh,
    TAICHI_CLOTH_OT_subdivide,
    TAICHI_CLOTH_OT_pin_selected,
)
