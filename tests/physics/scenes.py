# SPDX-License-Identifier: GPL-3.0-or-later
"""Small scenes for the physics tests: cloths, inputs, runs to rest, energies."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from taichi_cloth_addon.engine.hybrid import solver as hybrid_solver
from taichi_cloth_addon.engine.inputs import FrameInputs, Sample, WindField
from taichi_cloth_addon.engine.material import Fabric
from taichi_cloth_addon.engine.model import ClothModel, ClothPart, ClothState, build_model
from taichi_cloth_addon.engine.simulate import Frame, simulate
from taichi_cloth_addon.engine.solver import Integrator, Quality, SolverOptions
from tests.shapes import Shape

Array = npt.NDArray[np.float64]

G = 9.81
DOWN = np.array([0.0, 0.0, -G])
NOTHING = np.zeros(3)
ALL = tuple(Integrator)

# Undamped, in a vacuum: what is left is what the closed forms know.
IDEAL = Fabric(
    density=0.2,
    tension_stiffness=1000.0,
    shear_stiffness=100.0,
    bending_stiffness=0.0,
    tension_damping=0.0,
    shear_damping=0.0,
    bending_damping=0.0,
    air_drag=0.0,
)


@dataclass(frozen=True)
class Scene:
    """A model and the constant inputs that belong to it."""

    model: ClothModel
    inputs: FrameInputs


def cloth(
    shape: Shape,
    fabric: Fabric = IDEAL,
    pins: npt.ArrayLike = (),
    *,
    weights: float | Array = 1.0,
    positions: Array | None = None,
    pin_stiffness: float = 1000.0,
) -> ClothPart:
    """A cloth at rest in ``shape``, or started from ``positions``."""
    mesh, rest = shape
    indices = np.asarray(pins, dtype=np.int32).reshape(-1)
    return ClothPart(
        "cloth",
        mesh,
        rest,
        rest.copy() if positions is None else positions,
        fabric,
        indices,
        np.broadcast_to(np.asarray(weights, dtype=np.float64), indices.shape).copy(),
        pin_stiffness,
    )


def sample(
    parts: Sequence[ClothPart],
    gravity: Array = DOWN,
    wind: Array = NOTHING,
    targets: Array | None = None,
    fields: tuple[WindField, ...] = (),
) -> Sample:
    """One instant; pins stay where the cloths start unless ``targets`` says otherwise."""
    if targets is None:
        targets = np.concatenate([p.positions[p.pin_vertices] for p in parts])
    return Sample(gravity, np.broadcast_to(wind, (len(parts), 3)).copy(), targets, fields)


def frame_inputs(parts: Sequence[ClothPart], *samples: Sample) -> FrameInputs:
    """A frame of the given samples, without gusts."""
    return FrameInputs(samples, tuple(p.fabric for p in parts), np.zeros(len(parts)))


def scene(
    *parts: ClothPart,
    gravity: Array = DOWN,
    wind: Array = NOTHING,
    targets: Array | None = None,
) -> Scene:
    """A scene whose inputs never change."""
    inputs = frame_inputs(parts, sample(parts, gravity, wind, targets))
    return Scene(build_model(parts), inputs)


def run(
    what: Scene,
    seconds: float,
    integrator: Integrator = Integrator.AUTO,
    *,
    fps: float = 24.0,
    substeps: int = 0,
    quality: Quality = Quality.NORMAL,
    start: ClothState | None = None,
) -> list[Frame]:
    """All frames of ``seconds``, the first one included (unless resumed from ``start``)."""
    count = round(seconds * fps)
    inputs = [what.inputs] * (count + 1)
    options = SolverOptions(integrator, substeps, quality)
    return list(simulate(what.model, inputs, options, 1.0 / fps, start=start))


def settle(what: Scene, *, step: float = 1.0, steps: int = 40, tolerance: float = 1e-6) -> Array:
    """Positions at rest: long implicit steps, which damp everything.

    Stops once a step moves nothing by more than ``tolerance`` metres.
    """
    before = what.model.world_positions(what.model.first_state())
    inputs = [what.inputs] * (steps + 1)
    options = SolverOptions(Integrator.IMPLICIT, 1, Quality.FINAL)
    for frame in simulate(what.model, inputs, options, step):
        moved = float(np.abs(frame.positions - before).max())
        before = frame.positions
        if frame.index > 1 and moved < tolerance:
            return before
    raise AssertionError(f"not at rest after {steps} steps: {moved:g} m in the last one")


@contextmanager
def solved_far() -> Iterator[None]:
    """Implicit steps of final quality that are solved to a thousandth of their residual.

    For comparisons of one motion computed twice: each quality's solves stop early, wherever the
    rounding lets them.
    """
    longest, settings = hybrid_solver.QUALITIES[Quality.FINAL]
    far = replace(settings, tolerance=1e-3, linear_tolerance=1e-2)
    hybrid_solver.QUALITIES[Quality.FINAL] = (longest, far)
    try:
        yield
    finally:
        hybrid_solver.QUALITIES[Quality.FINAL] = (longest, settings)


def in_caller_order(model: ClothModel, values: npt.NDArray[np.floating]) -> Array:
    """Per-vertex values of the model's order in the caller's."""
    result = np.empty(values.shape)
    result[model.order] = values
    return result


def in_model_order(model: ClothModel, values: npt.NDArray[np.floating]) -> Array:
    """Per-vertex values of the caller's order in the model's."""
    return np.asarray(values[model.order], dtype=np.float64)


def moving(model: ClothModel, positions: Array, velocities: Array) -> ClothState:
    """A state at time 0 from world positions and velocities in the caller's order."""
    return ClothState(
        (in_model_order(model, positions) - model.origin).astype(np.float32),
        in_model_order(model, velocities).astype(np.float32),
    )


def kinetic_energy(model: ClothModel, state: ClothState) -> float:
    """J."""
    return float(0.5 * (model.mass[:, None] * state.velocities.astype(np.float64) ** 2).sum())


def elastic_energy(model: ClothModel, state: ClothState) -> float:
    """Energy of springs and flat bending, J."""
    x = state.positions.astype(np.float64)
    first, second = model.network.vertices.T
    stretch = np.linalg.norm(x[second] - x[first], axis=1) - model.network.rest_length
    springs = 0.5 * float((model.network.stiffness * stretch**2).sum())
    matrix = model.bending
    rows = np.repeat(np.arange(model.vertex_count), np.diff(matrix.offsets))
    apart = x[matrix.neighbours] - x[rows]
    # Its rows sum to 0, so its quadratic form is one of differences.
    bending = -0.25 * float((matrix.weights * (apart**2).sum(axis=1)).sum())
    return springs + bending


def momentum(model: ClothModel, state: ClothState) -> Array:
    """Linear momentum (3,), kg m/s."""
    return np.asarray((model.mass[:, None] * state.velocities.astype(np.float64)).sum(axis=0))


def angular_momentum(model: ClothModel, state: ClothState) -> Array:
    """About the origin, (3,), kg m²/s."""
    x = state.positions.astype(np.float64)
    v = state.velocities.astype(np.float64)
    return np.asarray(np.cross(x, model.mass[:, None] * v).sum(axis=0))


def fabric(**changes: float) -> Fabric:
    """The ideal fabric with other values."""
    return replace(IDEAL, **changes)


def top_row(positions: Array, axis: int = 1) -> npt.NDArray[np.int32]:
    """Vertices at the upper end along ``axis``."""
    values = positions[:, axis]
    return np.flatnonzero(values > values.max() - 1e-6).astype(np.int32)


def bottom_row(positions: Array, axis: int = 1) -> npt.NDArray[np.int32]:
    """Vertices at the lower end along ``axis``."""
    return top_row(-positions, axis)
