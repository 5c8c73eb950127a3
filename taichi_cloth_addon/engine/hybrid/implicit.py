# SPDX-License-Identifier: GPL-3.0-or-later
"""Implicit steps: backward Euler by Newton passes with an energy line search."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .. import runtime
from ..inputs import Sample
from . import implicit_kernels, linear_kernels
from .device import Couplings, DeviceModel
from .linear import LinearSolver, System

# Relative to the energy's size, what float32 cannot tell from no change.
_ENERGY_NOISE = 2e-6
_HALVINGS = 8
# A pass that leaves more than this of the residual and lowers the energy by less than that
# share was the last.
_SLOW = 0.7
_LITTLE = 1e-4


@dataclass(frozen=True)
class NewtonSettings:
    """When to stop.

    Attributes:
        passes: most Newton passes in a step.
        tolerance: a step is solved when its residual has fallen by this factor.
        linear_tolerance: the same for each linear solve.
        linear_limit: most iterations in a linear solve.
        warm_start: begin at the inertial target where its energy is lower. Otherwise a step
            is linearised at its start, and the linear solve begins with the velocity kept, so
            that what it leaves unsolved does not brake the cloth.
    """

    passes: int = 30
    tolerance: float = 5e-4
    linear_tolerance: float = 1e-3
    linear_limit: int = 2000
    warm_start: bool = True


@dataclass
class Work:
    """What the steps of a frame did.

    Attributes:
        steps: steps taken.
        passes: Newton passes.
        iterations: iterations of the linear solver.
        cuts: halvings of the line search.
        residual: worst residual that a step was left with, relative to its start.
    """

    steps: int = 0
    passes: int = 0
    iterations: int = 0
    cuts: int = 0
    residual: float = 0.0


class ImplicitStepper:
    """Advances a device model by implicit steps.

    The couplings may be split: explicit ones act with their force at the step's start.
    """

    def __init__(self, device: DeviceModel, solver: LinearSolver, settings: NewtonSettings) -> None:
        """Make the work arrays; ``solver`` solves the linear systems."""
        self._device = device
        self._solver = solver
        self._settings = settings
        count = device.count
        self._inertial = runtime.zeros(count, 3)
        self._displacement = runtime.zeros(count, 3)
        self._trial = runtime.zeros(count, 3)
        self._trial_gradient = runtime.zeros(count, 3)
        self._step = runtime.zeros(count, 3)
        self._explicit_force = runtime.zeros(count, 3)
        self._energy = runtime.zeros(count)
        self._component = device.model.free_components()
        self._component_mass: npt.NDArray[np.float64] | None = None
        free = self._component >= 0
        if free.any():
            self._component_mass = np.bincount(self._component[free], device.model.mass[free])
            self._label = runtime.upload(self._component)
            self._shift = runtime.zeros(len(self._component_mass), 3)
        longest = max(count, device.curved_count)
        self._partial = runtime.zeros(longest // linear_kernels.CHUNK + 1)
        self._system = System(
            runtime.zeros(len(device.model.rows.neighbours), 4),
            runtime.zeros(2 * count, 3),
            runtime.zeros(2 * count, 3),
            runtime.zeros(count, 3),
        )

    def advance(
        self,
        sample: Sample,
        duration: float,
        steps: int,
        implicit: Couplings,
        explicit: Couplings | None,
        cancelled: Callable[[], None],
    ) -> Work:
        """Advance by ``duration`` seconds in ``steps`` steps.

        Args:
            sample: at the end of the interval, for the gravity. Pins and wind are already set.
            duration: s.
            steps: number of steps.
            implicit: what is implicit.
            explicit: what is explicit, None for nothing.
            cancelled: called now and then; raises to stop.
        """
        work = Work()
        h = duration / steps
        gravity = [float(g) for g in sample.gravity]
        for step in range(steps):
            cancelled()
            self._device.update_air(step / steps)
            self._set_inertial(gravity, h, explicit)
            self._minimise(h, (step + 1) * h, implicit, work, cancelled)
            implicit_kernels.finish_step(
                self._displacement,
                self._device.inverse_mass,
                self._device.pin_velocity,
                h,
                self._device.x,
                self._device.v,
            )
            work.steps += 1
        return work

    def _set_inertial(self, gravity: list[float], h: float, explicit: Couplings | None) -> None:
        device = self._device
        if explicit is not None:
            implicit_kernels.explicit_row_forces(
                device.x,
                device.v,
                device.offsets,
                device.middles,
                device.neighbours,
                explicit.springs,
                explicit.bending,
                device.bend_rate,
                self._explicit_force,
            )
        implicit_kernels.inertial_displacement(
            device.v,
            device.inverse_mass,
            device.air_force,
            self._explicit_force,
            gravity,
            h,
            self._inertial,
        )

    def _minimise(
        self,
        h: float,
        time: float,
        couplings: Couplings,
        work: Work,
        cancelled: Callable[[], None],
    ) -> None:
        """Newton passes from the better of the two starts until the residual has fallen."""
        settings = self._settings
        energy, scale_gradient = self._start(h, time, couplings)
        self._assemble(h, couplings)
        # Measured against the gradient at rest, whichever start was taken: a good start would
        # otherwise ask for more than float32 can give.
        scale = self._norm(scale_gradient)
        left = self._norm(self._system.gradient)
        for _ in range(settings.passes):
            if left <= settings.tolerance * scale:
                break
            cancelled()
            tolerance = max(settings.linear_tolerance, 0.5 * settings.tolerance * scale / left)
            self._guess(h)
            solution = self._solver.solve(
                self._system, self._step, tolerance, settings.linear_limit
            )
            work.passes += 1
            work.iterations += solution.iterations
            before, energy_before = left, energy
            energy, moved = self._search(h, time, couplings, energy, work)
            if settings.passes == 1:
                # A single linearisation answers for its linear system alone.
                left = solution.residual * left
                break
            if not moved:
                break
            self._assemble(h, couplings)
            left = self._norm(self._system.gradient)
            gain = energy_before - energy
            if left > _SLOW * before and gain <= _LITTLE * (abs(energy) + abs(energy_before)):
                # What is left is the rounding of the forces.
                break
        if scale > 0.0:
            work.residual = max(work.residual, left / scale)
        self._repair_momentum(h)

    def _repair_momentum(self, h: float) -> None:
        """Give components that nothing holds the momentum that the forces gave them.

        Inner forces cancel in the sum of the gradient, so what is left of it is the error of
        the momentum (over h) that the early stop made; one translation takes it away.
        """
        if self._component_mass is None:
            return
        count = len(self._component_mass)
        gradient = self._system.gradient.to_numpy().astype(np.float64)
        free = self._component >= 0
        shift = np.empty((count, 3))
        for axis in range(3):
            total = np.bincount(self._component[free], gradient[free, axis], minlength=count)
            shift[:, axis] = -h * h * total / self._component_mass
        self._shift.from_numpy(shift.astype(np.float32))
        implicit_kernels.translate(self._label, self._shift, self._displacement)

    def _guess(self, h: float) -> None:
        if self._settings.warm_start:
            self._step.fill(0.0)
            return
        implicit_kernels.coasting_step(self._device.v, self._device.inverse_mass, h, self._step)

    def _norm(self, gradient: runtime.DeviceArray) -> float:
        """Block-Jacobi norm of a gradient."""
        square = linear_kernels.residual_norm2(gradient, self._system.inverse, self._partial)
        return math.sqrt(max(0.0, square))

    def _start(
        self, h: float, time: float, couplings: Couplings
    ) -> tuple[float, runtime.DeviceArray]:
        """Begin where the energy is lower: at rest or at the inertial displacement.

        Returns:
            Its energy and the gradient at rest.
        """
        self._set_displacement(0.0, time, self._displacement)
        gradient = self._system.gradient
        energy = self._evaluate(self._displacement, h, time, couplings, gradient)
        if self._settings.warm_start:
            self._set_displacement(1.0, time, self._trial)
            warm = self._evaluate(self._trial, h, time, couplings, self._trial_gradient)
            if warm < energy:
                self._take_trial()
                return warm, gradient
        return energy, gradient

    def _set_displacement(self, share: float, time: float, goal: runtime.DeviceArray) -> None:
        device = self._device
        implicit_kernels.start_displacement(
            device.x,
            self._inertial,
            share,
            device.inverse_mass,
            device.pin_target,
            device.pin_velocity,
            time,
            goal,
        )

    def _take_trial(self) -> None:
        self._displacement, self._trial = self._trial, self._displacement
        gradient = self._system.gradient
        self._system = System(
            self._system.couplings, self._system.own, self._system.inverse, self._trial_gradient
        )
        self._trial_gradient = gradient

    def _evaluate(
        self,
        displacement: runtime.DeviceArray,
        h: float,
        time: float,
        couplings: Couplings,
        gradient: runtime.DeviceArray,
    ) -> float:
        device = self._device
        total = 0.0
        if couplings.curved:
            implicit_kernels.curved_forces(
                device.x,
                displacement,
                device.hinges,
                couplings.hinge_stiffness,
                device.curved_count,
                device.hinge_forces,
                device.hinge_energy,
            )
            total = float(
                linear_kernels.sum_values(device.hinge_energy, device.curved_count, self._partial)
            )
        implicit_kernels.evaluate(
            displacement,
            device.x,
            self._inertial,
            device.mass,
            device.inverse_mass,
            device.offsets,
            device.neighbours,
            couplings.springs,
            couplings.bending,
            device.bend_rate,
            device.air_drag,
            device.pin_spring,
            device.pin_target,
            device.pin_velocity,
            device.hinge_offsets,
            device.hinge_entries,
            device.hinge_forces,
            time,
            h,
            couplings.curved,
            gradient,
            self._energy,
        )
        return total + float(linear_kernels.sum_values(self._energy, device.count, self._partial))

    def _assemble(self, h: float, couplings: Couplings) -> None:
        device = self._device
        implicit_kernels.assemble(
            self._displacement,
            device.x,
            device.mass,
            device.inverse_mass,
            device.offsets,
            device.neighbours,
            couplings.springs,
            couplings.bending_upper,
            device.bend_rate,
            device.air_drag,
            device.pin_spring,
            h,
            self._system.couplings,
            self._system.own,
            self._system.inverse,
        )

    def _search(
        self, h: float, time: float, couplings: Couplings, energy: float, work: Work
    ) -> tuple[float, bool]:
        """Go along the step until the energy does not rise; return it and whether it moved."""
        scale = 1.0
        for _ in range(_HALVINGS):
            implicit_kernels.add_scaled(self._displacement, self._step, scale, self._trial)
            trial = self._evaluate(self._trial, h, time, couplings, self._trial_gradient)
            if trial <= energy + _ENERGY_NOISE * (abs(energy) + abs(trial)):
                self._take_trial()
                return trial, True
            scale *= 0.5
            work.cuts += 1
        return energy, False
