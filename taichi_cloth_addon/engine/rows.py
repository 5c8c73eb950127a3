# SPDX-License-Identifier: GPL-3.0-or-later
"""Gather lists: for every vertex the couplings, triangles and hinges it takes part in."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .bending import HingeSet, SparseMatrix
from .springs import SpringNetwork

Indices = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

# A rest angle (radians) below this counts as flat.
_FLAT = 1e-3


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

    def spring_values(self, values: Floats) -> Floats:
        """Spread a value per spring, (S,) or (S, k), over the entries; 0 without a spring."""
        return _spread(values, self.spring)

    def bending_values(self, values: Floats) -> Floats:
        """Spread a value per entry of the bending matrix, (N,), over the entries."""
        return _spread(values, self.bending)


def _spread(values: Floats, index: Indices) -> Floats:
    result = np.zeros((len(index), *values.shape[1:]))
    used = index >= 0
    result[used] = values[index[used]]
    return result


def build_rows(
    vertex_count: int,
    network: SpringNetwork,
    bending: SparseMatrix,
) -> Rows:
    """Merge springs and the bending matrix (its diagonal is left out) into one list a vertex."""
    count = len(network.vertices)
    first = network.vertices.astype(np.int64)
    spring_rows = np.concatenate([first[:, 0], first[:, 1]])
    spring_columns = np.concatenate([first[:, 1], first[:, 0]])
    spring_ids = np.concatenate([np.arange(count), np.arange(count)])

    bending_rows = np.repeat(np.arange(vertex_count, dtype=np.int64), np.diff(bending.offsets))
    bending_columns = bending.neighbours.astype(np.int64)
    bending_ids = np.flatnonzero(bending_rows != bending_columns)
    bending_keys = bending_rows[bending_ids] * vertex_count + bending_columns[bending_ids]
    order = np.argsort(bending_keys)
    bending_ids, bending_keys = bending_ids[order], bending_keys[order]

    spring_keys = spring_rows * vertex_count + spring_columns
    keys = np.union1d(spring_keys, bending_keys)
    spring = np.full(len(keys), -1, dtype=np.int32)
    spring[np.searchsorted(keys, spring_keys)] = spring_ids
    matrix = np.full(len(keys), -1, dtype=np.int32)
    matrix[np.searchsorted(keys, bending_keys)] = bending_ids
    rows, columns = np.divmod(keys, vertex_count)

    order = np.lexsort((columns, spring < 0, rows))
    rows, columns, spring, matrix = rows[order], columns[order], spring[order], matrix[order]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=vertex_count))])
    with_spring = np.bincount(rows[spring >= 0], minlength=vertex_count)
    return Rows(
        offsets.astype(np.int32),
        (offsets[:-1] + with_spring).astype(np.int32),
        columns.astype(np.int32),
        spring,
        matrix,
    )


def incidence(elements: Indices, vertex_count: int) -> tuple[Indices, Indices]:
    """List for each vertex the positions in ``elements`` (E, k) that name it.

    Returns:
        offsets (V + 1,) and entries (E k,), an entry being element * k + slot.
    """
    flat = elements.reshape(-1)
    entries = np.argsort(flat, kind="stable").astype(np.int32)
    counts = np.bincount(flat, minlength=vertex_count)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return offsets, entries


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
