# SPDX-License-Identifier: GPL-3.0-or-later
"""Hinges: their angles, and the constant quadratic form that approximates their energy.

Works on pieces that fit the processor's cache, since a hinge needs many numbers for a moment.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .fit import Array
from .sorting import Indices, Integers, run_starts, stable_order, symmetric_rows

LOW = 1e-3
"""Least height of a wing over the length of the axis."""
PIECE = 8192
"""Hinges at a time; six times as many vertices can be told apart by 16 bits."""
_BLOCK = 65536  # rows of the matrix at a time, likewise

Points = tuple[Array, Array, Array]


@dataclass(frozen=True)
class HingeSet:
    """Hinges between wings.

    Attributes:
        vertices: (H, 6) e0, e1, a0, a1, b0, b1; a0 = a1 where the wing is a vertex.
        rest_angle: (H,) theta in the rest shape, rad.
        stiffness: (H,) N m.
        damping: (H,) N m s.
    """

    vertices: Indices
    rest_angle: Array
    stiffness: Array
    damping: Array


@dataclass(frozen=True)
class SparseMatrix:
    """Symmetric matrix by rows; column indices ascend in each row, the diagonal is stored.

    Attributes:
        offsets: (V + 1,) row v has the entries offsets[v] to offsets[v + 1].
        neighbours: column of each entry.
        weights: value of each entry.
    """

    offsets: Indices
    neighbours: Indices
    weights: Array


def columns(positions: Array) -> Points:
    """x, y and z of (V, 3) positions, each in one piece of memory."""
    x, y, z = np.ascontiguousarray(positions.T)
    return x, y, z


def gathered(points: Points, index: npt.NDArray[np.integer]) -> Points:
    """The points of these numbers."""
    x, y, z = (np.take(part, index) for part in points)
    return x, y, z


def between(end: Points, start: Points) -> Points:
    """Vectors from the starts to the ends."""
    return end[0] - start[0], end[1] - start[1], end[2] - start[2]


def middle(one: Points, two: Points) -> Points:
    """Points halfway."""
    x, y, z = (0.5 * (a + b) for a, b in zip(one, two, strict=True))
    return x, y, z


def dot(one: Points, two: Points) -> Array:
    """Inner products."""
    return np.asarray(one[0] * two[0] + one[1] * two[1] + one[2] * two[2])


def cross(one: Points, two: Points) -> Points:
    """Outer products."""
    return (
        one[1] * two[2] - one[2] * two[1],
        one[2] * two[0] - one[0] * two[2],
        one[0] * two[1] - one[1] * two[0],
    )


def wing(reach: Points, axis: Points, square: Array) -> tuple[Array, Array]:
    """Where a wing point stands over the axis.

    Args:
        reach: from e0 to the point.
        axis: from e0 to e1.
        square: its length squared.

    Returns:
        Place along the axis from 0 (e0) to 1 (e1), and height.
    """
    along = dot(reach, axis) / np.maximum(square, 1e-300)
    x, y, z = (r - along * a for r, a in zip(reach, axis, strict=True))
    return along, np.sqrt(x * x + y * y + z * z)


def pulls(
    length: Array, wing_a: tuple[Array, Array], wing_b: tuple[Array, Array]
) -> tuple[Array, Array, Array, Array]:
    """Weights of e0, e1, a0 and b0 (those of a1 and b1 are like a0 and b0), see hinge_weights."""
    floor = np.maximum(LOW * length, 1e-300)
    pull_a = np.where(length > 0.0, 1.0 / np.maximum(wing_a[1], floor), 0.0)
    pull_b = np.where(length > 0.0, 1.0 / np.maximum(wing_b[1], floor), 0.0)
    second = -(wing_a[0] * pull_a + wing_b[0] * pull_b)
    first = -(pull_a + pull_b) - second
    return first, second, 0.5 * pull_a, 0.5 * pull_b


def _pieces(count: int) -> Iterator[slice]:
    return (slice(start, min(start + PIECE, count)) for start in range(0, count, PIECE))


def hinge_weights(rest: Array, vertices: npt.ArrayLike) -> Array:
    """(H, 6) derivative of theta by the height of each vertex over the hinge laid flat, 1/m."""
    index = np.asarray(vertices)
    points = columns(rest)
    weights = np.empty((len(index), 6))
    for piece in _pieces(len(index)):
        names = np.ascontiguousarray(index[piece].T)
        e0, e1, a0, a1, b0, b1 = (gathered(points, name) for name in names)
        axis = between(e1, e0)
        square = dot(axis, axis)
        wing_a = wing(between(middle(a0, a1), e0), axis, square)
        wing_b = wing(between(middle(b0, b1), e0), axis, square)
        first, second, half_a, half_b = pulls(np.sqrt(square), wing_a, wing_b)
        for column, weight in enumerate((first, second, half_a, half_a, half_b, half_b)):
            weights[piece, column] = weight
    return weights


def hinge_angles(positions: Array, vertices: npt.ArrayLike) -> Array:
    """(H,) theta of the hinges (H, 6): positive where the wings are raised along the normals.

    The sign is that of ``(n_b × n_a) · (e1 - e0)`` for the normals of (e0, e1, a), (e1, e0, b).
    """
    index = np.asarray(vertices)
    points = columns(positions)
    angles = np.empty(len(index))
    for piece in _pieces(len(index)):
        names = np.ascontiguousarray(index[piece].T)
        e0, e1, a0, a1, b0, b1 = (gathered(points, name) for name in names)
        axis = between(e1, e0)
        length = np.maximum(np.sqrt(dot(axis, axis)), 1e-300)
        axis = (axis[0] / length, axis[1] / length, axis[2] / length)
        normal_a = cross(axis, between(middle(a0, a1), e0))
        normal_b = cross(between(middle(b0, b1), e0), axis)
        sine = dot(cross(normal_b, normal_a), axis)
        angles[piece] = np.arctan2(sine, dot(normal_a, normal_b))
    return angles


def bending_matrix(hinges: HingeSet, rest: Array, vertex_count: int) -> SparseMatrix:
    """Constant form Q with x^T (Q ⊗ I) x = sum over hinges of k |sum w_i x_i|².

    w_i is the derivative of theta by the height of vertex i over the hinge laid flat, so Q is
    positive semidefinite and approximates the Hessian of the bending energy; its rows sum to 0.
    """
    return bending_matrices(hinges, rest, vertex_count, (hinges.stiffness,))[0]


def bending_matrices(
    hinges: HingeSet, rest: Array, vertex_count: int, stiffness: Sequence[Array]
) -> list[SparseMatrix]:
    """The bending matrix for each of several stiffnesses (H,), at the same entries."""
    low, high, totals = _half(hinges.vertices, rest, vertex_count, stiffness)
    offsets, entries, neighbours = symmetric_rows(low, high, vertex_count)
    return [SparseMatrix(offsets, neighbours, total[entries]) for total in totals]


@dataclass(frozen=True)
class _Terms:
    """Entries of the upper half, sorted by row and column, none twice.

    Attributes:
        low: (N,) rows.
        high: (N,) columns.
        values: one array (N,) for each stiffness.
    """

    low: Indices
    high: Indices
    values: list[Array]


def _half(
    vertices: Indices, rest: Array, vertex_count: int, stiffness: Sequence[Array]
) -> tuple[Indices, Indices, list[Array]]:
    """Upper half of the matrix with its whole diagonal: rows, columns and values."""
    parts = _piecewise(vertices, rest, vertex_count, stiffness)
    lows: list[Indices] = [np.zeros(0, dtype=np.int32)]
    highs: list[Indices] = [np.zeros(0, dtype=np.int32)]
    values: list[list[Array]] = [[np.zeros(0)] for _ in stiffness]
    for start in range(0, vertex_count, _BLOCK):
        end = min(start + _BLOCK, vertex_count)
        diagonal = np.arange(start, end, dtype=np.int32)
        cuts = [np.searchsorted(part.low, (start, end)) for part in parts]
        chosen = [(part, slice(*cut)) for part, cut in zip(parts, cuts, strict=True)]
        low = np.concatenate([diagonal, *(part.low[cut] for part, cut in chosen)])
        high = np.concatenate([diagonal, *(part.high[cut] for part, cut in chosen)])
        order = stable_order(low - np.int32(start), high)
        low, high = low[order], high[order]
        new = run_starts(low, high)
        lows.append(low[new])
        highs.append(high[new])
        starts = np.flatnonzero(new)
        for number, value in enumerate(values):
            all_values = [np.zeros(len(diagonal))]
            all_values += [part.values[number][cut] for part, cut in chosen]
            value.append(np.add.reduceat(np.concatenate(all_values)[order], starts))
    joined = [np.concatenate(value) for value in values]
    return np.concatenate(lows), np.concatenate(highs), joined


def _piecewise(
    vertices: Indices, rest: Array, vertex_count: int, stiffness: Sequence[Array]
) -> list[_Terms]:
    """Terms of some hinges at a time; pieces share few entries where hinges lie in order."""
    double_a = vertices[:, 2] == vertices[:, 3]
    lean = double_a & (vertices[:, 4] == vertices[:, 5])
    weights = hinge_weights(rest, vertices)
    met = np.zeros(vertex_count, dtype=np.bool_)
    number_of = np.empty(vertex_count, dtype=np.uint16)
    parts = []
    for piece in _pieces(len(vertices)):
        names, factors = vertices[piece], weights[piece]
        met[names] = True
        used = np.flatnonzero(met).astype(np.int32)
        met[used] = False
        number_of[used] = np.arange(len(used), dtype=np.uint16)
        local = number_of[names]
        scaled = [part[piece] for part in stiffness]
        slim = lean[piece]
        lows, highs, values = [], [], [[] for _ in stiffness]  # type: ignore[var-annotated]
        for chosen, columns_of, double in ((slim, (0, 1, 2, 4), 2), (~slim, range(6), 9)):
            name = [local[chosen, column] for column in columns_of]
            factor = [factors[chosen, column] for column in columns_of]
            factor[double:] = [2.0 * part for part in factor[double:]]
            each = [part[chosen] for part in scaled]
            for i, first in enumerate(factor):
                for j in range(i, len(factor)):
                    low, high = np.minimum(name[i], name[j]), np.maximum(name[i], name[j])
                    product = first * factor[j]
                    if i != j:  # two entries of one vertex make twice a product on the diagonal
                        product = np.where(low == high, 2.0 * product, product)
                    lows.append(low)
                    highs.append(high)
                    for value, part in zip(values, each, strict=True):
                        value.append(part * product)
        low, high = np.concatenate(lows), np.concatenate(highs)
        order = stable_order(low, high)
        low, high = low[order], high[order]
        new = run_starts(low, high)
        starts = np.flatnonzero(new)
        sums = [np.add.reduceat(np.concatenate(value)[order], starts) for value in values]
        parts.append(_Terms(used[low[new]], used[high[new]], sums))
    return parts


def merged_hinges(vertices: Indices, shares: Array) -> tuple[Indices, Array]:
    """One hinge for each axis and pair of wings, with the sum of the faces' shares."""
    if not len(vertices):
        return vertices, shares
    swap = vertices[:, 0] > vertices[:, 1]
    vertices = np.where(swap[:, None], vertices[:, [1, 0, 4, 5, 2, 3]], vertices)
    for one, two in ((2, 3), (4, 5)):
        turned = vertices[:, one] > vertices[:, two]
        vertices[turned, one], vertices[turned, two] = vertices[turned, two], vertices[turned, one]
    # Faces of one hinge may turn in opposite ways: the lower wing first tells nothing of the
    # sign, so a hinge and its mirror image are the same; the rest angle takes care of it.
    mirrored = (vertices[:, 2] > vertices[:, 4]) | (
        (vertices[:, 2] == vertices[:, 4]) & (vertices[:, 3] > vertices[:, 5])
    )
    vertices = np.where(mirrored[:, None], vertices[:, [0, 1, 4, 5, 2, 3]], vertices)
    order = _hinge_order(vertices)
    ordered = vertices[order]
    new = run_starts(*ordered.T)
    return ordered[new], np.bincount(np.cumsum(new) - 1, shares[order])


def _hinge_order(vertices: Indices) -> Integers:
    """Order by all columns; most axes have one pair of wings, so that two columns settle it."""
    order = stable_order(vertices[:, 0], vertices[:, 1])
    ordered = vertices[order]
    axis = run_starts(ordered[:, 0], ordered[:, 1])
    other = run_starts(*ordered.T) & ~axis
    if other.any():
        number = np.cumsum(axis) - 1
        several = np.zeros(number[-1] + 1, dtype=np.bool_)
        several[number[other]] = True
        rows = np.flatnonzero(several[number])
        sub = ordered[rows]
        order[rows] = order[rows[np.lexsort(tuple(sub[:, column] for column in range(5, -1, -1)))]]
    return order
