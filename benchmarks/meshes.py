# SPDX-License-Identifier: GPL-3.0-or-later
"""Meshes that are no grid, written to files: sheets of random points, and garments."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from . import children
from .scenes import Array

Indices = npt.NDArray[np.int32]

GARMENTS = ("*.obj", "*.usd", "*.usda", "*.usdc")
# How far a point strays from its place, in spacings to each side: edges then differ threefold.
_JITTER = 0.35
_LEAST_GARMENT = 1000


def random_sheet(vertex_count: int, folder: Path, seed: int = 1) -> Path:
    """A square of 1 m of random points in a Delaunay triangulation."""
    from scipy.spatial import Delaunay

    side = round(vertex_count**0.5)
    generator = np.random.default_rng(seed)
    x, y = np.meshgrid(np.linspace(0.0, 1.0, side), np.linspace(0.0, 1.0, side))
    stray = generator.uniform(-_JITTER, _JITTER, (2, side, side)) / (side - 1)
    inside = (slice(1, -1), slice(1, -1))
    x[inside] += stray[0][inside]
    y[inside] += stray[1][inside]
    # Points of the border stay on it, and its corners where they are.
    x[0, 1:-1] += stray[0][0, 1:-1]
    x[-1, 1:-1] += stray[0][-1, 1:-1]
    y[1:-1, 0] += stray[1][1:-1, 0]
    y[1:-1, -1] += stray[1][1:-1, -1]
    flat = np.stack([x.reshape(-1), y.reshape(-1)], axis=1)
    faces = Delaunay(flat).simplices
    a, b, c = flat[faces].transpose(1, 0, 2)
    ab, ac = b - a, c - a
    area = 0.5 * (ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0])
    faces = np.where((area < 0.0)[:, None], faces[:, ::-1], faces)
    faces = faces[np.abs(area) > 1e-6 / side**2]
    # In random order, as an artist's mesh may be.
    order = generator.permutation(len(flat))
    rank = np.argsort(order)
    positions = np.concatenate([flat, np.zeros((len(flat), 1))], axis=1)[order]
    out = folder / f"random_{side}.npz"
    np.savez(out, positions=positions, faces=rank[faces].astype(np.int32))
    return out


def garments(given: list[Path]) -> list[Path]:
    """The mesh files of the given files and folders."""
    found: list[Path] = []
    for path in given:
        if path.is_dir():
            found += sorted(file for pattern in GARMENTS for file in path.glob(pattern))
        else:
            found.append(path)
    return found


def garment(file: Path, folder: Path) -> tuple[Array, Indices] | None:
    """Positions and triangles of a file, the longest side 1 m; None for what is no garment.

    Vertices in one place are made one; pieces too small and closed surfaces are left out.
    """
    raw = children.start(
        children.BLENDER_CHILD, "mesh", folder / f"raw_{file.stem}.npz", path=str(file)
    )
    with np.load(raw) as data:
        positions, faces = data["positions"], data["faces"]
    size = np.ptp(positions, axis=0).max()
    positions = (positions - positions.mean(axis=0)) / size
    _, first, index = np.unique(
        np.round(positions, 6), axis=0, return_index=True, return_inverse=True
    )
    positions, faces = positions[first], index.reshape(-1)[faces]
    sound = (faces != np.roll(faces, 1, axis=1)).all(axis=1)
    faces = faces[sound].astype(np.int32)
    edges = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    _, uses = np.unique(edges, axis=0, return_counts=True)
    if len(positions) < _LEAST_GARMENT or not (uses == 1).any():
        return None
    return positions, faces


def refined(positions: Array, faces: Indices, times: int) -> tuple[Array, Indices]:
    """Every triangle cut in four at the middles of its edges."""
    for _ in range(times):
        edges = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
        unique, index = np.unique(edges, axis=0, return_inverse=True)
        middle = (index.reshape(-1, 3) + len(positions)).astype(np.int32)
        positions = np.concatenate([positions, positions[unique].mean(axis=1)])
        a, b, c = faces.T
        ab, bc, ca = middle.T
        faces = np.concatenate(
            [np.stack(t, axis=1) for t in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))]
        )
    return positions, faces


def write(positions: Array, faces: Indices, out: Path) -> Path:
    """One file that ``cloths`` reads."""
    np.savez(out, positions=positions, faces=faces)
    return out
