# SPDX-License-Identifier: GPL-3.0-or-later
"""The hybrid solver: one frame by explicit, implicit or split steps."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from .. import heap
from ..inputs import FrameInputs
from ..model import ClothModel, ClothState
from ..solver import Integrator, Quality, SolverOptions, StepReport
from ..springs import SpringKind
from . import cost, criterion
from .device import Couplings, DeviceModel
from .explicit import ExplicitStepper
from .implicit import ImplicitStepper
from .linear import SuccessiveOverRelaxation
from .multigrid import Multigrid
from .newton import NewtonSettings, Work

# Longest implicit step (s) and Newton's settings of each quality.
QUALITIES = {
    Quality.DRAFT: (1.0 / 48.0, NewtonSettings(energy_share=0.01)),
    Quality.NORMAL: (1.0 / 96.0, NewtonSettings()),
    Quality.FINAL: (
        1.0 / 240.0,
        NewtonSettings(tolerance=0.2, energy_share=0.001, linear_tolerance=0.1),
    ),
}
# The published method: one linearisation a step, at the step's start, by backward Euler.
_SOR_STEP = 1.0 / 240.0
_SOR_SETTINGS = NewtonSettings(
    passes=1,
    tolerance=0.0,
    linear_tolerance=2e-4,
    linear_limit=2000,
    warm_start=False,
    second_order=False,
)
# A frame is taken again with twice the steps when an explicit one blows up: its springs stretch
# beyond this and beyond twice what they were.
_BLOWN_UP = 1.0
_TRIES = 4
_LARGE_EXCESS = 1e-4
# A split is made anew for a shape at which a vertex comes this near to its bound.
_LARGEST_LOAD = 0.95
# Springs that are measured at a time.
_PIECE = 1 << 16

# Share of springs and bending elements that must be explicit for a split: its steps are of
# first order, and what is implicit costs as much as before. SOR is the published method.
_LEAST_EXPLICIT = 0.75


@dataclass(frozen=True)
class _Split:
    """Couplings split at a step of ``h`` seconds; ``explicit`` is None when nothing is."""

    h: float
    marking: criterion.Marking
    implicit: Couplings
    explicit: Couplings | None


class HybridSolver:
    """Keeps solver.Solver."""

    def __init__(
        self,
        model: ClothModel,
        options: SolverOptions,
        cancelled: Callable[[], None] = lambda: None,
    ) -> None:
        """Copy the model to the device.

        Args:
            model: what is simulated.
            options: the user's choices.
            cancelled: called now and then; raises to stop.
        """
        self._model = model
        self._options = options
        self._cancelled = cancelled
        self._device = DeviceModel(model)
        if options.integrator is Integrator.EXPLICIT and not self._device.limited:
            model.release()
        else:
            heap.trim()
        self._explicit: ExplicitStepper | None = None
        self._implicit: dict[Integrator, ImplicitStepper] = {}
        self._rest_split: _Split | None = None
        # The shape measured last and its worst strain.
        self._measured: npt.NDArray[np.float32] | None = None
        self._strain = 0.0
        self._explicit_steps = 0
        self._overdamped = False

    def step(
        self, state: ClothState, before: FrameInputs, now: FrameInputs, duration: float
    ) -> StepReport:
        """See solver.Solver."""
        strain = self._strain
        if state.positions is not self._measured:
            strain = self.worst_strain(state)
        factor = 1
        for attempt in range(_TRIES):
            result = replace(state)
            integrator, work, share = self._advance(result, before, now, duration, factor)
            after = self.worst_strain(result)
            last = attempt == _TRIES - 1
            blown_up = not math.isfinite(after) or after > max(_BLOWN_UP, 2.0 * strain)
            if last or not blown_up:
                break
            factor *= 2
        for field in fields(state):
            setattr(state, field.name, getattr(result, field.name))
        state.time += duration
        self._measured, self._strain = state.positions, after
        return StepReport(
            integrator=integrator,
            substeps=work.steps,
            iterations=work.iterations,
            residual=work.residual,
            worst_strain=after,
            explicit_share=share,
            explicit_steps=self._explicit_steps,
            warnings=_warnings(work, integrator is Integrator.EXPLICIT and self._overdamped),
        )

    def worst_strain(self, state: ClothState) -> float:
        """Largest relative stretch of a structural spring; not finite if a position is not."""
        if not np.isfinite(state.positions).all():
            return math.inf
        network = self._model.network
        worst = 0.0
        for start in range(0, len(network.vertices), _PIECE):
            piece = slice(start, start + _PIECE)
            rest = network.rest_length[piece]
            structural = (network.kind[piece] == SpringKind.STRUCTURAL) & (rest > 0.0)
            first, second = network.vertices[piece][structural].T
            offset = state.positions[second] - state.positions[first]
            with np.errstate(over="ignore", invalid="ignore"):
                length = np.linalg.norm(offset.astype(np.float64), axis=1)
                strain = length / rest[structural] - 1.0
            worst = float(strain.max(initial=worst))
        return worst

    def _advance(
        self,
        state: ClothState,
        before: FrameInputs,
        now: FrameInputs,
        duration: float,
        factor: int,
    ) -> tuple[Integrator, Work, float]:
        device = self._device
        device.load(state)
        positions = state.positions.astype(np.float64)
        integrator, steps = self._choose(positions, duration)
        steps *= factor
        start = before.samples[-1]
        interval = duration / len(now.samples)
        each = math.ceil(steps / len(now.samples))
        total = Work()
        share = 1.0
        is_explicit = integrator is Integrator.EXPLICIT
        if not is_explicit:
            implicit, explicit, share = self._couplings(positions, interval / each)
            # With nothing left to solve Verlet's steps are as stable, and of second order.
            is_explicit = integrator is Integrator.IMPLICIT and share == 1.0
        if not is_explicit:
            stepper = self._implicit_stepper(integrator)
            stepper.load(state)
        for index, end in enumerate(now.samples):
            time = state.time + index * interval
            device.set_pins(start, end, interval, exact=is_explicit)
            device.set_wind(now, start, end, time, interval)
            if is_explicit:
                total.steps += self._explicit_stepper().advance(
                    end, interval, each, self._cancelled
                )
            else:
                work = stepper.advance(end, interval, each, implicit, explicit, self._cancelled)
                total.steps += work.steps
                total.passes += work.passes
                total.iterations += work.iterations
                total.cuts += work.cuts
                total.residual = max(total.residual, work.residual)
                total.unsolved += work.unsolved
                total.excess = max(total.excess, work.excess)
            start = end
        device.store(state)
        state.displacement = state.velocities_before = None
        if not is_explicit:
            stepper.store(state)
        return integrator, total, share

    def _choose(self, positions: criterion.Array, duration: float) -> tuple[Integrator, int]:
        """The integrator of this frame and its number of steps."""
        options = self._options
        longest = QUALITIES[options.quality][0]
        if options.integrator is Integrator.SOR:
            longest = _SOR_STEP
        implicit_steps = options.substeps or max(1, math.ceil(duration / longest - 1e-6))
        integrator = options.integrator
        if integrator in (Integrator.IMPLICIT, Integrator.SOR):
            return integrator, implicit_steps
        if self._device.limited:
            # Explicit steps would have to be as short as the stiffness near the limit wants.
            return Integrator.IMPLICIT, implicit_steps
        limits = criterion.bounds(self._model, positions)
        explicit_steps = max(1, math.ceil(duration / limits.stable_step()))
        self._explicit_steps = explicit_steps
        self._overdamped = limits.is_overdamped()
        if integrator is Integrator.AUTO:
            coupling = limits.coupling(duration / implicit_steps)
            cheaper = explicit_steps <= cost.implicit_cost(implicit_steps, coupling)
            if not cheaper:
                return Integrator.IMPLICIT, implicit_steps
        return Integrator.EXPLICIT, max(explicit_steps, options.substeps)

    def _couplings(
        self, positions: criterion.Array, h: float
    ) -> tuple[Couplings, Couplings | None, float]:
        """Split by the criterion into implicit and explicit couplings, and the explicit share.

        The split at the rest shape serves as long as it is stable at the present shape. It
        depends on nothing that came before, so that a resumed bake takes the same.
        """
        split = self._split_at(self._model.rest, h)
        if split.explicit is not None:
            load = criterion.largest_load(self._model, positions, h, split.marking)
            if load > _LARGEST_LOAD:
                split = self._split_at(positions, h)
        share = 0.0 if split.explicit is None else split.marking.explicit_share
        return split.implicit, split.explicit, share

    def _split_at(self, positions: criterion.Array, h: float) -> "_Split":
        at_rest = positions is self._model.rest
        if at_rest and self._rest_split is not None and self._rest_split.h == h:
            return self._rest_split
        marking = criterion.mark(self._model, positions, h)
        split = _Split(h, marking, self._device.everything, None)
        least = 0.0 if self._options.integrator is Integrator.SOR else _LEAST_EXPLICIT
        if marking.explicit_share > least:
            implicit = self._device.couplings(~marking.spring, ~marking.hinge)
            explicit = self._device.couplings(marking.spring, marking.hinge)
            split = _Split(h, marking, implicit, explicit)
        if at_rest:
            self._rest_split = split
            heap.trim()
        return split

    def _explicit_stepper(self) -> ExplicitStepper:
        if self._explicit is None:
            self._explicit = ExplicitStepper(self._device)
        return self._explicit

    def _implicit_stepper(self, integrator: Integrator) -> ImplicitStepper:
        if integrator not in self._implicit:
            if integrator is Integrator.SOR:
                stepper = ImplicitStepper(
                    self._device, SuccessiveOverRelaxation(self._device), _SOR_SETTINGS
                )
            else:
                settings = QUALITIES[self._options.quality][1]
                whole = self._rest_split is not None and self._rest_split.explicit is None
                solver = Multigrid(self._device, release=whole)
                heap.trim()
                stepper = ImplicitStepper(self._device, solver, settings)
            self._implicit[integrator] = stepper
            heap.trim()
        return self._implicit[integrator]


def _warnings(work: Work, overdamped: bool) -> tuple[str, ...]:
    found = []
    if overdamped:
        found.append(
            "So much damping is beyond explicit steps: the cloth may be wrong. Lower the damping, "
            "or choose the Implicit or Automatic integrator"
        )
    # A single one, as when cloth buckles all at once, is made good by the next.
    if 2 * work.unsolved > work.steps:
        found.append(
            "Some steps could not be solved: the cloth is very stiff for its weight. Lower its "
            "stiffness or damping, or take more substeps"
        )
    if work.excess > _LARGE_EXCESS:
        found.append(
            f"The strain limit could not be kept: an edge is {work.excess:.1%} longer. Do pins "
            "pull it apart?"
        )
    return tuple(found)
