# SPDX-License-Identifier: GPL-3.0-or-later
"""Explicit steps: velocity Verlet at the longest stable step of the criterion."""

import math
from collections.abc import Callable

from .. import runtime
from ..inputs import Sample
from . import explicit_kernels
from .device import DeviceModel


class ExplicitStepper:
    """Advances a device model by explicit steps."""

    def __init__(self, device: DeviceModel) -> None:
        """Make the second set of buffers that a step writes to."""
        self._device = device
        self._x = runtime.zeros(device.count, 3)
        self._v = runtime.zeros(device.count, 3)

    def advance(
        self, sample: Sample, duration: float, steps: int, cancelled: Callable[[], None]
    ) -> int:
        """Advance by ``duration`` seconds in at least ``steps`` steps.

        Args:
            sample: at the end of the interval, for the gravity. Pins and wind are already set.
            duration: s.
            steps: least number of steps.
            cancelled: called now and then; raises to stop.

        Returns:
            The number of steps taken.
        """
        device = self._device
        size = explicit_kernels.OPERATIONS
        # n steps of velocity Verlet are n + 1 operations.
        launches = math.ceil((steps + 1) / size)
        steps = launches * size - 1
        h = duration / steps
        couplings = device.everything
        gravity = [float(g) for g in sample.gravity]
        for launch in range(launches):
            cancelled()
            time = launch * size * h
            last = launch == launches - 1
            device.update_air(time / duration)
            explicit_kernels.explicit_operations(
                device.x,
                device.v,
                self._x,
                self._v,
                device.inverse_mass,
                device.offsets,
                device.middles,
                device.neighbours,
                couplings.springs,
                couplings.bending,
                device.bend_rate,
                device.air_force,
                device.air_drag,
                device.pin_spring,
                device.pin_target,
                device.pin_velocity,
                device.hinges,
                couplings.hinge_stiffness,
                device.hinge_offsets,
                device.hinge_entries,
                device.hinge_forces,
                device.curved_count,
                gravity,
                time,
                h,
                0.5 if launch == 0 else 1.0,
                0.5 if last else 1.0,
                0.0 if last else 1.0,
                couplings.curved,
            )
            # Launches queue up; without this a cancel would wait for all of them.
            runtime.synchronize()
        return steps
