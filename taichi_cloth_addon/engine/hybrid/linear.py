# SPDX-License-Identifier: GPL-3.0-or-later
"""What a linear solver of the implicit step is, and coloured block SOR."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .. import coloring, runtime
from ..runtime import DeviceArray
from . import linear_kernels
from .device import DeviceModel

# A sweep count between two looks at the residual, and the relaxation to begin with.
_SWEEPS_PER_CHECK = 4
_FIRST_OMEGA = 1.5
_LARGEST_OMEGA = 1.995


@dataclass(frozen=True)
class System:
    """Hessian and gradient on the device; see implicit_kernels.assemble."""

    tensors: DeviceArray
    couplings: DeviceArray
    own: DeviceArray
    inverse: DeviceArray
    gradient: DeviceArray


@dataclass(frozen=True)
class Solution:
    """Work done and relative residual left (block-Jacobi norm)."""

    iterations: int
    residual: float


class LinearSolver(Protocol):
    """Solves Hessian * step = -gradient.

    Attributes:
        nodes: rows that own and inverse of a system must have, vertices first.
        bounding: see implicit_kernels.assemble.
    """

    nodes: int
    bounding: bool

    def prepare(self, system: System, h: float) -> None:
        """Make ready for solves with a new Hessian, of a step of ``h`` seconds."""
        ...

    def solve(self, system: System, step: DeviceArray, tolerance: float, limit: int) -> Solution:
        """Improve the guess in ``step`` to a relative residual or an iteration limit.

        The residual is relative to that of a zero step. Fixed vertices must not move in the
        guess.
        """
        ...


class SuccessiveOverRelaxation:
    """Block SOR by colours, stopped early on the residual.

    The relaxation follows from the measured contraction by Young's relation
    (lambda + omega - 1)² = lambda omega² mu², omega = 2 / (1 + sqrt(1 - mu²)).
    """

    bounding = False

    def __init__(self, device: DeviceModel) -> None:
        """Colour the couplings."""
        self._device = device
        self.nodes = device.count
        rows = device.model.rows
        colors = coloring.color(rows.offsets, rows.neighbours)
        order, offsets = coloring.color_order(colors)
        size = linear_kernels.COLORS
        self._launches = math.ceil((len(offsets) - 1) / size)
        padded = np.full(self._launches * size + 1, offsets[-1], dtype=np.int32)
        padded[: len(offsets)] = offsets
        self._order = runtime.upload(order)
        self._offsets = runtime.upload(padded)
        self._defect = runtime.zeros(device.count)
        self._partial = runtime.zeros(device.count // linear_kernels.CHUNK + 1)

    def prepare(self, system: System, h: float) -> None:
        """See LinearSolver: nothing to do."""

    def solve(self, system: System, step: DeviceArray, tolerance: float, limit: int) -> Solution:
        """See LinearSolver."""
        start = self._start_norm2(system)
        if start <= 0.0:
            return Solution(0, 0.0)
        omega = 1.0
        before = start
        sweeps = 0
        residual = 1.0
        while sweeps < limit:
            for _ in range(_SWEEPS_PER_CHECK):
                self._sweep(system, step, omega)
            sweeps += _SWEEPS_PER_CHECK
            found = float(
                linear_kernels.sum_values(self._defect, self._device.count, self._partial)
            )
            residual = math.sqrt(max(found, 0.0) / start)
            if residual <= tolerance:
                break
            contraction = (found / before) ** (0.5 / _SWEEPS_PER_CHECK)
            before = found
            omega = _next_omega(omega, contraction)
        return Solution(sweeps, residual)

    def _start_norm2(self, system: System) -> float:
        return float(linear_kernels.residual_norm2(system.gradient, system.inverse, self._partial))

    def _sweep(self, system: System, step: DeviceArray, omega: float) -> None:
        for launch in range(self._launches):
            linear_kernels.sweep_colors(
                system.gradient,
                self._device.offsets,
                self._device.neighbours,
                system.couplings,
                system.own,
                system.inverse,
                self._order,
                self._offsets,
                launch * linear_kernels.COLORS,
                omega,
                step,
                self._defect,
            )


def _next_omega(omega: float, contraction: float) -> float:
    """Relaxation from the contraction per sweep that the present one showed."""
    if contraction >= 1.0:
        # Past the optimum the residual may grow for a while; step back.
        return 1.0 + 0.9 * (omega - 1.0)
    if contraction <= omega - 1.0:
        # At or past the optimum: there the contraction is omega - 1 whatever the matrix.
        return omega
    mu2 = (contraction + omega - 1.0) ** 2 / (contraction * omega * omega)
    if mu2 >= 1.0:
        return min(_LARGEST_OMEGA, 1.0 + 1.05 * max(omega - 1.0, _FIRST_OMEGA - 1.0))
    return min(_LARGEST_OMEGA, 2.0 / (1.0 + math.sqrt(1.0 - mu2)))
