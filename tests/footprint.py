# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts the bytes that objects hold in numpy arrays and on the device."""

import gc
import math
import types
from typing import Any

import numpy as np

from taichi_cloth_addon.engine import runtime

# What an object shares with others.
_SHARED = (type, types.ModuleType, types.FunctionType, types.CodeType, types.FrameType)
_WORD = 4


def held_bytes(*roots: object) -> tuple[int, int]:
    """Bytes of all arrays that can be reached from objects: of numpy's, and the device's.

    Memory that several arrays view is counted once.
    """
    ndarray = runtime.import_taichi().lang._ndarray.Ndarray
    found: dict[int, Any] = {}
    waiting: list[Any] = list(roots)
    host = device = 0
    while waiting:
        item = waiting.pop()
        while isinstance(item, np.ndarray) and isinstance(item.base, np.ndarray):
            item = item.base
        if id(item) in found or isinstance(item, _SHARED):
            continue
        found[id(item)] = item
        if isinstance(item, np.ndarray):
            host += item.nbytes
        elif isinstance(item, ndarray):
            device += math.prod((*item.shape, *item.element_shape)) * _WORD
        else:
            waiting += gc.get_referents(item)
    return host, device
