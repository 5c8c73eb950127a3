# SPDX-License-Identifier: GPL-3.0-or-later
"""A float64 velocity Verlet in numpy at a quarter of the stable step: the converged motion."""

import numpy as np
import numpy.typing as npt

from taichi_cloth_addon.engine.model import ClothModel

Array = npt.NDArray[np.float64]


class Reference:
    """Springs, flat bending and gravity of a model; undamped, hard pins that stay."""

    def __init__(self, model: ClothModel, gravity: Array) -> None:
        self._model = model
        network = model.network
        self._first, self._second = network.vertices.T
        self._rest_length = network.rest_length[:, None]
        self._stiffness = network.stiffness[:, None]
        count = model.vertex_count
        # Incidence: what a spring's force does to the vertices, as one product.
        self._gather = np.zeros((count, len(network.vertices)))
        index = np.arange(len(network.vertices))
        self._gather[self._first, index] = 1.0
        self._gather[self._second, index] = -1.0
        self._bending = np.zeros((count, count))
        rows = np.repeat(np.arange(count), np.diff(model.bending.offsets))
        self._bending[rows, model.bending.neighbours] = model.bending.weights
        self._gravity = np.where(model.fixed[:, None], 0.0, gravity)
        self._inverse_mass = np.where(model.fixed, 0.0, 1.0 / model.mass)[:, None]
        # Gershgorin, 4 k per vertex at most: omega² <= 4 max(sum of k) / m in the plane.
        load = np.abs(self._gather) @ network.stiffness + np.abs(self._bending).sum(axis=1)
        self.stable_step = float((2.0 / np.sqrt(2.0 * load / model.mass))[~model.fixed].min())

    def _acceleration(self, x: Array) -> Array:
        along = x[self._second] - x[self._first]
        length = np.sqrt((along * along).sum(axis=1, keepdims=True))
        pull = self._stiffness * (1.0 - self._rest_length / length) * along
        force = self._gather @ pull - self._bending @ x
        return np.asarray(self._gravity + self._inverse_mass * force)

    def run(self, seconds: float, share: float = 0.25) -> Array:
        """Positions (V, 3) after ``seconds`` in the model's order and frame, m."""
        steps = int(np.ceil(seconds / (share * self.stable_step)))
        h = seconds / steps
        x = self._model.positions.copy()
        v = np.zeros_like(x)
        a = self._acceleration(x)
        for _ in range(steps):
            v += 0.5 * h * a
            x += h * v
            a = self._acceleration(x)
            v += 0.5 * h * a
        return x
