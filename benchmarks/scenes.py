# SPDX-License-Identifier: GPL-3.0-or-later
"""The cloths that the benchmarks simulate, for the engine alone."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
import numpy.typing as npt
from shapes import grid_mesh

from taichi_cloth_addon.engine.inputs import FrameInputs, Sample
from taichi_cloth_addon.engine.material import Fabric
from taichi_cloth_addon.engine.mesh import Mesh
from taichi_cloth_addon.engine.model import ClothModel, ClothPart, build_model
from taichi_cloth_addon.engine.simulate import Frame, simulate
from taichi_cloth_addon.engine.solver import Integrator, SolverOptions

Array = npt.NDArray[np.float64]

GRAVITY = np.array([0.0, 0.0, -9.81])


@dataclass(frozen=True)
class Scene:
    """One cloth with pins that do not move, in a steady wind.

    Attributes:
        name: for tables.
        mesh: the polygons.
        positions: (V, 3) rest and first shape, m.
        pins: vertices that stay.
        fabric: what it is made of.
        wind: (3,) m/s.
        gusts: share of the wind.
    """

    name: str
    mesh: Mesh
    positions: Array
    pins: npt.NDArray[np.int32]
    fabric: Fabric
    wind: tuple[float, float, float] = (0.0, 0.0, 0.0)
    gusts: float = 0.0

    def model(self) -> ClothModel:
        """The engine's model."""
        part = ClothPart(
            self.name,
            self.mesh,
            self.positions,
            self.positions,
            self.fabric,
            self.pins,
            np.ones(len(self.pins)),
        )
        return build_model([part])

    def inputs(self) -> FrameInputs:
        """What every frame brings."""
        sample = Sample(GRAVITY, np.array([self.wind]), self.positions[self.pins])
        return FrameInputs((sample,), (self.fabric,), np.array([self.gusts]))

    def with_fabric(self, fabric: Fabric) -> "Scene":
        """The same scene with another fabric."""
        return replace(self, fabric=fabric)

    def frames(
        self,
        count: int,
        fps: float = 24.0,
        integrator: Integrator = Integrator.AUTO,
        substeps: int = 0,
    ) -> Iterator[Frame]:
        """The first frame and ``count`` simulated ones."""
        options = SolverOptions(integrator, substeps)
        return simulate(self.model(), repeat(self.inputs(), count + 1), options, 1.0 / fps)


def hanging(side: int, fabric: Fabric, size: float = 1.0) -> Scene:
    """A square sheet that starts flat and level, held at two corners of one edge."""
    mesh, positions = grid_mesh(side, side, size, size)
    pins = np.array([side * (side - 1), side * side - 1], dtype=np.int32)
    return Scene(f"{side}×{side} drape", mesh, positions, pins, fabric)


def pendulum(side: int, fabric: Fabric) -> Scene:
    """A square sheet that starts flat and level, held along one edge."""
    mesh, positions = grid_mesh(side, side)
    pins = np.arange(side * (side - 1), side * side, dtype=np.int32)
    return Scene(f"{side}×{side} pendulum", mesh, positions, pins, fabric)


def flag(columns: int, rows: int, fabric: Fabric, speed: float = 6.0) -> Scene:
    """An upright sheet of 1.5 m × 1.1 m, held along its pole, the wind 30° off its plane."""
    mesh, flat = grid_mesh(columns, rows, 1.5, 1.1)
    positions = np.stack([flat[:, 0], np.zeros(len(flat)), flat[:, 1]], axis=1)
    pins = np.arange(rows, dtype=np.int32) * columns
    angle = np.radians(30.0)
    wind = (speed * float(np.cos(angle)), speed * float(np.sin(angle)), 0.0)
    return Scene(f"{columns}×{rows} flag", mesh, positions, pins, fabric, wind)


def mean_drop(scene: Scene, positions: Array) -> float:
    """How far the cloth has come down on average, m; every quarter grid vertex counts its area."""
    weights = _areas(scene)
    return float((weights * (scene.positions[:, 2] - positions[:, 2])).sum() / weights.sum())


def _areas(scene: Scene) -> Array:
    """Area of each vertex of a grid of quads up to a factor: a quarter of each quad."""
    return np.bincount(scene.mesh.corners, minlength=scene.mesh.vertex_count).astype(np.float64)
