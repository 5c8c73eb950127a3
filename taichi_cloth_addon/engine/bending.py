# SPDX-License-Identifier: GPL-3.0-or-later
"""Hinges that give the sheet its bending stiffness, and their constant quadratic form.

A hinge is an axis (e0, e1) with a wing on either side. Its wing points are the middle of a0
and a1, and the middle of b0 and b1. The angle theta between the triangles (e0, e1, a) and
(e1, e0, b) is 0 when flat, and its energy is ``k (1 - cos(theta - rest_angle))``.

Hinges lie on the interior edges and on the diagonals of quads and larger polygons. Two
triangles that make a rectangle of sorts (a quad that was split) count as a quad, so that it
makes no difference whether a mesh was triangulated.

Where the vertices lie on a smooth surface of curvature κ, a hinge's angle is a linear function
of it, ``theta = H : κ`` with ``H = 1/2 sum w_i x_i ⊗ x_i`` for the flat hinge's vertices x_i
and weights w_i = d theta / d height. A hinge adds ``k / A · H ⊗ H`` to the bending tensor of a
face of area A. Each face fits its hinges to the tensor ``B · identity``, that is an isotropic
sheet with moment B per width and curvature when it is rolled up, energy ``B/2 κ : κ`` and
Poisson's ratio 0, which quads reach exactly. Triangles cannot (their hinges are three for a
tensor of six numbers), so there the stiffness against rolling up, averaged over the
directions, comes first. An edge at a border has no hinge, but counts in the fit of its face,
so that the hinges beside it are as stiff as inside.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .fit import CHUNK, Array, Complex, FitWeights, Mask, fit_system
from .frames import FacePlanes, face_planes
from .hinges import (
    LOW,
    HingeSet,
    Points,
    SparseMatrix,
    bending_matrices,
    bending_matrix,
    between,
    columns,
    dot,
    gathered,
    hinge_angles,
    hinge_weights,
    merged_hinges,
    middle,
    pulls,
    wing,
)
from .mesh import EdgeTable, Indices, Integers, Mesh, clean_faces, edge_table, select_faces

__all__ = [
    "HingeSet",
    "SparseMatrix",
    "bending_matrices",
    "bending_matrix",
    "build_hinges",
    "hinge_angles",
    "hinge_weights",
    "pair_triangles",
]

_CAP = 20.0  # largest stiffness a face may ask of one hinge, over B
_HINGES = 16384  # corners of faces at a time, so that their arrays stay in the cache
_TRIANGLE = 3
_QUAD = 4
_FITTED = 24  # largest polygon whose hinges are fitted; those of larger ones share alike
_ROLLING = 4.0  # weight of the mean stiffness against rolling up
_SQUARE = 0.5  # largest |cosine| at the corners of two triangles that count as a quad
_FLAT = -0.9  # and largest cosine between their wings
_FIT_TRIANGLES = FitWeights(m0=0.0, m2=0.0, m4=0.0, ridge=1e-2, sparsity=0.0, refinements=1)
_FIT_POLYGONS = FitWeights(m0=0.0, m2=0.0, m4=0.0, ridge=0.1, sparsity=0.0, refinements=0)


@dataclass(frozen=True)
class _Flaps:
    """Hinges as faces see them: N faces with n hinges each.

    Attributes:
        faces: (N,).
        vertices: (N, n, 6) as in HingeSet.
        present: (N, n) false where there is no hinge.
        counted: (N, n) whether it takes part in the fit.
        trace: (N, n) H11 + H22 over √2, m.
        deviator: (N, n) (H11 - H22) / √2 + i √2 H12 in the face's plane, m.
    """

    faces: Integers
    vertices: Indices
    present: Mask
    counted: Mask
    trace: Array
    deviator: Complex


def build_hinges(
    mesh: Mesh, rest: Array, bending_stiffness: float, bending_damping: float
) -> HingeSet:
    """Hinges that give the sheet its bending stiffness on this mesh.

    Args:
        mesh: any polygon mesh; bad faces are left out.
        rest: (V, 3) shape without bending moment, m.
        bending_stiffness: moment per width and curvature, N m.
        bending_damping: moment per width and rate of curvature, N m s.
    """
    points = np.where(np.isfinite(rest), rest, 0.0).astype(np.float64)
    sheet = pair_triangles(select_faces(mesh, clean_faces(mesh, rest)), points)
    table = edge_table(sheet)
    planes = face_planes(sheet, table, points)
    vertices: list[Indices] = [np.zeros((0, 6), dtype=np.int32)]
    shares: list[Array] = [np.zeros(0)]
    for flaps in _flaps(sheet, table, planes, points):
        share = _fit(flaps, planes)
        used = flaps.present & (share > 1e-6)  # noqa: PLR2004
        vertices.append(flaps.vertices[used])
        shares.append(share[used])
    merged, stiffness = merged_hinges(np.concatenate(vertices), np.concatenate(shares))
    return HingeSet(
        merged,
        hinge_angles(points, merged),
        bending_stiffness * stiffness,
        bending_damping * stiffness,
    )


def _fit(flaps: _Flaps, planes: FacePlanes) -> Array:
    """(N, n) stiffness that each face asks of its hinges for a sheet of B = 1 N m."""
    area = planes.area[flaps.faces]
    square = flaps.trace**2 + np.abs(flaps.deviator) ** 2
    size = np.sqrt(np.maximum(square, 1e-300))
    trace, deviator = flaps.trace / size, flaps.deviator / size
    counted = flaps.counted & (square > 0.0)
    number = np.maximum(counted.sum(axis=1, keepdims=True), 1)
    weights = np.where(counted, 3.0 / number, 0.0)
    columns = size.shape[1]
    settings = _FIT_TRIANGLES if columns == _TRIANGLE else _FIT_POLYGONS
    for start in range(0, len(area) if columns <= 2 * _FITTED else 0, CHUNK):
        part = slice(start, start + CHUNK)
        one, two = trace[part], deviator[part]
        product = one[:, :, None] * one[:, None, :]
        product += np.real(two[:, :, None] * np.conj(two[:, None, :]))
        rolling = 0.25 * (1.0 + one**2)
        gram = product**2 + _ROLLING * rolling[:, :, None] * rolling[:, None, :]
        weights[part] = fit_system(
            gram,
            1.0 + _ROLLING * rolling,
            counted[part],
            np.zeros_like(one),
            settings,
            weights[part],
        )
    # A hinge's mean over all rolling directions is (1 + trace²) / 4 of its weight.
    reached = (weights * 0.25 * (1.0 + trace**2)).sum(axis=1, keepdims=True)
    weights *= np.clip(1.0 / np.maximum(reached, 1e-300), 0.5, 2.0)
    stiffness = weights * area[:, None] / np.maximum(square, 1e-300)
    return np.asarray(np.minimum(stiffness, _CAP), dtype=np.float64)


def _flaps(sheet: Mesh, table: EdgeTable, planes: FacePlanes, rest: Array) -> Iterator[_Flaps]:
    """Hinges of some faces of one size at a time."""
    sizes = sheet.sizes
    wing_points = _wing_points(sheet)
    position = np.empty(len(sheet.corners), dtype=np.int32)
    position[table.corners] = np.arange(len(table.corners), dtype=np.int32)
    points = columns(rest)
    axes = columns(planes.first), columns(planes.second)
    for size in np.unique(sizes):
        alike = np.flatnonzero((sizes == size) & (planes.area > 0.0))
        step = max(_HINGES // max(int(size), 1), 1)
        for start in range(0, len(alike), step):
            faces = alike[start : start + step]
            corners = sheet.offsets[faces, None] + np.arange(size, dtype=np.int32)
            vertices, present = _edge_hinges(sheet, table, planes, corners, wing_points, position)
            names = sheet.corners[corners]
            inner = _diagonal_hinges(names) if size > _TRIANGLE else vertices[:, :0]
            there = np.ones(inner.shape[:2], dtype=np.bool_)
            yield _describe(
                faces,
                np.concatenate([vertices, inner], axis=1),
                np.concatenate([present, there], axis=1),
                axes,
                points,
            )


def _describe(
    faces: Integers, vertices: Indices, present: Mask, axes: tuple[Points, Points], rest: Points
) -> _Flaps:
    """Find H of each hinge; at a border as if the missing wing mirrored the one there."""
    border = ~present
    vertices[border, 4:] = vertices[border, 2:4]
    e0, e1, *wings = (gathered(rest, vertices[:, :, column]) for column in range(6))
    axis = between(e1, e0)
    square = dot(axis, axis)
    length = np.sqrt(square)
    middle_a = between(middle(wings[0], wings[1]), e0)
    wing_a = wing(middle_a, axis, square)
    wing_b = wing(between(middle(wings[2], wings[3]), e0), axis, square)
    low = np.minimum(wing_a[1], wing_b[1])
    x, y = (gathered(part, faces[:, None]) for part in axes)
    run = dot(axis, x) + 1j * dot(axis, y)
    side = np.sign((np.conj(run) * (dot(middle_a, x) + 1j * dot(middle_a, y))).imag)
    _, second, half_a, half_b = pulls(length, wing_a, wing_b)
    along_squared = np.zeros(length.shape)
    across_squared = np.zeros(length.shape)
    mixed = np.zeros(length.shape)
    along_squared += second * length**2
    for point, weight, sign in zip(
        wings, (half_a, half_a, half_b, half_b), (side, side, -side, -side), strict=True
    ):
        place, height = wing(between(point, e0), axis, square)
        reach = place * length
        along_squared += weight * reach**2
        across_squared += weight * height**2
        mixed += weight * reach * sign * height
    phase = (run / np.maximum(np.abs(run), 1e-300)) ** 2
    root = np.sqrt(0.5)
    trace = 0.5 * root * (along_squared + across_squared)
    deviator = (0.5 * root * (along_squared - across_squared) + 1j * root * mixed) * phase
    sound = (length > 0.0) & (low > LOW * length) & (np.abs(run) > 0.0)
    return _Flaps(faces, vertices, present & sound, sound, trace, deviator)


def pair_triangles(sheet: Mesh, rest: Array) -> Mesh:
    """The mesh with triangles joined in twos where they make a flat quad near a rectangle.

    Two triangles are joined if the edge between them is the longest of either. Quads come
    first in the result, then the other faces in their order.
    """
    triangles = np.flatnonzero(sheet.sizes == _TRIANGLE)
    if not len(triangles):
        return sheet
    table = edge_table(sheet)
    corners = sheet.offsets[triangles, None].astype(np.int64) + np.arange(3)
    points = rest[sheet.corners[corners]]
    lengths = np.linalg.norm(np.roll(points, -1, axis=1) - points, axis=2)
    longest = corners[np.arange(len(triangles)), lengths.argmax(axis=1)]
    edge = table.corner_edges[longest]
    tally = np.bincount(edge, minlength=len(table.vertices))
    both = (tally == 2) & (np.diff(table.face_offsets) == 2)  # noqa: PLR2004
    order = np.argsort(edge, kind="stable")
    order = order[both[edge[order]]].reshape(-1, 2)
    first, second = longest[order[:, 0]], longest[order[:, 1]]
    start_a = corners[order[:, 0], 0]
    start_b = corners[order[:, 1], 0]
    e0 = sheet.corners[first]
    e1 = sheet.corners[start_a + (first - start_a + 1) % 3]
    a = sheet.corners[start_a + (first - start_a + 2) % 3]
    b = sheet.corners[start_b + (second - start_b + 2) % 3]
    same_turn = sheet.corners[second] == e1
    quad = np.stack([e0, b, e1, a], axis=1).astype(np.int64)
    corner = rest[quad]
    ahead = np.roll(corner, -1, axis=1) - corner
    back = np.roll(corner, 1, axis=1) - corner
    scale = np.linalg.norm(ahead, axis=2) * np.linalg.norm(back, axis=2)
    cosine = (ahead * back).sum(axis=2) / np.maximum(scale, 1e-300)
    axis = corner[:, 2] - corner[:, 0]
    axis /= np.maximum(np.linalg.norm(axis, axis=1, keepdims=True), 1e-300)
    wings = []
    for tip in (3, 1):
        wing = corner[:, tip] - corner[:, 0]
        wing = wing - (wing * axis).sum(axis=1, keepdims=True) * axis
        wings.append(wing / np.maximum(np.linalg.norm(wing, axis=1, keepdims=True), 1e-300))
    good = same_turn & (np.abs(cosine) < _SQUARE).all(axis=1) & (a != b)
    good &= (wings[0] * wings[1]).sum(axis=1) < _FLAT
    alone = np.ones(sheet.face_count, dtype=np.bool_)
    alone[triangles[order[good]].reshape(-1)] = False
    others = select_faces(sheet, np.flatnonzero(alone))
    quads = quad[good].reshape(-1)
    starts = np.arange(0, len(quads), _QUAD)
    return Mesh(
        sheet.vertex_count,
        np.concatenate([starts, others.offsets + len(quads)]).astype(np.int32),
        np.concatenate([quads, others.corners]).astype(np.int32),
        sheet.loose_edges,
    )


def _wing_points(sheet: Mesh) -> Indices:
    """(L, 2) vertices whose middle lies opposite the edge that starts at each corner."""
    sizes = np.repeat(sheet.sizes.astype(np.int32), sheet.sizes)
    start = np.repeat(sheet.offsets[:-1], sheet.sizes)
    place = np.arange(len(sheet.corners), dtype=np.int32) - start
    first = start + (place + (sizes + 1) // 2) % np.maximum(sizes, 1)
    second = start + (place + sizes // 2 + 1) % np.maximum(sizes, 1)
    return np.stack([sheet.corners[first], sheet.corners[second]], axis=1)


def _edge_hinges(
    sheet: Mesh,
    table: EdgeTable,
    planes: FacePlanes,
    corners: Indices,
    wing_points: Indices,
    position: Indices,
) -> tuple[Indices, Mask]:
    """Hinges (N, n, 6) across the edges of faces of one size, and whether they are there.

    Where more than two faces share an edge, each bends against the next of them.

    Args:
        sheet: the faces.
        table: their edges.
        planes: their planes.
        corners: (N, n) of the faces.
        wing_points: as ``_wing_points``.
        position: (L,) place of each corner in ``table.corners``.
    """
    following = np.roll(corners, -1, axis=1)
    edge = table.corner_edges[corners]
    begin, end = table.face_offsets[edge], table.face_offsets[edge + 1]
    slot = position[corners]
    pair = slot + 1
    pair = np.where(pair >= end, np.where(end - begin == 2, begin, slot), pair)  # noqa: PLR2004
    other = table.corners[np.clip(pair, 0, max(len(table.corners) - 1, 0))]
    neighbour = table.faces[np.clip(pair, 0, max(len(table.faces) - 1, 0))]
    present = (edge >= 0) & (pair != slot) & (planes.area[neighbour] > 0.0)
    vertices = np.empty((*corners.shape, 6), dtype=np.int32)
    vertices[:, :, 0], vertices[:, :, 1] = sheet.corners[corners], sheet.corners[following]
    vertices[:, :, 2:4], vertices[:, :, 4:] = wing_points[corners], wing_points[other]
    return vertices, present


def _diagonal_hinges(names: Indices) -> Indices:
    """Hinges (N, n, 6) on the diagonals from corner i to the one opposite."""
    size = names.shape[1]
    half = size // 2
    start = np.arange(half if size % 2 == 0 else size)
    opposite = start + half
    columns = [
        start,
        opposite,
        start + half // 2,
        start + (half + 1) // 2,
        opposite + (size - half) // 2,
        opposite + (size - half + 1) // 2,
    ]
    return np.stack([names[:, column % size] for column in columns], axis=2)
