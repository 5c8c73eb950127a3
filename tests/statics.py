# SPDX-License-Identifier: GPL-3.0-or-later
"""Small-strain equilibrium of a flat spring network in its plane, by dense algebra."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from taichi_cloth_addon.engine.springs import SpringNetwork

Array = npt.NDArray[np.float64]
STRAIN = 0.01


@dataclass(frozen=True)
class Membrane:
    """Measured stiffness of a rectangular sheet, N/m.

    Attributes:
        along_x, along_y: uniaxial stiffness, ends gripped free to narrow.
        shear: shear stiffness with the whole border moved.
    """

    along_x: float
    along_y: float
    shear: float


def plane_stiffness(network: SpringNetwork, positions: Array) -> Array:
    """(2V, 2V) stiffness matrix of the unstrained network, x and y of each vertex."""
    count = len(positions)
    i, j = network.vertices.astype(np.int64).T
    along = (positions[j] - positions[i])[:, :2]
    along /= np.linalg.norm(along, axis=1)[:, None]
    block = network.stiffness[:, None, None] * along[:, :, None] * along[:, None, :]
    matrix = np.zeros((2 * count, 2 * count))
    for one, two, sign in ((i, i, 1.0), (j, j, 1.0), (i, j, -1.0), (j, i, -1.0)):
        for a in (0, 1):
            for b in (0, 1):
                np.add.at(matrix, (2 * one + a, 2 * two + b), sign * block[:, a, b])
    return matrix


def _relaxed_energy(matrix: Array, known: npt.NDArray[np.int64], values: Array) -> float:
    free = np.setdiff1d(np.arange(len(matrix)), known)
    moved = np.zeros(len(matrix))
    moved[known] = values
    inner = matrix[np.ix_(free, free)] + 1e-9 * np.eye(len(free)) * matrix.diagonal().max()
    moved[free] = np.linalg.solve(inner, -matrix[np.ix_(free, known)] @ values)
    return float(moved @ matrix @ moved)


def measure(network: SpringNetwork, positions: Array) -> Membrane:
    """Pull a rectangular sheet in the xy plane along x and along y, and shear it."""
    matrix = plane_stiffness(network, positions)
    low, high = positions.min(axis=0), positions.max(axis=0)
    extent = high - low
    area = extent[0] * extent[1]
    pulled = []
    for axis in (0, 1):
        first = np.flatnonzero(positions[:, axis] < low[axis] + 1e-9)
        last = np.flatnonzero(positions[:, axis] > high[axis] - 1e-9)
        known = np.concatenate([2 * first + axis, 2 * last + axis, 2 * first[:1] + 1 - axis])
        values = np.zeros(len(known))
        values[len(first) : len(first) + len(last)] = STRAIN * extent[axis]
        pulled.append(_relaxed_energy(matrix, known, values) / (area * STRAIN**2))
    inside = ((positions > low + 1e-9) & (positions < high - 1e-9))[:, :2].all(axis=1)
    border = np.flatnonzero(~inside)
    known = np.concatenate([2 * border, 2 * border + 1])
    values = np.concatenate([STRAIN * positions[border, 1], np.zeros(len(border))])
    shear = _relaxed_energy(matrix, known, values) / (area * STRAIN**2)
    return Membrane(pulled[0], pulled[1], shear)
