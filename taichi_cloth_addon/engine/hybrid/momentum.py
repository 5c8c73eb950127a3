# SPDX-License-Identifier: GPL-3.0-or-later
"""Momentum of cloths that nothing holds, which solves that stop early would change."""

import numpy as np
import numpy.typing as npt

from .. import runtime, transfer
from ..runtime import DeviceArray
from . import implicit_kernels
from .device import DeviceModel

Array = npt.NDArray[np.float64]

# Moments of inertia below this share of the largest one are those of a thread about itself.
_THIN = 1e-6


class MomentumRepair:
    """Gives components that nothing holds the momentum that the forces gave them.

    Inner forces have no sum and no torque, so what the gradient's are is the error of the
    momentum and of the angular momentum (over the step). One translation and one rotation of the
    component, as a rigid body, take it away.
    """

    def __init__(self, device: DeviceModel) -> None:
        """Find the components."""
        self._device = device
        label = device.model.free_components()
        self._vertices = np.flatnonzero(label >= 0)
        self._owner = label[self._vertices]
        if not len(self._vertices):
            return
        self._mass = device.model.mass[self._vertices]
        self._total = np.bincount(self._owner, self._mass)
        self._label = runtime.upload(label)
        self._shift = runtime.zeros(len(self._total), 3)
        self._turn = runtime.zeros(len(self._total), 3)

    def apply(self, gradient: DeviceArray, displacement: DeviceArray, h: float) -> None:
        """Change the displacement of a step of ``h`` seconds that left this gradient (N)."""
        if not len(self._vertices):
            return
        left = transfer.read(gradient)[self._vertices].astype(np.float64)
        place = transfer.read(self._device.x)[self._vertices].astype(np.float64)
        place += transfer.read(displacement)[self._vertices]
        if not (np.isfinite(left).all() and np.isfinite(place).all()):
            # A cloth that blew up has no momentum; the solver sees to it.
            return
        centre = self._sums(self._mass[:, None] * place) / self._total[:, None]
        arm = place - centre[self._owner]
        shift = -h * h * self._sums(left) / self._total[:, None]
        # Inertia |r|² 1 - r r^T about the centre of mass.
        square = (arm * arm).sum(axis=1)
        tensor = square[:, None, None] * np.eye(3) - arm[:, :, None] * arm[:, None, :]
        inertia = self._sums((self._mass[:, None, None] * tensor).reshape(-1, 9)).reshape(-1, 3, 3)
        torque = self._sums(np.cross(arm, left))
        inverse = np.linalg.pinv(inertia, rcond=_THIN, hermitian=True)
        turn = -h * h * np.einsum("cab,cb->ca", inverse, torque)
        transfer.write(self._shift, shift - np.cross(turn, centre))
        transfer.write(self._turn, turn)
        implicit_kernels.move_rigidly(
            self._label, self._shift, self._turn, self._device.x, displacement
        )

    def _sums(self, values: Array) -> Array:
        """Sum (C, K) over each component of values (N, K)."""
        return np.stack(
            [np.bincount(self._owner, column, len(self._total)) for column in values.T], axis=1
        )
