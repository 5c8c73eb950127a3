# SPDX-License-Identifier: GPL-3.0-or-later
"""What a frame brings from outside: gravity, wind, force fields and pin targets.

A frame holds one or more samples, evenly spaced in time, the last one at the frame itself.
Between samples everything is linear in time.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from .material import Fabric

Array = npt.NDArray[np.float64]


class FieldShape(Enum):
    """From what the distance to a wind field is measured, for SPHERE falloff.

    From its origin, from the line along its axis, or from the plane across it. Whatever its
    shape, it blows along its axis.
    """

    POINT = "POINT"
    LINE = "LINE"
    PLANE = "PLANE"


class FieldFalloff(Enum):
    """What weakens a field.

    SPHERE: the distance that its shape says. TUBE: the distance along the axis, and the one from
    the axis. CONE: the distance along the axis, and the angle to the axis as seen from the origin.
    """

    SPHERE = "SPHERE"
    TUBE = "TUBE"
    CONE = "CONE"


@dataclass(frozen=True)
class WindField:
    """A wind force-field object at one instant (world space, SI units).

    Attributes:
        origin: (3,) position in m.
        axis: (3,) unit vector, the direction it blows.
        speed: air speed in m/s at no distance; negative blows backwards.
        noise: share of the speed that varies at random in space and time, 0 or more.
        seed: seed of that noise.
        power: the speed falls with (1 + distance / unit) ** -power.
        minimum_distance: inside it there is no falloff, beyond it counts what exceeds it; m.
        maximum_distance: beyond it there is no wind; m, infinity for none.
        radial_power: likewise for the distance from the axis (TUBE; m) or the angle (CONE; °,
            with a unit of 1°).
        radial_minimum: likewise; m or °.
        radial_maximum: likewise; m or °.
        unit: of the distances in the power laws, m.
        one_sided: +1 or -1 keeps only that side of the origin along the axis, 0 both.
    """

    origin: Array
    axis: Array
    speed: float
    shape: FieldShape = FieldShape.POINT
    falloff: FieldFalloff = FieldFalloff.SPHERE
    noise: float = 0.0
    seed: int = 0
    power: float = 0.0
    minimum_distance: float = 0.0
    maximum_distance: float = float("inf")
    radial_power: float = 0.0
    radial_minimum: float = 0.0
    radial_maximum: float = float("inf")
    unit: float = 1.0
    one_sided: int = 0


@dataclass(frozen=True)
class Sample:
    """The outside world at one instant (world space, SI units).

    Attributes:
        gravity: (3,) acceleration in m/s², of each cloth's scene.
        wind: (C, 3) wind velocity of each of the C cloths in m/s.
        pin_targets: (P, 3) where the pinned vertices of the model want to be; m.
        fields: wind fields, acting on the cloths that ask for fields.
    """

    gravity: Array
    wind: Array
    pin_targets: Array
    fields: tuple[WindField, ...] = ()


@dataclass(frozen=True)
class FrameInputs:
    """All that one frame brings.

    Attributes:
        samples: one or more, evenly spaced, the last at the frame. The first frame of a bake
            has one.
        fabrics: the C fabrics as they are at this frame.
        gusts: (C,) strength of the gusts of each cloth's wind, as a share of its speed.
    """

    samples: tuple[Sample, ...]
    fabrics: tuple[Fabric, ...]
    gusts: Array
