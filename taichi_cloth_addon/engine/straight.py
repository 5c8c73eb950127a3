# SPDX-License-Identifier: GPL-3.0-or-later
"""Edges that run straight on through a vertex: where flexion springs go."""

import numpy as np

from .fit import Array
from .mesh import EdgeTable, Indices, Integers, Mesh, next_corner
from .sorting import stable_order

_STRAIGHT = -0.8  # cosine below which two edges run straight on
_PIECE = 4096  # vertices at a time, so that their arrays stay in the cache
_STAR = 128  # most edges at a vertex that are searched for straight pairs


def straight_pairs(
    mesh: Mesh, table: EdgeTable, rest: Array
) -> tuple[Integers, Integers, Integers]:
    """Pairs of edges that run straight on through a vertex and share no face there.

    Returns:
        (P,) and (P,) edges, (P, 2) their far ends, smaller index first.
    """
    edge_count = len(table.vertices)
    owner = table.vertices.T.reshape(-1)
    order = stable_order(owner)
    slot = np.empty(2 * edge_count, dtype=np.int32)
    degree = np.bincount(owner, minlength=mesh.vertex_count)
    start = np.concatenate([[0], np.cumsum(degree)])
    slot[order] = np.arange(2 * edge_count) - start[owner[order]]
    order = order.astype(np.int32)
    following = next_corner(mesh)
    corners = np.flatnonzero((table.corner_edges >= 0) & (table.corner_edges[following] >= 0))
    vertex = mesh.corners[following[corners]]
    corners = corners[stable_order(vertex)].astype(np.int32)
    corner_start = np.concatenate([[0], np.cumsum(np.bincount(vertex, minlength=len(degree)))])
    pairs: list[Integers] = [np.zeros((0, 4), dtype=np.int64)]
    for first in range(0, mesh.vertex_count, _PIECE):
        last = min(first + _PIECE, mesh.vertex_count)
        own = order[start[first] : start[last]]
        edge = own % max(edge_count, 1)
        far = table.vertices[edge, 1 - own // max(edge_count, 1)]
        direction = rest[far] - rest[owner[own]]
        direction /= np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-300)
        turns = corners[corner_start[first] : corner_start[last]]
        ahead = following[turns]
        at = mesh.corners[ahead]
        sides = []
        for one in (table.corner_edges[turns], table.corner_edges[ahead]):
            sides.append(slot[one + edge_count * (table.vertices[one, 1] == at)])
        for size in np.unique(degree[first:last]):
            if not 1 < size <= _STAR:
                continue
            vertices = np.flatnonzero(degree[first:last] == size)
            place = np.full(last - first, -1, dtype=np.int64)
            place[vertices] = np.arange(len(vertices))
            here = np.flatnonzero(place[at - first] >= 0)
            row = place[at[here] - first]
            rows = (start[first + vertices] - start[first])[:, None] + np.arange(size)
            beside = (row, sides[0][here], sides[1][here])
            row, one, two = _straight(direction[rows], beside)
            one, two = rows[row, one], rows[row, two]
            pairs.append(np.stack([edge[one], edge[two], far[one], far[two]], axis=1))
    found = np.concatenate(pairs)
    ends = np.sort(found[:, 2:], axis=1)
    return found[:, 0], found[:, 1], ends


def _straight(
    direction: Array, beside: tuple[Integers, Indices, Indices]
) -> tuple[Integers, Integers, Integers]:
    """Rows (vertices) and the two places there of edges that run straight on.

    Args:
        direction: (N, n, 3) unit vectors of the n edges at each vertex.
        beside: row and two places of edges there that share a face.
    """
    size = direction.shape[1]
    cosine = np.einsum("nid,njd->nij", direction, direction)
    row, one, two = beside
    cosine[row, one, two] = 1.0
    cosine[row, two, one] = 1.0
    best = cosine.argmin(axis=2)
    mutual = np.take_along_axis(best, best, axis=1) == np.arange(size)
    lowest = np.take_along_axis(cosine, best[:, :, None], axis=2)[:, :, 0]
    good = mutual & (lowest < _STRAIGHT) & (best > np.arange(size))
    row, first = np.nonzero(good)
    return row, first, best[row, first]
