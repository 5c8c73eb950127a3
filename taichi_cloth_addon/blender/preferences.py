# SPDX-License-Identifier: GPL-3.0-or-later
"""Preferences of the extension, and the folders that belong to the user."""

from pathlib import Path
from typing import TYPE_CHECKING

import bpy
from bpy.props import EnumProperty

from ..engine.solver import Device
from . import cache_paths
from .properties import DEVICES, scene_settings

PACKAGE = __package__.rpartition(".")[0]


class TAICHI_CLOTH_AP_preferences(bpy.types.AddonPreferences):
    """What depends on the machine and not on the file."""

    bl_idname = PACKAGE

    if TYPE_CHECKING:
        device: str
    else:
        device: EnumProperty(
            name="Device",
            description="Where cloth is computed; without the chosen device the CPU is used",
            items=DEVICES,
            default="AUTO",
            options=set(),
        )

    def draw(self, _context: bpy.types.Context) -> None:
        """Draw the preferences."""
        layout = self.layout
        layout.use_property_split = True
        layout.prop(self, "device")
        column = layout.column()
        column.active = False
        column.label(text="Compiled kernels are kept, so that only the first bake compiles")
        column.label(text=str(user_folder("kernels", create=False)))


def device(scene: bpy.types.Scene) -> Device:
    """The device for a bake of this scene: the scene's own choice, or that of the preferences."""
    choice = scene_settings(scene).device
    if choice == "AUTO":
        preferences = bpy.context.preferences
        assert preferences is not None
        if PACKAGE in preferences.addons:
            ours = preferences.addons[PACKAGE].preferences
            if isinstance(ours, TAICHI_CLOTH_AP_preferences):
                choice = ours.device
    return Device(choice)


def user_folder(name: str, *, create: bool = True) -> Path:
    """A folder of the extension that survives an upgrade of it."""
    folder = cache_paths.user_folder() / name
    if create:
        folder.mkdir(parents=True, exist_ok=True)
    return folder
