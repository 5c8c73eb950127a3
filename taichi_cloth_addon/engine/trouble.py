# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a cloth is stretched beyond what fabric bears, or blew up; in words of its settings.

Each cause gets a score from the data at hand, about 1 where it begins to explain trouble; the
largest one is told.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .inputs import FrameInputs
from .material import Fabric, parameter
from .model import ClothModel
from .solver import SolverOptions
from .springs import SpringKind
from .wind import air_velocity

Array = npt.NDArray[np.float64]

LARGE_STRAIN = 0.5
"""From here on a stretch is told."""
_TWICE = 2.0
_AIR_DENSITY = 1.204
# A load that would stretch the cloth so far where it is held explains a large strain.
_LOAD_STRAIN = 0.3
# As does a pin that moves so far in a frame, as a share of the cloth's size.
_FAR = 0.5
_GRAVITY = 50.0
_MANY = 200
# Springs at a time.
_PIECE = 1 << 16


@dataclass(frozen=True)
class Cause:
    """What a cloth suffers from.

    Attributes:
        kind: a word for it.
        score: how well it explains trouble.
        text: what it is and what helps, for the user.
    """

    kind: str
    score: float
    text: str


@dataclass(frozen=True)
class Moment:
    """A frame that went wrong.

    Attributes:
        model: what is simulated.
        positions: (V, 3) before that frame, as in the state.
        before: inputs of the frame before.
        now: inputs of the frame.
        time: s since the first frame, before it.
        duration: s of a frame.
        options: the user's choices.
    """

    model: ClothModel
    positions: npt.NDArray[np.float32]
    before: FrameInputs
    now: FrameInputs
    time: float
    duration: float
    options: SolverOptions


class Watch:
    """Tells of stretched cloths; the same sentence until it becomes much worse."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, str], tuple[float, str]] = {}

    def warnings(self, moment: Moment, positions: npt.NDArray[np.float32]) -> tuple[str, ...]:
        """Sentences about the cloths that are stretched too far.

        Args:
            moment: the frame.
            positions: (V, 3) after it.
        """
        found = []
        for cloth, strain in enumerate(strains(moment.model, positions)):
            if strain <= LARGE_STRAIN:
                continue
            cause = _largest([*_loads(moment, cloth), _no_cause_for_stretch()])
            before, text = self._told.get((cloth, cause.kind), (0.0, ""))
            if strain > _TWICE * before:
                text = f'"{moment.model.parts[cloth].name}" is {_stretch(strain)}: {cause.text}'
                self._told[cloth, cause.kind] = strain, text
            found.append(text)
        return tuple(found)


def blow_up(moment: Moment, positions: npt.NDArray[np.float32]) -> str:
    """A sentence about the cloth that blew up, and what helps.

    Args:
        moment: the frame.
        positions: (V, 3) after it, not all finite.
    """
    causes = {
        cloth: _largest(
            [*_loads(moment, cloth), *_stiffness(moment, cloth), _no_cause_for_blow_up()]
        )
        for cloth, own in enumerate(moment.model.slices)
        if not np.isfinite(positions[own]).all()
    }
    # One cloth may take the others along.
    cloth = max(causes, key=lambda each: causes[each].score)
    text = f'"{moment.model.parts[cloth].name}" blew up: {causes[cloth].text}'
    if moment.options.substeps:
        text += f", or set Substeps to 0 (now {moment.options.substeps}): the solver chooses then"
    return text


def strains(model: ClothModel, positions: npt.NDArray[np.float32]) -> list[float]:
    """Largest relative stretch of a structural spring of each cloth."""
    network = model.network
    worst = [0.0] * len(model.slices)
    for start in range(0, len(network.vertices), _PIECE):
        piece = slice(start, start + _PIECE)
        rest = network.rest_length[piece]
        structural = (network.kind[piece] == SpringKind.STRUCTURAL) & (rest > 0.0)
        first, second = network.vertices[piece][structural].T
        length = np.linalg.norm((positions[second] - positions[first]).astype(np.float64), axis=1)
        strain = length / rest[structural] - 1.0
        for cloth, own in enumerate(model.slices):
            mine = strain[(first >= own.start) & (first < own.stop)]
            worst[cloth] = float(mine.max(initial=worst[cloth]))
    return worst


def _largest(causes: Sequence[Cause]) -> Cause:
    return max(causes, key=lambda cause: cause.score)


def _stretch(strain: float) -> str:
    if strain < 1.0:
        return f"stretched by {100.0 * strain:.0f} %"
    return f"stretched to {_number(1.0 + strain, 2)} times its length"


def _number(value: float, digits: int = 3) -> str:
    """In so many digits; a large number to the unit, not as a power of ten."""
    return (
        f"{value:.{digits}g}"
        if value < 10.0**digits
        else f"{value:,.0f}".replace(",", "\N{NO-BREAK SPACE}")
    )


def _no_cause_for_stretch() -> Cause:
    return Cause("", 1.0, "raise its Tension, or pin more of its vertices")


def _no_cause_for_blow_up() -> Cause:
    return Cause("", 1.0, "lower its Tension, or let what moves it go more slowly")


def _loads(moment: Moment, cloth: int) -> list[Cause]:
    """What pulls at a cloth from outside."""
    return [*_weight(moment, cloth), *_wind(moment, cloth), *_pins(moment, cloth)]


def _held_strain(moment: Moment, cloth: int, pressure: float) -> float:
    """Stretch where the cloth is held, if a load per area (Pa) pulled it all one way."""
    model = moment.model
    part, own = model.parts[cloth], model.slices[cloth]
    area = float(model.mass[own].sum()) / part.fabric.density
    side = np.sqrt(area)
    pins = len(part.pin_vertices)
    width = side if not pins else min(pins * side / np.sqrt(part.mesh.vertex_count), side)
    return pressure * area / (float(width) * part.fabric.tension_stiffness)


def _weight(moment: Moment, cloth: int) -> list[Cause]:
    fabric = _fabric(moment, cloth)
    gravity = max(float(np.linalg.norm(sample.gravity)) for sample in moment.now.samples)
    score = _held_strain(moment, cloth, fabric.density * gravity) / _LOAD_STRAIN
    if gravity > _GRAVITY:
        text = f"gravity is {_number(gravity)} m/s². Set the scene's gravity to about -9.81"
        return [Cause("gravity", max(score, gravity / _GRAVITY), text)]
    return [
        Cause(
            "weight",
            score,
            "it is too heavy for so soft a fabric. Raise its Tension, lower its Density, or pin "
            "more of its vertices",
        )
    ]


def _wind(moment: Moment, cloth: int) -> list[Cause]:
    fabric = _fabric(moment, cloth)
    model, part = moment.model, moment.model.parts[cloth]
    own = model.slices[cloth]
    points = moment.positions[own].astype(np.float64)
    points = points[:: max(1, len(points) // _MANY)] + model.origin
    speed, panels = 0.0, 0.0
    for sample in (moment.before.samples[-1], *moment.now.samples):
        wind = sample.wind[cloth]
        gusts = float(moment.now.gusts[cloth])
        air = air_velocity(points, sample, wind, gusts, moment.time, part.use_fields)
        speed = max(speed, float(np.linalg.norm(air, axis=1).max()))
        own_air = air_velocity(points, sample, wind, gusts, moment.time, False)
        panels = max(panels, float(np.linalg.norm(own_air, axis=1).max()))
    pressure = 0.5 * _AIR_DENSITY * fabric.air_drag * speed**2
    score = _held_strain(moment, cloth, pressure) / _LOAD_STRAIN
    told = f"too strong for it ({_number(speed)} m/s). Lower"
    if panels > 0.5 * speed:
        text = f"the wind is {told} its Velocity or Gusts"
    else:
        text = f"the wind of the force fields is {told} their Strength"
    return [Cause("wind", score, text + ", or raise its Density and Tension")]


def _pins(moment: Moment, cloth: int) -> list[Cause]:
    parts = moment.model.parts
    count = len(parts[cloth].pin_vertices)
    if not count:
        return []
    start = sum(len(part.pin_vertices) for part in parts[:cloth])
    own = slice(start, start + count)
    samples = moment.now.samples
    way = [s.pin_targets[own] for s in (moment.before.samples[-1], *samples)]
    interval = moment.duration / len(samples)
    step = max(
        float(np.linalg.norm(there - here, axis=1).max()) for here, there in itertools.pairwise(way)
    )
    rest = parts[cloth].rest
    size = float(np.ptp(rest, axis=0).max())
    moved = step * len(samples)
    found = [
        Cause(
            "pin speed",
            moved / (_FAR * size),
            f"its pins move at {_number(step / interval)} m/s, {_number(moved)} m in a frame. "
            "Slow their animation down, or move the object before the bake starts",
        )
    ]
    at_rest = _spread(rest[parts[cloth].pin_vertices])
    if at_rest > 0.0:
        apart = max(_spread(targets) for targets in way) / at_rest
        found.append(
            Cause(
                "pins apart",
                (apart - 1.0) / _LOAD_STRAIN,
                f"its pins are {_number(apart, 2)} times as far apart as at the first frame. "
                "Move them closer together, or pin fewer vertices",
            )
        )
    return found


def _spread(points: Array) -> float:
    return float(np.linalg.norm(points - points.mean(axis=0), axis=1).max())


def _stiffness(moment: Moment, cloth: int) -> list[Cause]:
    """What makes the steps of a cloth hard to solve."""
    fabric = _fabric(moment, cloth)
    found = []
    for name in (
        "tension_stiffness",
        "shear_stiffness",
        "bending_stiffness",
        "tension_damping",
        "shear_damping",
        "bending_damping",
    ):
        spec, value = parameter(name), float(getattr(fabric, name))
        kind = "Damping" if name.endswith("damping") else "Stiffness"
        text = (
            f"its {kind} {spec.label} is very high ({_number(value)} {spec.unit.value}). Lower it"
        )
        found.append(Cause(name, value / spec.soft_maximum, text))
    light = parameter("density")
    text = f"it is very light ({_number(fabric.density)} {light.unit.value}). Raise its Density"
    found.append(Cause("density", light.soft_minimum / fabric.density, text))
    return found


def _fabric(moment: Moment, cloth: int) -> Fabric:
    return moment.now.fabrics[cloth]
