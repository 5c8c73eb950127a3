# SPDX-License-Identifier: GPL-3.0-or-later
"""Fabric presets on an object: apply one, and tell which one the settings are."""

import math

from ..engine.material import PRESETS, Fabric, Preset, fabric_names
from .properties import ClothSettings

ITEMS = tuple((preset.identifier, preset.label, preset.description) for preset in PRESETS)


def apply(settings: ClothSettings, identifier: str) -> Preset:
    """Set the fabric of the preset.

    Raises:
        KeyError: there is no such preset.
    """
    for preset in PRESETS:
        if preset.identifier == identifier:
            for name in fabric_names():
                setattr(settings, name, getattr(preset.fabric, name))
            return preset
    raise KeyError(identifier)


def matching(settings: ClothSettings) -> str:
    """Label of the preset whose values the settings have, or "Custom"."""
    for preset in PRESETS:
        if _equal(settings, preset.fabric):
            return preset.label
    return "Custom"


def _equal(settings: ClothSettings, fabric: Fabric) -> bool:
    # Blender keeps single precision.
    return all(
        math.isclose(getattr(settings, name), getattr(fabric, name), rel_tol=1e-5, abs_tol=1e-12)
        for name in fabric_names()
    )
