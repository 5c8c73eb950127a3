# SPDX-License-Identifier: GPL-3.0-or-later
"""Fabric parameters in SI units, their ranges, and presets.

The sheet is described per area and per width, so that a value means the same cloth
at any mesh resolution:

* ``tension_stiffness`` Y [N/m]: a strip of width w pulled with F stretches by F / (w Y).
* ``shear_stiffness`` G [N/m]: likewise for shear.
* ``bending_stiffness`` B [N m]: bending moment per width and curvature.

Presets follow measured membranes (Wang, O'Brien, Ramamoorthi 2011, "Data-driven elastic
models for cloth") and published areal densities and drape coefficients (BS 5058).
"""

from dataclasses import dataclass, fields, replace
from enum import Enum


class Unit(Enum):
    """Unit of a parameter, as shown to the user."""

    DENSITY = "kg/m²"
    STIFFNESS = "N/m"
    BENDING = "N·m"
    DAMPING = "N·s/m"
    BENDING_DAMPING = "N·m·s"
    NONE = ""


@dataclass(frozen=True)
class Parameter:
    """Name, default and range of one fabric parameter (SI units)."""

    name: str
    label: str
    description: str
    unit: Unit
    default: float
    minimum: float
    maximum: float
    soft_minimum: float
    soft_maximum: float


@dataclass(frozen=True)
class Fabric:
    """One fabric. All values in SI units; see the module text for their meaning.

    Raises:
        ValueError: a value is not finite or outside its parameter's range.
    """

    density: float = 0.15
    tension_stiffness: float = 2000.0
    shear_stiffness: float = 50.0
    bending_stiffness: float = 5.0e-5
    tension_damping: float = 0.02
    shear_damping: float = 0.02
    bending_damping: float = 2.0e-7
    air_drag: float = 1.0

    def __post_init__(self) -> None:
        for parameter in PARAMETERS:
            value = getattr(self, parameter.name)
            if not parameter.minimum <= value <= parameter.maximum:
                raise ValueError(
                    f"{parameter.label} is {value:g} {parameter.unit.value}; it must lie between "
                    f"{parameter.minimum:g} and {parameter.maximum:g}"
                )


PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "density",
        "Density",
        "Mass of a square metre of the fabric",
        Unit.DENSITY,
        Fabric.density,
        1e-3,
        100.0,
        0.02,
        2.0,
    ),
    Parameter(
        "tension_stiffness",
        "Tension",
        "Resistance to stretching: pull per width of a strip over its relative stretch",
        Unit.STIFFNESS,
        Fabric.tension_stiffness,
        0.1,
        1e6,
        10.0,
        10_000.0,
    ),
    Parameter(
        "shear_stiffness",
        "Shear",
        "Resistance to shearing of the weave",
        Unit.STIFFNESS,
        Fabric.shear_stiffness,
        0.0,
        1e6,
        0.0,
        2000.0,
    ),
    Parameter(
        "bending_stiffness",
        "Bending",
        "Resistance to bending: moment per width over curvature",
        Unit.BENDING,
        Fabric.bending_stiffness,
        0.0,
        10.0,
        0.0,
        0.01,
    ),
    Parameter(
        "tension_damping",
        "Tension",
        "Viscosity against stretching",
        Unit.DAMPING,
        Fabric.tension_damping,
        0.0,
        1e4,
        0.0,
        10.0,
    ),
    Parameter(
        "shear_damping",
        "Shear",
        "Viscosity against shearing",
        Unit.DAMPING,
        Fabric.shear_damping,
        0.0,
        1e4,
        0.0,
        10.0,
    ),
    Parameter(
        "bending_damping",
        "Bending",
        "Viscosity against bending",
        Unit.BENDING_DAMPING,
        Fabric.bending_damping,
        0.0,
        1.0,
        0.0,
        1e-4,
    ),
    Parameter(
        "air_drag",
        "Air Drag",
        "Drag coefficient of the fabric in the air; 0 is a vacuum, without wind too",
        Unit.NONE,
        Fabric.air_drag,
        0.0,
        100.0,
        0.0,
        5.0,
    ),
)


@dataclass(frozen=True)
class Preset:
    """A named fabric, as offered in the panel."""

    identifier: str
    label: str
    description: str
    fabric: Fabric


_COTTON = Fabric()

PRESETS: tuple[Preset, ...] = (
    Preset("COTTON", "Cotton", "Plain woven cotton, as in a shirt", _COTTON),
    Preset(
        "SILK",
        "Silk",
        "Light and supple, falls in many small folds",
        replace(_COTTON, density=0.075, shear_stiffness=20.0, bending_stiffness=4.0e-6),
    ),
    Preset(
        "DENIM",
        "Denim",
        "Heavy and stiff, as in jeans",
        replace(_COTTON, density=0.4, shear_stiffness=100.0, bending_stiffness=3.0e-4),
    ),
)


def parameter(name: str) -> Parameter:
    """Return the parameter called ``name``.

    Raises:
        KeyError: there is none of that name.
    """
    for candidate in PARAMETERS:
        if candidate.name == name:
            return candidate
    raise KeyError(name)


def fabric_names() -> tuple[str, ...]:
    """Names of the fabric fields, in order."""
    return tuple(field.name for field in fields(Fabric))
