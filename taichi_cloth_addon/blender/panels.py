# SPDX-License-Identifier: GPL-3.0-or-later
"""The sidebar tab. Draws, nothing else."""

from typing import TYPE_CHECKING

import bpy

from . import bake, checks, preferences, presets, selection, status
from .properties import (
    ClothSettings,
    cloth_settings,
    is_cloth,
    scene_settings,
    takes_quality,
)

CATEGORY = "Taichi Cloth"

FIXES = {
    "SUBDIVIDE": "taichi_cloth.subdivide",
    "PIN": "taichi_cloth.pin_selected",
}
WRAP = 46


def _text(layout: bpy.types.UILayout, text: str, icon: str = "NONE") -> None:
    """Labels do not wrap by themselves."""
    column = layout.column(align=True)
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split():
            if line and len(line) + 1 + len(word) > WRAP:
                column.label(text=line, translate=False, icon=icon)  # type: ignore[arg-type]
                line, icon = "", "BLANK1" if icon != "NONE" else "NONE"
            line = f"{line} {word}" if line else word
        column.label(text=line, translate=False, icon=icon)  # type: ignore[arg-type]
        icon = "BLANK1" if icon != "NONE" else "NONE"


class TAICHI_CLOTH_PT_main(bpy.types.Panel):
    """Object, preset, the Bake button and how it goes."""

    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = CATEGORY
    bl_label = "Taichi Cloth"

    def draw(self, context: bpy.types.Context) -> None:
        """Draw the main controls."""
        layout = self.layout
        assert layout is not None
        layout.use_property_split = True
        layout.use_property_decorate = False
        ob = selection.active_mesh(context)
        if ob is None:
            layout.label(text="Select a mesh object")
            self._progress(layout)
            return
        row = layout.row(align=True)
        row.label(text=ob.name, translate=False, icon="OBJECT_DATA")
        if is_cloth(ob):
            preset = row.row(align=True)
            preset.enabled = bake.current() is None
            preset.operator_menu_enum(
                "taichi_cloth.apply_preset",
                "preset",
                text=presets.matching(cloth_settings(ob)),
                icon="PRESET",
            )
            row.operator("taichi_cloth.remove", text="", icon="X")
        else:
            row.operator("taichi_cloth.add", text="Add Cloth")
        if not self._progress(layout):
            self._buttons(layout, ob)
        if is_cloth(ob):
            self._status(layout, ob)
            self._problems(layout, ob)

    def _progress(self, layout: bpy.types.UILayout) -> bool:
        session = bake.current()
        if session is None:
            return False
        progress = session.progress
        column = layout.column(align=True)
        row = column.row(align=True)
        row.progress(factor=progress.factor, type="BAR", text=progress.text())
        row.operator("taichi_cloth.cancel", text="", icon="CANCEL")
        for line in (progress.timing(), progress.device, *progress.messages):
            if line:
                _text(column, line)
        return True

    def _buttons(self, layout: bpy.types.UILayout, ob: bpy.types.Object) -> None:
        column = layout.column(align=True)
        row = column.row()
        row.scale_y = 1.4
        row.operator("taichi_cloth.bake", icon="PHYSICS")
        if not is_cloth(ob):
            return
        seen = status.peek(ob)
        if seen.resumable:
            column.operator("taichi_cloth.resume")
        if seen.deletable:
            row = column.row(align=True)
            row.operator("taichi_cloth.delete_bake")
            row.operator("taichi_cloth.to_shape_keys", text="To Shape Keys")

    def _status(self, layout: bpy.types.UILayout, ob: bpy.types.Object) -> None:
        seen = status.peek(ob)
        if seen.state in {status.NONE, status.BAKING}:
            return
        column = layout.column(align=True)
        frames = f"Frames {seen.frame_first} to {seen.frame_last}"
        match seen.state:
            case status.BAKED:
                column.label(text=f"Baked: {frames}", icon="CHECKMARK")
            case status.PARTIAL:
                column.label(text=f"Partly Baked: {frames}")
            case status.OUTDATED:
                column.label(text=f"Outdated: {frames}", icon="FILE_REFRESH")
            case _:
                column.label(text="Error", icon="ERROR")
        told = {problem.message for problem in status.problems(ob)}
        for line in seen.message.split("\n"):
            if line and line not in told:
                _text(column, line)
        if seen.playing and seen.seconds_per_frame:
            _text(column, f"{seen.seconds_per_frame:.2g} s per frame, {seen.device}")
            if seen.method:
                _text(column, seen.method)
        for warning in seen.warnings:
            _text(column, warning, "INFO")

    def _problems(self, layout: bpy.types.UILayout, ob: bpy.types.Object) -> None:
        if bake.current() is not None:
            return
        found = [(problem.message, problem.fix) for problem in status.problems(ob)]
        if not found:
            found = hints(ob)
        for message, fix in found:
            box = layout.box().column(align=True)
            _text(box, message, "INFO")
            if fix in FIXES:
                box.operator(FIXES[fix])


def hints(ob: bpy.types.Object) -> list[tuple[str, str]]:
    """What a glance at the object tells before any check: message and fix."""
    found = []
    mesh = ob.data
    assert isinstance(mesh, bpy.types.Mesh)
    if len(mesh.vertices) < checks.COARSE:
        found.append((f"{len(mesh.vertices)} vertices are too few for folds", "SUBDIVIDE"))
    if not cloth_settings(ob).pin_group:
        found.append(("Nothing is pinned, so the cloth falls", "PIN"))
    return found


if TYPE_CHECKING:
    from bpy.types import Panel as _PanelType
else:
    _PanelType = object


class _ClothPanel(_PanelType):
    """What the sub-panels share."""

    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = CATEGORY
    bl_parent_id = "TAICHI_CLOTH_PT_main"
    bl_options = {"DEFAULT_CLOSED"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Whether the active object is a cloth."""
        return selection.active_cloth(context) is not None

    def draw(self, context: bpy.types.Context) -> None:
        """Draw the settings, greyed while baking."""
        ob = selection.active_cloth(context)
        if ob is None:
            return
        layout = self.layout
        assert layout is not None
        layout.use_property_split = True
        layout.enabled = bake.current() is None
        self.draw_settings(layout, context, ob, cloth_settings(ob))

    def draw_settings(
        self,
        layout: bpy.types.UILayout,
        context: bpy.types.Context,
        ob: bpy.types.Object,
        settings: ClothSettings,
    ) -> None:
        """Draw the settings."""
        raise NotImplementedError


class TAICHI_CLOTH_PT_fabric(_ClothPanel, bpy.types.Panel):
    """What the cloth is made of."""

    bl_label = "Fabric"
    bl_options = set()

    def draw_settings(
        self,
        layout: bpy.types.UILayout,
        _context: bpy.types.Context,
        _ob: bpy.types.Object,
        settings: ClothSettings,
    ) -> None:
        """Draw the settings."""
        layout.prop(settings, "density")
        layout.prop(settings, "air_drag")
        layout.prop(settings, "strain_limit")


class TAICHI_CLOTH_PT_stiffness(_ClothPanel, bpy.types.Panel):
    """How the fabric resists."""

    bl_label = "Stiffness"
    bl_parent_id = "TAICHI_CLOTH_PT_fabric"
    bl_options = set()

    def draw_settings(
        self,
        layout: bpy.types.UILayout,
        _context: bpy.types.Context,
        _ob: bpy.types.Object,
        settings: ClothSettings,
    ) -> None:
        """Draw the settings."""
        column = layout.column(align=True)
        column.prop(settings, "tension_stiffness")
        column.prop(settings, "shear_stiffness")
        column.prop(settings, "bending_stiffness_micro", text="Bending (µ)")


class TAICHI_CLOTH_PT_damping(_ClothPanel, bpy.types.Panel):
    """How the fabric comes to rest."""

    bl_label = "Damping"
    bl_parent_id = "TAICHI_CLOTH_PT_fabric"

    def draw_settings(
        self,
        layout: bpy.types.UILayout,
        _context: bpy.types.Context,
        _ob: bpy.types.Object,
        settings: ClothSettings,
    ) -> None:
        """Draw the settings."""
        column = layout.column(align=True)
        column.prop(settings, "tension_damping")
        column.prop(settings, "shear_damping")
        column.prop(settings, "bending_damping_micro", text="Bending (µ)")


class TAICHI_CLOTH_PT_wind(_ClothPanel, bpy.types.Panel):
    """What blows on the cloth."""

    bl_label = "Wind"

    def draw_settings(
        self,
        layout: bpy.types.UILayout,
        _context: bpy.types.Context,
        _ob: bpy.types.Object,
        settings: ClothSettings,
    ) -> None:
        """Draw the settings."""
        layout.prop(settings, "use_wind")
        column = layout.column()
        column.active = settings.use_wind
        column.prop(settings, "wind_velocity")
        column.prop(settings, "wind_gusts")
        layout.prop(settings, "use_force_fields")


class TAICHI_CLOTH_PT_pins(_ClothPanel, bpy.types.Panel):
    """What holds the cloth."""

    bl_label = "Pins"

    def draw_settings(
        self,
        layout: bpy.types.UILayout,
        _context: bpy.types.Context,
        ob: bpy.types.Object,
        settings: ClothSettings,
    ) -> None:
        """Draw the settings."""
        layout.prop_search(settings, "pin_group", ob, "vertex_groups")
        row = layout.row()
        row.active = bool(settings.pin_group)
        row.prop(settings, "pin_stiffness")
        layout.operator("taichi_cloth.pin_selected")


class TAICHI_CLOTH_PT_cache(_ClothPanel, bpy.types.Panel):
    """Which frames are baked, and where to."""

    bl_label = "Cache & Range"

    def draw_settings(
        self,
        layout: bpy.types.UILayout,
        _context: bpy.types.Context,
        _ob: bpy.types.Object,
        settings: ClothSettings,
    ) -> None:
        """Draw the settings."""
        layout.prop(settings, "use_scene_range")
        column = layout.column(align=True)
        column.enabled = not settings.use_scene_range
        column.prop(settings, "frame_start")
        column.prop(settings, "frame_end")
        layout.prop(settings, "output")
        layout.prop(settings, "cache_folder")
        if not bpy.data.filepath:
            _text(layout, "The bake moves beside the .blend when the file is first saved", "INFO")


class TAICHI_CLOTH_PT_advanced(_ClothPanel, bpy.types.Panel):
    """How the cloth is computed."""

    bl_label = "Advanced"

    def draw_settings(
        self,
        layout: bpy.types.UILayout,
        context: bpy.types.Context,
        _ob: bpy.types.Object,
        settings: ClothSettings,
    ) -> None:
        """Draw the settings."""
        scene = context.scene
        assert scene is not None
        row = layout.row()
        row.active = takes_quality(settings)
        row.prop(settings, "quality")
        layout.prop(settings, "integrator")
        layout.prop(settings, "substeps")
        layout.prop(settings, "motion_samples")
        layout.prop(scene_settings(scene), "device")
        if scene_settings(scene).device == "AUTO":
            chosen = preferences.device(scene).value
            if chosen != "AUTO":
                _text(layout, f"The preferences choose {chosen}", "INFO")
        layout.operator("taichi_cloth.check_mesh")


CLASSES = (
    TAICHI_CLOTH_PT_main,
    TAICHI_CLOTH_PT_fabric,
    TAICHI_CLOTH_PT_stiffness,
    TAICHI_CLOTH_PT_damping,
    TAICHI_CLOTH_PT_wind,
    TAICHI_CLOTH_PT_pins,
    TAICHI_CLOTH_PT_cache,
    TAICHI_CLOTH_PT_advanced,
)
