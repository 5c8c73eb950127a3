# SPDX-License-Identifier: GPL-3.0-or-later
"""What the residuals of implicit steps are measured with: the block-Jacobi norm of forces."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .. import runtime
from ..model import ClothModel
from ..runtime import DeviceArray
from . import linear_kernels
from .device import DeviceModel

# Share of the weight that a residual is measured with at least.
_LEAST_SHARE = 0.05
# Relative rounding of a position that lies half the cloth's size from the origin.
_ROUNDING = 2.0**-25


class Norms:
    """Norms sqrt(f^T D^-1 f) of forces, D the diagonal blocks of a Hessian (N m)^(1/2)."""

    def __init__(self, device: DeviceModel, partial: DeviceArray) -> None:
        """Measure the rounding of the forces; ``partial`` takes sums of chunks."""
        self._mass = device.mass
        self._partial = partial
        rest = device.model.rest
        self._size = float(np.linalg.norm(rest.max(axis=0) - rest.min(axis=0)))
        self._rounding = runtime.upload(_rounding(device.model, self._size))

    def of(self, force: DeviceArray, inverse: DeviceArray) -> float:
        """Norm of a force; ``inverse`` holds the inverse blocks."""
        square = linear_kernels.residual_norm2(force, inverse, self._partial)
        return math.sqrt(max(0.0, square))

    def weight(self, gravity: Sequence[float], inverse: DeviceArray) -> float:
        """Norm of the weight, or of what moves the cloth its size in 1 s if that is more."""
        return self._scale(self._acceleration(gravity), 0.0, inverse)

    def least(self, gravity: Sequence[float], inverse: DeviceArray) -> float:
        """Norm of the force that counts at least: of a share of the weight and of rounding."""
        return self._scale(_LEAST_SHARE * self._acceleration(gravity), 1.0, inverse)

    def _acceleration(self, gravity: Sequence[float]) -> float:
        return max(math.hypot(*gravity), self._size)

    def _scale(self, acceleration: float, noise: float, inverse: DeviceArray) -> float:
        square = linear_kernels.force_norm2(
            self._mass, self._rounding, inverse, acceleration, noise, self._partial
        )
        return math.sqrt(max(0.0, square))


def _rounding(model: ClothModel, size: float) -> npt.NDArray[np.float64]:
    """Force (V,) that float32's rounding of positions makes at each vertex, N."""
    square = np.zeros(model.vertex_count)
    for end in model.network.vertices.T:
        square += np.bincount(end, model.network.stiffness**2, minlength=model.vertex_count)
    square += model.bending_squares
    return _ROUNDING * size * np.sqrt(square)
