# SPDX-License-Identifier: GPL-3.0-or-later
"""The classical Runge-Kutta method at its stable step, in single or double precision."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from taichi_cloth_addon.engine import rows, runtime
from taichi_cloth_addon.engine.hybrid import criterion
from taichi_cloth_addon.engine.model import ClothModel

from .scenes import GRAVITY, Array, Scene

# On the imaginary axis the method is stable up to 2 sqrt(2), velocity Verlet up to 2.
_OVER_VERLET = math.sqrt(2.0)
_SAFETY = 0.9


class RungeKutta:
    """Advances one scene; ``double`` chooses the precision."""

    def __init__(self, scene: Scene, *, double: bool = False, fraction: float = 1.0) -> None:
        """Copy the scene to the device; ``fraction`` shortens the step."""
        from . import runge_kutta_kernels as kernels

        ti = runtime.import_taichi()
        real, kind = (ti.f64, np.float64) if double else (ti.f32, np.float32)
        self._kernel = kernels.make_kernel(real)
        self._batch = kernels.STEPS
        model = scene.model()
        self.model: ClothModel = model
        if rows.curved_mask(model.hinges).any():
            raise ValueError("a curved rest shape is not supported")

        def upload(values: npt.NDArray[Any]) -> Any:
            if np.issubdtype(values.dtype, np.integer):
                return runtime.upload(values)
            values = np.ascontiguousarray(values, dtype=kind)
            vector = values.ndim == 2
            array = (
                ti.Vector.ndarray(values.shape[1], real, values.shape[0])
                if vector
                else ti.ndarray(real, values.shape[0])
            )
            array.from_numpy(values)
            return array

        count = model.vertex_count
        nothing = np.zeros((count, 3))
        self._x = upload(model.positions)
        self._v = upload(nothing)
        self._work = [upload(nothing) for _ in range(6)]
        network = model.network
        values = np.stack([network.rest_length, network.stiffness, network.damping], axis=1)
        bending = model.rows.bending_values(model.bending.weights)
        rate = np.repeat(model.bend_rate, np.diff(model.rows.offsets))
        offsets, entries = rows.incidence(model.triangles, count)
        self._model_arrays = [
            upload(np.where(model.fixed, 0.0, 1.0 / np.maximum(model.mass, 1e-30))),
            upload(model.rows.offsets),
            upload(model.rows.neighbours),
            upload(model.rows.spring_values(values)),
            upload(np.stack([bending, bending * rate], axis=1)),
            upload(model.triangles.reshape(-1)),
            upload(model.air_drag),
            upload(offsets),
            upload(entries // 3),
            upload(np.zeros((len(model.triangles), 3))),
        ]
        self._has_air = bool((model.air_drag > 0.0).any())
        self._wind = list(scene.wind)
        self._stable = (
            criterion.stable_step(model, model.positions, 1.0) * _OVER_VERLET * _SAFETY * fraction
        )

    def steps_in(self, duration: float) -> int:
        """Number of steps that ``advance`` takes."""
        return self._batch * math.ceil(duration / self._stable / self._batch)

    def advance(self, duration: float) -> int:
        """Advance by ``duration`` seconds; returns the number of steps."""
        count = self.steps_in(duration)
        for _ in range(count // self._batch):
            self._kernel(
                self._x,
                self._v,
                *self._work,
                *self._model_arrays,
                GRAVITY.tolist(),
                self._wind,
                duration / count,
                self._has_air,
            )
        runtime.synchronize()
        return count

    def positions(self) -> Array:
        """World positions (V, 3) in the scene's order, m."""
        result = np.empty((self.model.vertex_count, 3))
        result[self.model.order] = self._x.to_numpy().astype(np.float64) + self.model.origin
        return result


def reference(scene: Scene, times: list[float], fraction: float = 0.5) -> Iterator[Array]:
    """Converged positions at ``times`` (s, ascending): double precision, small steps."""
    method = RungeKutta(scene, double=True, fraction=fraction)
    now = 0.0
    for time in times:
        method.advance(time - now)
        now = time
        yield method.positions()
