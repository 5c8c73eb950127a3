# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps springs within their strain limit at the end of a step."""

from .. import runtime
from ..runtime import DeviceArray
from . import linear_kernels, strain_kernels
from .device import DeviceModel

# Sweeps between two looks at what is left, and how often that is done at most.
_SWEEPS = 6
_ROUNDS = 50


class StrainLimit:
    """Shortens what the stiffness near the limit left too long."""

    def __init__(self, device: DeviceModel) -> None:
        """Make the work arrays."""
        self._device = device
        count = device.count if device.limited else 1
        self._excess = runtime.zeros(count)
        self._partial = runtime.zeros(count // linear_kernels.CHUNK + 1)

    def keep(
        self, displacement: DeviceArray, spare: DeviceArray
    ) -> tuple[DeviceArray, DeviceArray, float]:
        """Correct a displacement until no spring is too long.

        Returns:
            The corrected displacement, the other array, and the relative excess that stays.
        """
        device = self._device
        excess = 0.0
        for _ in range(_ROUNDS):
            for _ in range(_SWEEPS):
                strain_kernels.shorten(
                    displacement,
                    device.x,
                    device.inverse_mass,
                    device.offsets,
                    device.middles,
                    device.neighbours,
                    device.limits,
                    spare,
                    self._excess,
                )
                displacement, spare = spare, displacement
            # The excess before the last sweep, which leaves all alone where there is none.
            excess = float(linear_kernels.largest(self._excess, device.count, self._partial))
            if excess <= 0.0:
                break
        return displacement, spare, excess
