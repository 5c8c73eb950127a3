# SPDX-License-Identifier: GPL-3.0-or-later
"""The only time loop: a generator of frames; no input or output."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from . import heap, launch, trouble
from .hybrid.solver import HybridSolver
from .inputs import FrameInputs
from .model import ClothModel, ClothState, build_model
from .solver import SolverOptions, StepReport

__all__ = ["Cancelled", "Frame", "SimulationError", "build_model", "simulate"]


# The solver has asked so often whether to stop once all its kernels have run.
_COMPILED = 4
# Vertices from which on what a frame frees is worth giving back.
_LARGE = 100_000


class Cancelled(Exception):  # noqa: N818 (not an error)
    """The caller asked to stop."""


class SimulationError(RuntimeError):
    """The simulation cannot go on; the message says why and what to do."""


@dataclass(frozen=True)
class Frame:
    """One simulated frame.

    Attributes:
        index: 0 at the first frame of the bake.
        positions: (V, 3) world positions in the caller's order, m.
        state: the model's state, from which a bake can go on. Its arrays are not to be changed.
        report: what the solver did; None for a first frame.
    """

    index: int
    positions: npt.NDArray[np.float64]
    state: ClothState
    report: StepReport | None


def simulate(
    model: ClothModel,
    inputs: Iterable[FrameInputs],
    options: SolverOptions,
    frame_duration: float,
    *,
    start: ClothState | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    on_phase: Callable[[str], None] | None = None,
    first_frame: int = 0,
) -> Iterator[Frame]:
    """Simulate frame after frame, as the inputs arrive.

    Args:
        model: what is simulated.
        inputs: one for each frame, the first for the frame to start from.
        options: the user's choices.
        frame_duration: s between frames.
        start: state to go on from. Its frame is not yielded again. None starts at the first
            shape, which is yielded as frame 0.
        cancelled: asked now and then; true stops the simulation.
        on_phase: told "compiling" before the first step and "simulating" once that is over.
        first_frame: the scene's number of frame 0, for messages.

    Raises:
        Cancelled: ``cancelled`` became true.
        SimulationError: a position is no longer a number.
    """
    asked = 0

    def check() -> None:
        nonlocal asked
        if cancelled():
            raise Cancelled
        asked += solver is not None
        if asked == _COMPILED:
            tell("simulating")

    def tell(phase: str) -> None:
        if on_phase is not None and phase not in told:
            told.append(phase)
            on_phase(phase)

    told: list[str] = []
    watch = trouble.Watch()
    solver: HybridSolver | None = None

    stream = iter(inputs)
    before = next(stream)
    heap.trim()
    if start is None:
        state = _first_state(model, before)
        yield Frame(0, model.world_positions(state), replace(state), None)
    else:
        state = replace(start)
    fabrics = tuple(part.fabric for part in model.parts)
    index = round(state.time / frame_duration)
    for now in stream:
        index += 1
        if now.fabrics != fabrics:
            fabrics = now.fabrics
            model = model.with_fabrics(fabrics)
            solver = None
            launch.forget()
        if solver is None:
            solver = HybridSolver(model, options, check)
            tell("compiling")
        moment = trouble.Moment(
            *(model, state.positions, before, now, state.time, frame_duration, options)
        )
        report = solver.step(state, before, now, frame_duration)
        # The clock is the frame's, so that rounding does not add up.
        state.time = index * frame_duration
        if not np.isfinite(state.positions).all():
            why = trouble.blow_up(moment, state.positions)
            raise SimulationError(f"Frame {first_frame + index}: {why}")
        if report.worst_strain > trouble.LARGE_STRAIN:
            stretched = watch.warnings(moment, state.positions)
            report = replace(report, warnings=(*report.warnings, *stretched))
        tell("simulating")
        if model.vertex_count >= _LARGE:
            heap.trim()
        yield Frame(index, model.world_positions(state), replace(state), report)
        before = now


def _first_state(model: ClothModel, first: FrameInputs) -> ClothState:
    """The first shape, fixed vertices where their targets are."""
    state = model.first_state()
    fixed = model.fixed[model.pin_vertices]
    targets = first.samples[-1].pin_targets - model.origin
    state.positions[model.pin_vertices[fixed]] = targets[fixed]
    return state
