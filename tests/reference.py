# SPDX-License-Identifier: GPL-3.0-or-later
"""Energy and forces of springs and hinges in plain numpy, float64: what kernels must agree with."""

import numpy as np
import numpy.typing as npt

from taichi_cloth_addon.engine.bending import HingeSet
from taichi_cloth_addon.engine.springs import SpringNetwork

Array = npt.NDArray[np.float64]

HEIGHT_FLOOR = 1e-3  # least height of a wing over the length of its axis, in the gradient


def spring_energy(x: Array, network: SpringNetwork) -> float:
    """Sum of k/2 (L - l)², J."""
    i, j = network.vertices.T
    length = np.linalg.norm(x[j] - x[i], axis=1)
    return float(0.5 * (network.stiffness * (length - network.rest_length) ** 2).sum())


def spring_forces(x: Array, v: Array, network: SpringNetwork) -> Array:
    """(V, 3) force of the springs, k (L - l) d and c (d · dv) d at their first ends, N."""
    i, j = network.vertices.T
    along = x[j] - x[i]
    length = np.linalg.norm(along, axis=1)
    direction = along / np.maximum(length, 1e-300)[:, None]
    rate = ((v[j] - v[i]) * direction).sum(axis=1)
    size = network.stiffness * (length - network.rest_length) + network.damping * rate
    forces = np.zeros_like(x)
    np.add.at(forces, i, size[:, None] * direction)
    np.add.at(forces, j, -size[:, None] * direction)
    return forces


def hinge_theta(x: Array, hinges: HingeSet) -> tuple[Array, Array]:
    """Angles (H,) and their gradients (H, 6, 3)."""
    index = hinges.vertices
    e0, e1 = x[index[:, 0]], x[index[:, 1]]
    axis = e1 - e0
    length = np.maximum(np.linalg.norm(axis, axis=1), 1e-150)
    unit = axis / length[:, None]
    gradient = np.zeros((len(index), 6, 3))
    normals = []
    for column, sign in ((2, 1.0), (4, -1.0)):
        reach = 0.5 * (x[index[:, column]] + x[index[:, column + 1]]) - e0
        place = (reach * unit).sum(axis=1) / length
        area = sign * np.cross(unit, reach)
        height = np.linalg.norm(area, axis=1)
        normals.append(area)
        # d theta / d wing = normal / height
        pull = (
            area / (np.maximum(height, 1e-150) * np.maximum(height, HEIGHT_FLOOR * length))[:, None]
        )
        gradient[:, column] += 0.5 * pull
        gradient[:, column + 1] += 0.5 * pull
        gradient[:, 0] -= (1.0 - place)[:, None] * pull
        gradient[:, 1] -= place[:, None] * pull
    sine = (np.cross(normals[1], normals[0]) * unit).sum(axis=1)
    theta = np.arctan2(sine, (normals[0] * normals[1]).sum(axis=1))
    return theta, gradient


def hinge_energy(x: Array, hinges: HingeSet) -> float:
    """Sum of k (1 - cos(theta - rest_angle)), J."""
    theta, _ = hinge_theta(x, hinges)
    return float((hinges.stiffness * (1.0 - np.cos(theta - hinges.rest_angle))).sum())


def hinge_forces(x: Array, hinges: HingeSet, v: Array | None = None) -> Array:
    """(V, 3) force of the hinges; with velocities v, of their damping c d theta/dt too, N."""
    theta, gradient = hinge_theta(x, hinges)
    moment = hinges.stiffness * np.sin(theta - hinges.rest_angle)
    if v is not None:
        moment = moment + hinges.damping * (gradient * v[hinges.vertices]).sum(axis=(1, 2))
    forces = np.zeros_like(x)
    np.add.at(forces, hinges.vertices, -moment[:, None, None] * gradient)
    return forces
