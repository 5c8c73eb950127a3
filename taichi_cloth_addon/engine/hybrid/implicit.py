# SPDX-License-Identifier: GPL-3.0-or-later
"""Implicit steps: backward Euler by Newton passes with an energy line search."""

import math
from collections.abc import Callable
from dataclasses import replace

from .. import runtime, transfer
from ..inputs import Sample
from ..model import ClothState
from . import implicit_kernels, linear_kernels
from .device import Couplings, DeviceModel
from .linear import LinearSolver, System
from .momentum import MomentumRepair
from .newton import NewtonSettings, Work
from .norms import Norms
from .strain_limit import StrainLimit

# Relative to the energy's size, what float32 cannot tell from no change.
_ENERGY_NOISE = 2e-6
_HALVINGS = 8
# Share of the residual below which a step's energy is not asked for.
_CLOSE = 0.01
# Share of the tolerance below which it is enough to correct the displacement's length for that,
# corrections in a row, and the most that one changes it.
_TIGHT = 0.17
_BALANCES = 3
_MOST_CHANGE = 0.1
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
        self._limit = StrainLimit(device)
        self._momentum = MomentumRepair(device)
        longest = max(count, device.curved_count)
        self._partial = runtime.zeros(longest // linear_kernels.CHUNK + 1)
        self._norms = Norms(device, self._partial)
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
        first = scale
        scale = max(scale, self._norms.least(gravity, self._system.inverse))
        if scale == 0.0:
            # Nothing can move.
            return
        stalls = 0
        for number in range(settings.passes):
            # One pass at least: small errors of many steps would add up.
            if number > 0 and left <= settings.tolerance * scale:
                if left <= _CLOSE * scale or self._keeps_energy(h):
                    break
                if left <= _TIGHT * settings.tolerance * scale:
                    energy, balanced = self._balance(h, time, couplings, energy)
                    left = self._norm(self._system.gradient)
                    if balanced and left <= settings.tolerance * scale:
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
        # A cloth near rest has little to be relative to: a residual far below its weight is none.
        work.left(left / max(first, self._norms.weight(gravity, self._system.inverse)))
        self._momentum.apply(self._system.gradient, self._displacement, h)

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
        return abs(float(added)) <= self._settings.energy_share * float(kinetic)

    def _balance(
        self, h: float, time: float, couplings: Couplings, energy: float
    ) -> tuple[float, bool]:
        """Lengthen or shorten the displacement until the force left does no work along it.

        That costs an evaluation where another Newton pass would cost an assembly and a solve. The
        slope of the energy along the displacement is that work.

        Returns:
            The energy, and whether the work is small enough now.
        """
        device = self._device
        bend = linear_kernels.curvature_along(
            self._displacement,
            device.inverse_mass,
            device.offsets,
            device.neighbours,
            self._system.couplings,
            self._system.own,
            self._partial,
        )
        for _ in range(_BALANCES):
            slope = float(self._energy[0])
            if bend <= 0.0:
                break
            share = min(max(-slope / bend, -_MOST_CHANGE), _MOST_CHANGE)
            self._set_displacement(self._displacement, 1.0 + share, time, self._trial)
            trial = self._evaluate(self._trial, h, time, couplings, self._trial_gradient)
            if trial > energy + _ENERGY_NOISE * (abs(energy) + abs(trial)):
                break
            energy = trial
            self._take_trial()
            if self._keeps_energy(h):
                return energy, True
            # The Hessian is stiffer than the energy, or not: what was seen tells.
            bend = (float(self._energy[0]) - slope) / share if share else 0.0
        return energy, False

    def _norm(self, gradient: runtime.DeviceArray) -> float:
        """Block-Jacobi norm of a gradient."""
        return self._norms.of(gradient, self._system.inverse)

    def _start(
        self, h: float, time: float, couplings: Couplings
    ) -> tuple[float, runtime.DeviceArray | None]:
        """Begin at the inertial displacement, else at the last one, if that lowers the energy more.

        Falling cloth is near the first, hanging cloth near the second. Where both raise the
        energy, no displacement is the start.

        Returns:
            Its energy and the gradient at the best of the others, None if none was tried.
        """
        if not self._settings.warm_start:
            self._set_displacement(self._inertial, 0.0, time, self._displacement)
            gradient = self._system.gradient
            return self._evaluate(self._displacement, h, time, couplings, gradient), None
        self._set_displacement(self._inertial, 1.0, time, self._displacement)
        gradient = self._system.gradient
        energy = self._evaluate(self._displacement, h, time, couplings, gradient)
        if energy < 0.0:
            return energy, None
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
