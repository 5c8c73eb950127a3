# SPDX-License-Identifier: GPL-3.0-or-later
"""Implicit steps: backward Euler by Newton passes with an energy line search."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from .. import runtime, transfer
from ..inputs import Sample
from ..model import ClothModel, ClothState
from . import implicit_kernels, linear_kernels
from .device import Couplings, DeviceModel
from .linear import LinearSolver, System
from .newton import NewtonSettings, Work
from .strain_limit import StrainLimit

# Relative to the energy's size, what float32 cannot tell from no change.
_ENERGY_NOISE = 2e-6
_HALVINGS = 8
# Share of the kinetic energy that a step may add or take by its error, and share of the
# tolerance below which that is not asked.
_ENERGY_SHARE = 0.001
_CLOSE = 0.1
# Share of the weight that a residual is measured with at least.
_LEAST_SHARE = 0.05
# Relative rounding of a position that lies half the cloth's size from the origin.
_ROUNDING = 2.0**-25
# So many passes in a row that leave more than this of the residual and lower the energy by less
# than that share are the last ones.
_STALLS = 2
_SLOW = 0.7
_LITTLE = 1e-5


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
        self._force = runtime.zeros(count, 3)
        self._moved = runtime.zeros(count, 3)
        self._v_before = runtime.zeros(count, 3)
        self._last_step = 0.0
        self._energy = runtime.zeros(count)
        rest = device.model.rest
        self._size = float(np.linalg.norm(rest.max(axis=0) - rest.min(axis=0)))
        self._rounding = runtime.upload(_rounding(device.model, self._size))
        self._limit = StrainLimit(device)
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
            runtime.zeros(len(device.model.network.vertices), 4),
            runtime.zeros(device.entry_count, 4),
            runtime.zeros(2 * solver.nodes, 3),
            runtime.zeros(2 * solver.nodes, 3),
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
        device = self._device
        step = duration / steps
        gravity = [float(g) for g in sample.gravity]
        for number in range(steps):
            cancelled()
            device.update_air(number / steps)
            # BDF2 is backward Euler with two thirds of the step and another start.
            second = (
                self._settings.second_order
                and explicit is None
                and math.isclose(self._last_step, step, rel_tol=1e-6)
            )
            h, share = (2.0 * step / 3.0, 1.0 / 3.0) if second else (step, 0.0)
            self._set_inertial(gravity, h, share, implicit, explicit)
            cuts = work.cuts
            self._minimise(h, (number + 1) * step, gravity, implicit, work, cancelled)
            if device.limited:
                self._displacement, self._trial, excess = self._limit.keep(
                    self._displacement, self._trial
                )
                work.excess = max(work.excess, excess)
            implicit_kernels.finish_step(
                self._displacement,
                device.inverse_mass,
                device.pin_velocity,
                h,
                share,
                self._moved,
                self._v_before,
                device.x,
                device.v,
            )
            # After a step whose energy would not fall the next is a backward Euler step.
            self._last_step = step if work.cuts == cuts else 0.0
            work.steps += 1
        return work

    def load(self, state: ClothState) -> None:
        """Take the last step from a state, for BDF2."""
        self._last_step = 0.0
        if state.displacement is not None and state.velocities_before is not None:
            transfer.write(self._moved, state.displacement)
            transfer.write(self._v_before, state.velocities_before)
            self._last_step = state.step

    def store(self, state: ClothState) -> None:
        """Put the last step into a state."""
        if self._settings.second_order and self._last_step > 0.0:
            state.displacement = transfer.read(self._moved)
            state.velocities_before = transfer.read(self._v_before)
            state.step = self._last_step

    def _set_inertial(
        self,
        gravity: list[float],
        h: float,
        share: float,
        implicit: Couplings,
        explicit: Couplings | None,
    ) -> None:
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
                self._force,
            )
        if device.damped:
            implicit_kernels.lag_forces(
                device.x,
                self._moved,
                share,
                float(explicit is not None),
                device.offsets,
                device.middles,
                device.neighbours,
                implicit.springs,
                implicit.bending,
                device.bend_rate,
                device.air_drag,
                device.pin_spring,
                h,
                self._force,
            )
        implicit_kernels.inertial_displacement(
            device.v,
            self._v_before,
            self._moved,
            device.inverse_mass,
            device.air_force,
            self._force,
            gravity,
            h,
            int(share > 0.0),
            self._inertial,
        )

    def _minimise(
        self,
        h: float,
        time: float,
        gravity: list[float],
        couplings: Couplings,
        work: Work,
        cancelled: Callable[[], None],
    ) -> None:
        """Newton passes from the better of the two starts until the residual has fallen."""
        settings = self._settings
        energy, other = self._start(h, time, couplings)
        self._assemble(h, couplings)
        left = self._norm(self._system.gradient)
        scale = left if other is None else min(left, self._norm(other))
        scale = max(scale, self._least_scale(gravity))
        if scale == 0.0:
            # Nothing can move.
            return
        stalls = 0
        for number in range(settings.passes):
            # One pass at least: small errors of many steps would add up.
            if number > 0 and left <= settings.tolerance * scale:
                close = left <= _CLOSE * settings.tolerance * scale
                if close or self._keeps_energy(h):
                    break
            cancelled()
            if number > 0:
                self._assemble(h, couplings)
            if not settings.warm_start:
                implicit_kernels.coasting_step(
                    self._device.v, self._device.inverse_mass, h, self._step
                )
            self._solver.prepare(self._system, h)
            solution = self._solver.solve(
                self._system, self._step, settings.linear_tolerance, settings.linear_limit
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
            # In the norm of the last Hessian, which spares one more.
            left = self._norm(self._system.gradient)
            gain = energy_before - energy
            slow = left > _SLOW * before
            stalled = slow and gain <= _LITTLE * (abs(energy) + abs(energy_before))
            stalls = stalls + 1 if stalled else 0
            if stalls == _STALLS:
                # What is left is the rounding of the forces.
                break
        work.residual = max(work.residual, left / scale)
        self._repair_momentum(h)

    def _keeps_energy(self, h: float) -> bool:
        """Whether the force that the solve leaves does little work against the kinetic energy.

        The step taken is exact for forces that the gradient is added to, so its product with
        the displacement is energy out of nothing, or into it: then stiff cloth falls slowly.
        """
        linear_kernels.step_energies(
            self._system.gradient,
            self._displacement,
            self._device.mass,
            self._partial,
            self._energy,
        )
        added, kinetic = self._energy[0], self._energy[1] / (h * h)
        return abs(float(added)) <= _ENERGY_SHARE * float(kinetic)

    def _least_scale(self, gravity: list[float]) -> float:
        """Norm of the forces that count, and of the rounding of those that cancel.

        What counts is a share of the weight, or of what moves the cloth its size in 1 s.
        """
        acceleration = _LEAST_SHARE * max(math.hypot(*gravity), self._size)
        square = linear_kernels.force_norm2(
            self._device.mass, self._rounding, self._system.inverse, acceleration, self._partial
        )
        return math.sqrt(max(0.0, square))

    def _repair_momentum(self, h: float) -> None:
        """Give components that nothing holds the momentum that the forces gave them.

        Inner forces cancel in the sum of the gradient, so what is left of it is the error of
        the momentum (over h) that the early stop made; one translation takes it away.
        """
        if self._component_mass is None:
            return
        count = len(self._component_mass)
        gradient = transfer.read(self._system.gradient).astype(np.float64)
        free = self._component >= 0
        shift = np.empty((count, 3))
        for axis in range(3):
            total = np.bincount(self._component[free], gradient[free, axis], minlength=count)
            shift[:, axis] = -h * h * total / self._component_mass
        transfer.write(self._shift, shift)
        implicit_kernels.translate(self._label, self._shift, self._displacement)

    def _norm(self, gradient: runtime.DeviceArray) -> float:
        """Block-Jacobi norm of a gradient."""
        square = linear_kernels.residual_norm2(gradient, self._system.inverse, self._partial)
        return math.sqrt(max(0.0, square))

    def _start(
        self, h: float, time: float, couplings: Couplings
    ) -> tuple[float, runtime.DeviceArray | None]:
        """Begin where the energy is lower: at the inertial displacement or at the last one.

        Falling cloth is near the first, hanging cloth near the second. Where both raise the
        energy, no displacement is the start.

        Returns:
            Its energy and the gradient at the best of the others, None without warm start.
        """
        if not self._settings.warm_start:
            self._set_displacement(self._inertial, 0.0, time, self._displacement)
            gradient = self._system.gradient
            return self._evaluate(self._displacement, h, time, couplings, gradient), None
        self._set_displacement(self._inertial, 1.0, time, self._displacement)
        gradient = self._system.gradient
        energy = self._evaluate(self._displacement, h, time, couplings, gradient)
        self._set_displacement(self._moved, 1.0, time, self._trial)
        trial = self._evaluate(self._trial, h, time, couplings, self._trial_gradient)
        if trial < energy:
            self._take_trial()
            energy = trial
        if energy >= 0.0:
            self._set_displacement(self._moved, 0.0, time, self._trial)
            trial = self._evaluate(self._trial, h, time, couplings, self._trial_gradient)
            if trial < energy:
                self._take_trial()
                energy = trial
        return energy, self._trial_gradient

    def _set_displacement(
        self, source: runtime.DeviceArray, share: float, time: float, goal: runtime.DeviceArray
    ) -> None:
        device = self._device
        implicit_kernels.start_displacement(
            device.x,
            source,
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
        self._system = replace(self._system, gradient=self._trial_gradient)
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
            device.middles,
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
            device.limits,
            time,
            h,
            couplings.curved,
            device.limited,
            gradient,
            self._energy,
        )
        return total + float(linear_kernels.sum_values(self._energy, device.count, self._partial))

    def _assemble(self, h: float, couplings: Couplings) -> None:
        device = self._device
        implicit_kernels.spring_tensors(
            self._displacement,
            device.x,
            device.spring_ends,
            device.spring_entries,
            couplings.springs,
            device.limits,
            device.spring_count,
            h,
            device.limited,
            self._system.tensors,
        )
        implicit_kernels.assemble(
            self._system.tensors,
            device.mass,
            device.inverse_mass,
            device.offsets,
            device.middles,
            device.row_springs,
            couplings.bending_upper,
            device.bend_rate,
            device.air_drag,
            device.pin_spring,
            h,
            int(self._solver.bounding),
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


def _rounding(model: ClothModel, size: float) -> npt.NDArray[np.float64]:
    """Force (V,) that float32's rounding of positions makes at each vertex, N."""
    square = np.zeros(model.vertex_count)
    for end in model.network.vertices.T:
        square += np.bincount(end, model.network.stiffness**2, minlength=model.vertex_count)
    square += model.bending_squares
    return _ROUNDING * size * np.sqrt(square)
