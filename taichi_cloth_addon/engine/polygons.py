# SPDX-License-Identifier: GPL-3.0-or-later
"""Splitting polygons into triangles: quads and convex polygons in bulk, the rest by ears."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int32]
Integers = npt.NDArray[np.int64]

_TRIANGLE = 3
_QUAD = 4
_BULK = 16  # largest polygon that is cut in bulk with others of its size
_TIE = 1e-6  # relative difference of two qualities that counts as none


def triangulate_corners(
    offsets: Indices, vertices: Indices, positions: Array, faces: Integers
) -> tuple[Integers, Integers]:
    """Triangles of the given faces.

    Args:
        offsets: (F + 1,) corners of each face.
        vertices: (L,) vertex at each corner.
        positions: (V, 3) m.
        faces: faces to be split, ascending.

    Returns:
        (T, 3) corner indices and (T,) faces, in the order of the faces.
    """
    starts = offsets[faces].astype(np.int64)
    sizes = offsets[faces + 1] - starts
    found: list[Integers] = [np.zeros((0, 3), dtype=np.int64)]
    owners: list[Integers] = [np.zeros(0, dtype=np.int64)]
    for size in np.unique(sizes):
        chosen = sizes == size
        corners = starts[chosen, None] + np.arange(size)
        points = positions[vertices[corners]]
        names = vertices[corners].astype(np.int64)
        if size < _TRIANGLE:
            continue
        if size == _TRIANGLE:
            local = np.broadcast_to(np.arange(3), (len(corners), 1, 3))
        elif size == _QUAD:
            local = _split_quads(points, names)
        else:
            local = _split_polygons(points, names)
        rows = np.arange(len(corners))[:, None, None]
        found.append(corners[rows, local].reshape(-1, 3))
        owners.append(np.repeat(faces[chosen], local.shape[1]))
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return np.concatenate(found)[order], owner[order]


def _quality(a: Array, b: Array, c: Array, normal: Array) -> Array:
    """Signed area over squared edge lengths; 0.144 for an equilateral triangle."""
    area = 0.5 * (np.cross(b - a, c - a) * normal).sum(axis=-1)
    squares = ((b - a) ** 2 + (c - b) ** 2 + (a - c) ** 2).sum(axis=-1)
    return np.asarray(area / np.maximum(squares, np.finfo(float).tiny), dtype=np.float64)


def _unit(vectors: Array) -> Array:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, np.finfo(float).tiny), dtype=np.float64)


def _split_quads(points: Array, names: Integers) -> Integers:
    """(N, 2, 3) corner numbers of the two triangles of each quad."""
    p, q, r, s = (points[:, corner] for corner in range(4))
    normal = _unit(np.cross(r - p, s - q))
    even = np.minimum(_quality(p, q, r, normal), _quality(p, r, s, normal))
    odd = np.minimum(_quality(q, r, s, normal), _quality(q, s, p, normal))
    smallest_even = names.argmin(axis=1) % 2 == 0
    tie = np.abs(even - odd) <= _TIE
    take_even = np.where(tie, smallest_even, even > odd)
    split = np.where(
        take_even[:, None, None],
        np.array([[0, 1, 2], [0, 2, 3]]),
        np.array([[1, 2, 3], [1, 3, 0]]),
    )
    return split.astype(np.int64)


def _newell(points: Array) -> Array:
    local = points - points[..., :1, :]
    following = np.roll(local, -1, axis=-2)
    return np.asarray(np.cross(local, following).sum(axis=-2), dtype=np.float64)


def _split_polygons(points: Array, names: Integers) -> Integers:
    """(N, n - 2, 3) corner numbers, for polygons of one size n > 4."""
    count, size = names.shape
    normal = _unit(_newell(points))
    before, after = np.roll(points, 1, axis=1), np.roll(points, -1, axis=1)
    turn = (np.cross(points - before, after - points) * normal[:, None]).sum(axis=-1)
    convex = (turn > 0.0).all(axis=1) & (size <= _BULK)
    result = np.zeros((count, size - 2, 3), dtype=np.int64)
    if convex.any():
        result[convex] = _clip_convex(points[convex], names[convex], normal[convex])
    for row in np.flatnonzero(~convex):
        result[row] = _clip_ears(points[row], names[row], normal[row])
    return result


def _best(quality: Array, names: Integers) -> Integers:
    """Column of the best quality in each row, of equal ones that of the smallest name."""
    best = quality.max(axis=-1, keepdims=True)
    return np.asarray(
        np.where(quality >= best - _TIE, names, np.iinfo(np.int64).max).argmin(axis=-1)
    )


def _clip_convex(points: Array, names: Integers, normal: Array) -> Integers:
    """Cut the best ear of every polygon in step."""
    count, size = names.shape
    left = np.tile(np.arange(size), (count, 1))
    rows = np.arange(count)[:, None]
    cut = np.zeros((count, size - 2, 3), dtype=np.int64)
    for step in range(size - 2):
        previous, following = np.roll(left, 1, axis=1), np.roll(left, -1, axis=1)
        quality = _quality(
            points[rows, previous], points[rows, left], points[rows, following], normal[:, None]
        )
        best = _best(quality, names[rows, left])[:, None]
        ear = [np.take_along_axis(ring, best, axis=1) for ring in (previous, left, following)]
        cut[:, step] = np.concatenate(ear, axis=1)
        keep = np.arange(left.shape[1]) != best
        left = left[keep].reshape(count, -1)
    return cut


def _clip_ears(points: Array, names: Integers, normal: Array) -> Integers:
    """Ear clipping of one polygon, the best shaped ear first; always n - 2 triangles."""
    left = list(range(len(points)))
    cut: list[tuple[int, int, int]] = []
    while len(left) > _TRIANGLE:
        ring = np.array(left)
        before, after = np.roll(ring, 1), np.roll(ring, -1)
        quality = _quality(points[before], points[ring], points[after], normal)
        reflex = ring[quality <= 0.0]
        order = np.lexsort((names[ring], -np.round(quality / _TIE)))
        chosen = int(order[0])
        for candidate in order:
            if quality[candidate] <= 0.0:
                break
            triple = (before[candidate], ring[candidate], after[candidate])
            if not _holds(points, names, triple, reflex, normal):
                chosen = int(candidate)
                break
        cut.append((int(before[chosen]), left[chosen], int(after[chosen])))
        del left[chosen]
    cut.append((left[0], left[1], left[2]))
    return np.array(cut, dtype=np.int64)


def _holds(
    points: Array,
    names: Integers,
    triple: tuple[int, int, int],
    others: Integers,
    normal: Array,
) -> bool:
    """Whether the triangle contains one of the other corners."""
    rest = others[~np.isin(names[others], names[list(triple)])]
    inside = np.ones(len(rest), dtype=np.bool_)
    for start, end in zip(triple, (*triple[1:], triple[0]), strict=True):
        side = np.cross(points[end] - points[start], points[rest] - points[start]) @ normal
        inside &= side >= 0.0
    return bool(inside.any())
