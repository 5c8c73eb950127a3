# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that `bench speed` measures: the one place to edit.

A setting is written with the names of the add-on's properties, which are those of
SolverOptions: the same row then drives the engine and a whole bake.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from taichi_cloth_addon.engine.solver import SolverOptions

Settings = dict[str, str | int]


@dataclass(frozen=True)
class Variant:
    """One of our settings.

    Attributes:
        name: for tables and plots.
        settings: fields of SolverOptions; an enum by its name.
        largest: vertices up to which it is measured.
        others: whether it is also measured on other meshes and stiffnesses.
    """

    name: str
    settings: Settings
    largest: int = 1 << 20
    others: bool = False


def solver_options(settings: Settings) -> SolverOptions:
    """The engine's options."""
    default = SolverOptions()
    values: dict[str, Any] = {}
    for name, value in settings.items():
        kind = type(getattr(default, name))
        values[name] = kind[value] if issubclass(kind, Enum) else value
    return SolverOptions(**values)


_IMPLICIT = "IMPLICIT"
_QUALITIES = (
    Variant("Draft", {"integrator": _IMPLICIT, "quality": "DRAFT"}, others=True),
    Variant("Normal", {"integrator": _IMPLICIT, "quality": "NORMAL"}, others=True),
    Variant("Final", {"integrator": _IMPLICIT, "quality": "FINAL"}, others=True),
)

VARIANTS: tuple[Variant, ...] = (
    Variant("Draft, 1 step", {"integrator": _IMPLICIT, "quality": "DRAFT", "substeps": 1}),
    *_QUALITIES,
    Variant("Normal, 6 steps", {"integrator": _IMPLICIT, "quality": "NORMAL", "substeps": 6}),
    Variant("Automatic", {"integrator": "AUTO"}),
    Variant("Explicit", {"integrator": "EXPLICIT"}, 256**2),
    Variant("SOR", {"integrator": "SOR"}, 64**2),
)
# That which is compared with Blender's quality 20, by itself and by whole bakes.
DEFAULT = "Normal"

# Blender's own cloth: quality steps, and the vertices up to which each is measured.
QUALITIES: dict[int, int] = {5: 256**2, 20: 256**2, 80: 256**2}
BAKED_QUALITY = 20

# Cloth Dynamics: even substeps, constraint steps. Each column of the ladder is climbed until it
# stretches less than every variant of ours. More than 160 substeps are not to be compared: rounding
# then takes a part of gravity away.
LADDERS: dict[int, tuple[int, ...]] = {
    1: (10, 20, 40, 80, 160),
    2: (40, 80, 160),
    4: (20, 40, 80, 160),
    15: (6, 10, 20, 40, 80, 160),
}
# Stiffnesses (N/m) of ours in that comparison: a soft cloth stretches as much as a cheap rung.
STRIP_STIFFNESSES = (1000.0, 100.0, 10.0)

SIZES = (64, 128, 256)
QUICK_SIZES = (32, 64)
STIFFNESSES = (100.0, 1000.0, 10_000.0)
# Vertices of the sheets of random points.
RANDOM = (4096, 16_384, 65_536)
# Each step of refinement of a garment cuts every triangle in four.
REFINEMENTS = (0, 1, 2)
BAKED_FRAMES = 100
