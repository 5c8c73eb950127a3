# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies between numpy arrays and device arrays of vectors.

Taichi 1.7.4's own to_numpy and from_numpy of vector arrays build their kernel anew at every
call, 3 ms each (measured).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from . import runtime, transfer_kernels
from .runtime import DeviceArray


def write(goal: DeviceArray, values: npt.NDArray[np.floating[Any]]) -> None:
    """Copy (N, 3) values into a device array of N vectors."""
    transfer_kernels.copy_to(np.ascontiguousarray(values, dtype=np.float32), goal)


def read(source: DeviceArray) -> npt.NDArray[np.float32]:
    """Copy a device array of N vectors out, (N, 3)."""
    values = np.empty((source.shape[0], 3), dtype=np.float32)
    transfer_kernels.copy_from(source, values)
    runtime.synchronize()
    return values
