# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain conjugate gradients, for the paper's comparison."""

import math

from taichi_cloth_addon.engine import runtime
from taichi_cloth_addon.engine.hybrid.device import DeviceModel
from taichi_cloth_addon.engine.hybrid.linear import Solution, System
from taichi_cloth_addon.engine.hybrid.linear_kernels import CHUNK
from taichi_cloth_addon.engine.runtime import DeviceArray

from . import gradient_kernels


class ConjugateGradients:
    """Conjugate gradients with the 3x3 blocks of the diagonal as preconditioner."""

    bounding = False

    def __init__(self, device: DeviceModel) -> None:
        """Make the work arrays."""
        self._device = device
        self.nodes = device.count
        self._residual = runtime.zeros(device.count, 3)
        self._direction = runtime.zeros(device.count, 3)
        self._product = runtime.zeros(device.count, 3)
        self._partial = runtime.zeros(device.count // CHUNK + 1)
        self._scalars = runtime.zeros(gradient_kernels.SCALARS)

    def prepare(self, system: System, h: float) -> None:
        """See LinearSolver: nothing to do."""

    def solve(self, system: System, step: DeviceArray, tolerance: float, limit: int) -> Solution:
        """See LinearSolver."""
        device = self._device
        gradient_kernels.start_gradients(
            system.gradient,
            device.offsets,
            device.neighbours,
            system.couplings,
            system.own,
            system.inverse,
            step,
            self._residual,
            self._direction,
            self._partial,
            self._scalars,
            tolerance * tolerance,
        )
        for _ in range(math.ceil(limit / gradient_kernels.ITERATIONS)):
            gradient_kernels.gradient_iterations(
                device.offsets,
                device.neighbours,
                system.couplings,
                system.own,
                system.inverse,
                step,
                self._residual,
                self._direction,
                self._product,
                self._partial,
                self._scalars,
                tolerance * tolerance,
            )
            if self._scalars[gradient_kernels.DONE] != 0.0:
                break
        scalars = self._scalars.to_numpy()
        start = float(scalars[gradient_kernels.RZ_START])
        left = float(scalars[gradient_kernels.RZ])
        residual = math.sqrt(max(left, 0.0) / start) if start > 0.0 else 0.0
        return Solution(int(scalars[gradient_kernels.COUNT]), residual)
