# SPDX-License-Identifier: GPL-3.0-or-later
"""Gather lists: for every vertex the couplings, triangles and hinges it takes part in."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .bending import HingeSet, SparseMatrix
from .sorting import stable_order
from .springs import Adjacency, SpringNetwork

Indices = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Reals = npt.NDArray[np.floating]

# A rest angle (radians) below this counts as flat.
_FLAT = 1e-3
# Rows that are merged at a time.
_BLOCK = 65536


@dataclass(frozen=True)
class Rows:
    """The couplings of each vertex with its neighbours, springs first.

    Attributes:
        offsets: (V + 1,) row i is entries offsets[i] .. offsets[i + 1].
        middles: (V,) entries from here on carry no spring, only bending.
        neighbours: (R,) the other vertex of each entry.
        spring: (R,) index of the entry's spring, -1 without.
        bending: (R,) index of the entry in the bending matrix it was made from, -1 without.
    """

    offsets: Indices
    middles: Indices
    neighbours: Indices
    spring: Indices
    bending: Indices

    def spring_values(self, values: Reals) -> Reals:
        """Spread a value per spring, (S,) or (S, k), over the entries; 0 without a spring."""
        return _spread(values, self.spring)

    def bending_values(self, values: Reals) -> Reals:
        """Spread a value per entry of the bending matrix, (N,), over the entries."""
        return _spread(values, self.bending)


def _spread(values: Reals, index: Indices) -> Reals:
    if not len(values):
        return np.zeros((len(index), *values.shape[1:]), dtype=values.dtype)
    # -1 takes the last value, which is as good as any.
    result = np.take(values, index, axis=0)
    result[index < 0] = 0.0
    return result


def build_rows(
    vertex_count: int,
    network: SpringNetwork,
    bending: SparseMatrix,
) -> Rows:
    """Merge springs and the bending matrix (its diagonal is left out) into one list a vertex."""
    springs = network.adjacency(vertex_count)
    blocks = [
        _merged_block(start, min(start + _BLOCK, vertex_count), springs, bending)
        for start in range(0, vertex_count, _BLOCK)
    ]
    nothing = np.zeros(0, dtype=np.int32)
    counts = np.concatenate([nothing, *(block.counts for block in blocks)])
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Rows(
        offsets.astype(np.int32),
        (offsets[:-1] + np.diff(springs.offsets)).astype(np.int32),
        np.concatenate([nothing, *(block.neighbours for block in blocks)]),
        np.concatenate([nothing, *(block.spring for block in blocks)]),
        np.concatenate([nothing, *(block.bending for block in blocks)]),
    )


@dataclass(frozen=True)
class _Block:
    """Some rows: the number of their entries, and those entries as in Rows."""

    counts: Indices
    neighbours: Indices
    spring: Indices
    bending: Indices


def _merged_block(start: int, end: int, springs: Adjacency, bending: SparseMatrix) -> _Block:
    """Merge the springs and the bending matrix in rows ``start`` to ``end``."""
    own = slice(springs.offsets[start], springs.offsets[end])
    entries = slice(bending.offsets[start], bending.offsets[end])
    row = np.arange(start, end, dtype=np.int64)
    per_row = np.diff(springs.offsets[start : end + 1])
    width = len(bending.offsets)
    bend_row = np.repeat(row, np.diff(bending.offsets[start : end + 1]))
    columns = bending.neighbours[entries]
    free = bend_row != columns
    keys = bend_row * width + columns
    wanted = np.repeat(row, per_row) * width + springs.neighbours[own]
    shared = np.full(len(wanted), -1, dtype=np.int32)
    if len(keys):
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        found = keys[place] == wanted
        shared[found] = place[found] + entries.start
        free[place[found]] = False
    only = np.flatnonzero(free)
    only_row = bend_row[only] - start
    only_per_row = np.bincount(only_row, minlength=end - start)
    counts = per_row + only_per_row
    begin = np.cumsum(counts) - counts
    place = np.repeat(begin - (np.cumsum(per_row) - per_row), per_row)
    place += np.arange(len(place))
    begin += per_row - (np.cumsum(only_per_row) - only_per_row)
    only_place = np.arange(len(only)) + begin[only_row]
    total = len(wanted) + len(only)
    neighbours = np.empty(total, dtype=np.int32)
    neighbours[place] = springs.neighbours[own]
    neighbours[only_place] = columns[only]
    spring = np.full(total, -1, dtype=np.int32)
    spring[place] = springs.springs[own]
    matrix = np.empty(total, dtype=np.int32)
    matrix[place] = shared
    matrix[only_place] = only + entries.start
    return _Block(counts.astype(np.int32), neighbours, spring, matrix)


def incidence(elements: Indices, vertex_count: int) -> tuple[Indices, Indices]:
    """List for each vertex the positions in ``elements`` (E, k) that name it.

    Returns:
        offsets (V + 1,) and entries (E k,), an entry being element * k + slot.
    """
    flat = elements.reshape(-1)
    entries = stable_order(flat).astype(np.int32)
    counts = np.bincount(flat, minlength=vertex_count)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return offsets, entries


def row_sums(matrix: SparseMatrix, of: Callable[[Floats], Floats]) -> Floats:
    """Sum a function of the entries in each row of a matrix, (V,)."""
    total = np.empty(len(matrix.offsets) - 1)
    for start in range(0, len(total), _BLOCK):
        offsets = matrix.offsets[start : start + _BLOCK + 1]
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        values = of(matrix.weights[offsets[0] : offsets[-1]])
        total[start : start + _BLOCK] = np.bincount(rows, values, len(offsets) - 1)
    return total


def curved_mask(hinges: HingeSet) -> npt.NDArray[np.bool_]:
    """The hinges whose rest shape is not flat."""
    mask: npt.NDArray[np.bool_] = np.abs(np.sin(hinges.rest_angle)) > _FLAT
    return mask


def curved_hinges(hinges: HingeSet, rest: Floats) -> tuple[Indices, Floats]:
    """The hinges whose rest shape is not flat, and their cubic coefficients.

    The energy k (1 - cos(theta - theta0)) is k cos(theta0) (1 - cos theta), which belongs to
    the bending matrix, plus -k sin(theta0) sin(theta), with sin(theta) = |e| det(e, p, q) /
    (|n_p| |n_q|) for the edge e, the wings p and q seen from the edge's start and the rest
    normals n_p = e x p and n_q = q x e ("Cubic shells", Garg et al. 2007).

    Returns:
        indices (K,) of the curved hinges and their coefficients c, energy -c det(e, p, q).
    """
    curved = np.flatnonzero(curved_mask(hinges)).astype(np.int32)
    corners = rest[hinges.vertices[curved]]
    edge = corners[:, 1] - corners[:, 0]
    p = 0.5 * (corners[:, 2] + corners[:, 3]) - corners[:, 0]
    q = 0.5 * (corners[:, 4] + corners[:, 5]) - corners[:, 0]
    length = np.linalg.norm(edge, axis=1)
    areas = np.linalg.norm(np.cross(edge, p), axis=1) * np.linalg.norm(np.cross(q, edge), axis=1)
    # A sliver has no normal; its hinge is left flat.
    sound = areas > 1e-6 * length**4
    curved, length, areas = curved[sound], length[sound], areas[sound]
    determinant = np.einsum("ij,ij->i", edge[sound], np.cross(p[sound], q[sound]))
    strength = hinges.stiffness[curved] * np.abs(np.sin(hinges.rest_angle[curved]))
    # The sign that makes the rest shape the one with the lower energy.
    return curved, strength * np.sign(determinant) * length / areas
