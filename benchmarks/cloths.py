# SPDX-License-Identifier: GPL-3.0-or-later
"""The cloths of `bench speed`, from a few words that go to every measuring process."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from shapes import grid_mesh

from taichi_cloth_addon.engine.material import Fabric
from taichi_cloth_addon.engine.mesh import Mesh, edge_table
from taichi_cloth_addon.engine.model import ClothModel
from taichi_cloth_addon.engine.springs import SpringKind

from .scenes import Array, Scene

Indices = npt.NDArray[np.int32]

FPS = 24.0
# Frames of the fall that are timed; the last one is judged: 0.5 s, before folds make it chaotic.
FRAMES = 12
# Of the strip: a second, so that it has swung past its lowest point.
STRIP_FRAMES = 24

DENSITY = 0.2
STIFFNESS = 1000.0
SHEAR_SHARE = 0.1
BENDING = 5e-5
# The strip of the pin, and how far from its edge stretch counts, m.
STRIP, AWAY = 1.0 / 32.0, 1.0 / 16.0
_TOP = 0.02
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Cloth:
    """What is simulated, in words that fit into JSON.

    Attributes:
        name: for tables.
        side: vertices on each side of a square sheet of 1 m; 0 for a mesh from a file.
        path: the mesh's file (see ``meshes``), z upwards, m.
        pins: "corners" of a sheet, "strip" along its edge, or "top" of any mesh.
        stiffness: of structural springs on a square grid, N/m; shear springs have a tenth.
        uniform: springs and masses as Blender's cloth has them, see ``model``.
    """

    name: str
    side: int = 0
    path: str = ""
    pins: str = "corners"
    stiffness: float = STIFFNESS
    uniform: bool = False

    def fabric(self) -> Fabric:
        """The fabric that gives a square grid these springs."""
        shear = SHEAR_SHARE * self.stiffness
        axial = self.stiffness + shear
        return Fabric(
            density=DENSITY,
            tension_stiffness=axial - shear**2 / axial,
            shear_stiffness=shear,
            bending_stiffness=0.0 if self.uniform else BENDING,
            tension_damping=0.0,
            shear_damping=0.0,
            bending_damping=0.0,
            air_drag=0.0,
        )

    def shape(self) -> tuple[Mesh, Array]:
        """Polygons and rest positions (V, 3)."""
        if self.side:
            return grid_mesh(self.side, self.side)
        with np.load(self.path) as file:
            faces = file["faces"]
            offsets = np.arange(len(faces) + 1, dtype=np.int32) * faces.shape[1]
            corners = faces.reshape(-1).astype(np.int32)
            loose = np.zeros((0, 2), dtype=np.int32)
            return Mesh(len(file["positions"]), offsets, corners, loose), file["positions"]

    def scene(self) -> Scene:
        """The scene of the engine."""
        mesh, positions = self.shape()
        return Scene(self.name, mesh, positions, self.pinned(positions), self.fabric())

    def pinned(self, positions: Array) -> Indices:
        """The vertices that stay."""
        if self.pins == "top":
            height = positions[:, 2]
            chosen = height >= height.max() - _TOP * np.ptp(height)
        else:
            y = positions[:, 1]
            chosen = y >= y.max() - (STRIP if self.pins == "strip" else 0.0) - _ROUNDING
            if self.pins == "corners":
                x = positions[:, 0]
                ends = (x <= x.min() + _ROUNDING) | (x >= x.max() - _ROUNDING)
                chosen &= ends
        return np.flatnonzero(chosen).astype(np.int32)

    def model(self, scene: Scene) -> ClothModel:
        """The engine's model; with ``uniform`` the network that Blender's cloth has.

        That has the same mass at every vertex and the same stiffness in every spring of a
        kind, on borders too, where the engine's has a half or a quarter. Its bending is off.
        """
        model = scene.model()
        if not self.uniform:
            return model
        values = np.zeros(len(SpringKind))
        values[SpringKind.STRUCTURAL] = self.stiffness
        values[SpringKind.SHEAR] = SHEAR_SHARE * self.stiffness
        network = replace(model.network, stiffness=values[model.network.kind])
        mass = np.full(model.vertex_count, DENSITY / (self.side - 1) ** 2)
        return replace(model, network=network, mass=mass)

    def judged_edges(self) -> tuple[Indices, Array, Array]:
        """Mesh edges whose stretch counts (E, 2), all rest positions, rest lengths (E,)."""
        mesh, positions = self.shape()
        edges = edge_table(mesh).vertices
        if self.pins == "strip":
            edge = positions[:, 1].max()
            away = positions[:, 1] < edge - AWAY + _ROUNDING
            edges = edges[away[edges].all(axis=1)]
        lengths = np.linalg.norm(positions[edges[:, 1]] - positions[edges[:, 0]], axis=1)
        sound = lengths > 0.0
        return edges[sound], positions, lengths[sound]

    def words(self) -> dict[str, Any]:
        """For JSON."""
        return dict(vars(self))


def sheet(side: int, **words: Any) -> Cloth:
    """The hanging sheet."""
    return Cloth(f"sheet {side}²", side=side, **words)


def from_file(path: Path, name: str, pins: str) -> Cloth:
    """A mesh that ``meshes`` has written."""
    return Cloth(name, path=str(path), pins=pins)
