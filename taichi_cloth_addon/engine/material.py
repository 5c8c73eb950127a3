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

from dataclasses import dataclass, fields
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

    density: float = 0.12
    tension_stiffness: float = 1000.0
    shear_stiffness: float = 40.0
    bending_stiffness: float = 9.0e-6
    tension_damping: float = 0.12
    shear_damping: float = 0.12
    bending_damping: float = 3.0e-8
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
        0.001,
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
        1e-5,
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


# Densities are those of the trade. Stiffnesses follow measured samples where there is one: of
# Wang, O'Brien and Ramamoorthi 2011, named in quotes with their bending stiffness, else
# cantilever tests in the literature (ASTM D1388). Within what is measured the bending stiffness
# is chosen so that the disc of ``benchmarks/drape.py`` falls into the fabric's published range
# of drape coefficients. Tension is at the low end of what is measured: a stiffer sheet looks the
# same and takes smaller steps. Damping of bending is 1 to 4 ms of its stiffness; more would
# do to explicit steps what more stiffness does. Damping of tension and shear is 1 m²/s of the
# density: with a tenth of it a hanging cloth trembles in its plane for half a minute.
_COTTON = Fabric()
_VISCOSITY = Fabric.tension_damping / Fabric.density


def _fabric(density: float, **values: float) -> Fabric:
    damping = _VISCOSITY * density
    return Fabric(density, tension_damping=damping, shear_damping=damping, **values)


PRESETS: tuple[Preset, ...] = (
    Preset("COTTON", "Cotton", "Plain woven cotton, as in a shirt", _COTTON),
    Preset(
        "SILK",
        "Silk",
        "Light and supple, falls in many small folds",
        # Habotai: cantilever 1 to 3 µN m.
        _fabric(
            density=0.07,
            tension_stiffness=800.0,
            shear_stiffness=12.0,
            bending_stiffness=1.2e-6,
            bending_damping=4e-9,
        ),
    ),
    Preset(
        "DENIM",
        "Denim",
        "Heavy and stiff, as in jeans",
        # "11 oz black denim": 72 (20 to 121) µN m; an 11 to 13 oz cloth.
        _fabric(
            density=0.4,
            tension_stiffness=1000.0,
            shear_stiffness=69.0,
            bending_stiffness=7.2e-5,
            bending_damping=1e-7,
        ),
    ),
    Preset(
        "WOOL",
        "Wool",
        "Wool suiting: heavier than cotton, rounder folds",
        # Worsted: cantilever 8 to 20 µN m.
        _fabric(
            density=0.25,
            tension_stiffness=800.0,
            shear_stiffness=30.0,
            bending_stiffness=1.2e-5,
            bending_damping=3e-8,
        ),
    ),
    Preset(
        "JERSEY",
        "Jersey",
        "Knit that stretches, as in a T-shirt",
        # "Gray interlock": c11 17 to 140, c22 34 to 414 N/m, shear near 0, 22 (7 to 39) µN m.
        _fabric(
            density=0.19,
            tension_stiffness=140.0,
            shear_stiffness=10.0,
            bending_stiffness=7e-6,
            bending_damping=2e-8,
        ),
    ),
    Preset(
        "FLAG",
        "Flag Nylon",
        "Very light synthetic, as in flags and kites",
        # Taffeta and ripstop: cantilever 0.5 to 2 µN m.
        _fabric(
            density=0.06,
            tension_stiffness=800.0,
            shear_stiffness=12.0,
            bending_stiffness=8e-7,
            bending_damping=3e-9,
        ),
    ),
    Preset(
        "CANVAS",
        "Canvas",
        "Thick cotton duck, as in tents and bags",
        # "Royal target", a firm twill, has 171 (108 to 228) µN m at half the weight.
        _fabric(
            density=0.45,
            tension_stiffness=2000.0,
            shear_stiffness=120.0,
            bending_stiffness=2.2e-4,
            bending_damping=2e-7,
        ),
    ),
    Preset(
        "LEATHER",
        "Leather",
        "Garment leather: heavy, few broad folds",
        # 0.8 to 1 mm of sheepskin, as stiff in shear as a sheet without a weave.
        _fabric(
            density=0.7,
            tension_stiffness=2000.0,
            shear_stiffness=300.0,
            bending_stiffness=4.5e-5,
            bending_damping=6e-8,
        ),
    ),
    Preset(
        "FELT",
        "Felt",
        "Thick and boardy, hardly folds",
        # "Pink ribbon brown", a blanket, has 121 (36 to 299) µN m; no weave, so stiff in shear.
        _fabric(
            density=0.35,
            tension_stiffness=600.0,
            shear_stiffness=120.0,
            bending_stiffness=1.2e-4,
            bending_damping=1.2e-7,
        ),
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
