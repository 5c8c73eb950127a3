# SPDX-License-Identifier: GPL-3.0-or-later
"""Meshes for tests and benchmarks: sheets of several tilings, disc, sphere, cylinder."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from taichi_cloth_addon.engine.mesh import Mesh

Array = npt.NDArray[np.float64]
Shape = tuple[Mesh, Array]


def _mesh(vertex_count: int, faces: npt.NDArray[np.integer]) -> Mesh:
    count, size = faces.shape
    offsets = np.arange(count + 1, dtype=np.int32) * size
    return Mesh(
        vertex_count,
        offsets.astype(np.int32),
        np.ascontiguousarray(faces.reshape(-1), dtype=np.int32),
        np.zeros((0, 2), dtype=np.int32),
    )


def _cells(columns: int, rows: int) -> npt.NDArray[np.int64]:
    """(cells, 4) corners of the cells, counter-clockwise."""
    i, j = np.meshgrid(np.arange(columns - 1), np.arange(rows - 1))
    low = (j * columns + i).reshape(-1)
    return np.stack([low, low + 1, low + columns + 1, low + columns], axis=1)


def _lattice(columns: int, rows: int, width: float, height: float) -> Array:
    x, y = np.meshgrid(np.linspace(0.0, width, columns), np.linspace(0.0, height, rows))
    return np.stack([x.reshape(-1), y.reshape(-1), np.zeros(x.size)], axis=1)


def grid_mesh(columns: int, rows: int, width: float = 1.0, height: float = 1.0) -> Shape:
    """Quads on columns x rows vertices in the xy plane, corner at the origin, row by row."""
    return _mesh(columns * rows, _cells(columns, rows)), _lattice(columns, rows, width, height)


def triangle_grid(
    columns: int,
    rows: int,
    width: float = 1.0,
    height: float = 1.0,
    *,
    diagonals: str = "same",
    seed: int = 0,
) -> Shape:
    """The quads of ``grid_mesh``, each cut in two; diagonals "same", "alternate" or "random"."""
    cells = _cells(columns, rows)
    index = np.arange(len(cells))
    if diagonals == "same":
        flip = np.zeros(len(cells), dtype=bool)
    elif diagonals == "alternate":
        flip = (index % (columns - 1) + index // (columns - 1)) % 2 == 1
    else:
        flip = np.random.default_rng(seed).random(len(cells)) < 0.5
    turned = np.where(flip[:, None], np.roll(cells, 1, axis=1), cells)
    triangles = turned[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)
    return _mesh(columns * rows, triangles), _lattice(columns, rows, width, height)


def jittered_sheet(
    columns: int,
    rows: int,
    width: float = 1.0,
    height: float = 1.0,
    *,
    jitter: float = 0.2,
    seed: int = 0,
) -> Shape:
    """Irregular triangles: rows shifted by half a cell, interior jittered, diagonals flipped.

    The diagonals are the shorter ones after jittering, which is near to Delaunay.
    """
    positions = _lattice(columns, rows, width, height)
    generator = np.random.default_rng(seed)
    step = np.array([width / (columns - 1), height / (rows - 1)])
    i, j = np.arange(len(positions)) % columns, np.arange(len(positions)) // columns
    inner_x, inner_y = (i > 0) & (i < columns - 1), (j > 0) & (j < rows - 1)
    positions[:, 0] += np.where(inner_x & (j % 2 == 1), 0.5 * step[0], 0.0) - np.where(
        inner_x, 0.25 * step[0], 0.0
    )
    noise = generator.uniform(-jitter, jitter, (len(positions), 2)) * step
    positions[:, 0] += noise[:, 0] * inner_x
    positions[:, 1] += noise[:, 1] * inner_y
    cells = _cells(columns, rows)
    corner = positions[cells]
    even = np.linalg.norm(corner[:, 2] - corner[:, 0], axis=1)
    odd = np.linalg.norm(corner[:, 3] - corner[:, 1], axis=1)
    turned = np.where((odd < even)[:, None], np.roll(cells, 1, axis=1), cells)
    triangles = turned[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)
    return _mesh(len(positions), triangles), positions


def skewed_grid(
    columns: int, rows: int, width: float = 1.0, height: float = 1.0, *, jitter: float = 0.2
) -> Shape:
    """Quads with jittered interior vertices."""
    mesh, positions = grid_mesh(columns, rows, width, height)
    generator = np.random.default_rng(1)
    step = np.array([width / (columns - 1), height / (rows - 1)])
    i, j = np.arange(len(positions)) % columns, np.arange(len(positions)) // columns
    noise = generator.uniform(-jitter, jitter, (len(positions), 2)) * step
    positions[:, 0] += noise[:, 0] * ((i > 0) & (i < columns - 1))
    positions[:, 1] += noise[:, 1] * ((j > 0) & (j < rows - 1))
    return mesh, positions


def disc_mesh(rings: int, segments: int, radius: float = 1.0) -> Shape:
    """Triangle fan in the middle, rings of quads around it, in the xy plane."""
    angle = np.arange(segments) * (2 * np.pi / segments)
    radii = np.arange(1, rings + 1) * (radius / rings)
    ring = np.stack([np.cos(angle), np.sin(angle), np.zeros(segments)], axis=1)
    positions = np.concatenate([np.zeros((1, 3)), *(r * ring for r in radii)])
    faces: list[Sequence[int]] = []
    for s in range(segments):
        t = (s + 1) % segments
        faces.append((0, 1 + s, 1 + t))
        for r in range(rings - 1):
            inner, outer = 1 + r * segments, 1 + (r + 1) * segments
            faces.append((inner + s, outer + s, outer + t, inner + t))
    return Mesh.from_polygons(len(positions), faces), positions


def sphere_mesh(segments: int, rings: int, radius: float = 1.0) -> Shape:
    """Latitude-longitude sphere: quads, triangles at the poles."""
    polar = np.arange(1, rings) * (np.pi / rings)
    angle = np.arange(segments) * (2 * np.pi / segments)
    points = [(0.0, 0.0, 1.0)]
    points += [
        (np.sin(p) * np.cos(a), np.sin(p) * np.sin(a), np.cos(p)) for p in polar for a in angle
    ]
    points.append((0.0, 0.0, -1.0))
    faces: list[Sequence[int]] = []
    last = len(points) - 1
    for s in range(segments):
        t = (s + 1) % segments
        faces.append((0, 1 + s, 1 + t))
        faces.append((last, last - segments + t, last - segments + s))
        for r in range(rings - 2):
            upper, lower = 1 + r * segments, 1 + (r + 1) * segments
            faces.append((upper + s, lower + s, lower + t, upper + t))
    return Mesh.from_polygons(len(points), faces), radius * np.array(points)


def cylinder_mesh(segments: int, rows: int, radius: float = 1.0, height: float = 1.0) -> Shape:
    """Open cylinder of quads about the z axis, ``rows`` vertices high."""
    angle = np.arange(segments) * (2 * np.pi / segments)
    levels = np.linspace(0.0, height, rows)
    positions = np.array(
        [(radius * np.cos(a), radius * np.sin(a), z) for z in levels for a in angle]
    )
    faces = [
        (
            r * segments + s,
            r * segments + (s + 1) % segments,
            (r + 1) * segments + (s + 1) % segments,
            (r + 1) * segments + s,
        )
        for r in range(rows - 1)
        for s in range(segments)
    ]
    return Mesh.from_polygons(len(positions), faces), positions


def hexagon_sheet(columns: int, rows: int, side: float = 1.0) -> Shape:
    """Honeycomb of regular hexagons in the xy plane."""
    turn = np.arange(6) * (np.pi / 3) + np.pi / 6
    corner = side * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    step = np.array([np.sqrt(3.0) * side, 1.5 * side])
    centres = np.array(
        [((c + 0.5 * (r % 2)) * step[0], r * step[1]) for r in range(rows) for c in range(columns)]
    )
    points = (centres[:, None] + corner).reshape(-1, 2)
    keys = np.round(points / side * 1e4).astype(np.int64)
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    faces = inverse.reshape(-1, 6)
    positions = np.concatenate([points[first], np.zeros((len(first), 1))], axis=1)
    return _mesh(len(first), faces), positions


def merge(*shapes: Shape) -> Shape:
    """Several meshes as one, unconnected."""
    offsets, corners, loose, positions = [np.zeros(1, np.int32)], [], [], []
    vertices = 0
    for mesh, points in shapes:
        offsets.append(mesh.offsets[1:] + offsets[-1][-1])
        corners.append(mesh.corners + vertices)
        loose.append(mesh.loose_edges + vertices)
        positions.append(points)
        vertices += mesh.vertex_count
    joined = Mesh(
        vertices,
        np.concatenate(offsets).astype(np.int32),
        np.concatenate(corners).astype(np.int32),
        np.concatenate(loose).astype(np.int32),
    )
    return joined, np.concatenate(positions)


def rotated(positions: Array, degrees: float) -> Array:
    """Turn about the z axis."""
    angle = np.radians(degrees)
    turn = np.array(
        [
            [np.cos(angle), -np.sin(angle), 0.0],
            [np.sin(angle), np.cos(angle), 0.0],
            [0.0, 0.0, 1.0],
        ]
    )
    return np.asarray(positions @ turn.T)
