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
    """Where a wind field blows: along its axis everywhere, or away from its origin."""

    PLANE = "PLANE"
    POINT = "POINT"


class FieldFalloff(Enum):
    """Which distance weakens a field: to its origin, or to its axis as well."""

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
        power: the speed falls with distance ** -power.
        minimum_distance: inside it there is no falloff; m.
        maximum_distance: beyond it there is no wind; m, infinity for none.
        one_sided: +1 or -1 keeps only that side of the origin along the axis, 0 both.
    """

    origin: Array
    axis: Array
    speed: float
    shape: FieldShape = FieldShape.PLANE
    falloff: FieldFalloff = FieldFalloff.SPHERE
    noise: float = 0.0
    seed: int = 0
    power: float = 0.0
    minimum_distance: float = 0.0
    maximum_distance: float = float("inf")
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
