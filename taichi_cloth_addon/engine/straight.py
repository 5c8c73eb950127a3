# SPDX-License-Identifier: GPL-3.0-or-later
"""Edges that run straight on through a vertex: where flexion springs go."""

import numpy as np

from .fit import Array
from .mesh import EdgeTable, Integers, Mesh, next_corner

_STRAIGHT = -0.8  # cosine below which two edges run straight on
_STAR = 128  # most edges at a vertex that are searched for straight pairs


def straight_pairs(
    mesh: Mesh, table: EdgeTable, rest: Array
) -> tuple[Integers, Integers, Integers]:
    """Pairs of edges that run straight on through a vertex and share no face there.

    Returns:
        (P,) and (P,) edges, (P, 2) their far ends, smaller index first.
    """
    edges = table.vertices.astype(np.int64)
    edge_count = len(edges)
    owner = np.concatenate([edges[:, 0], edges[:, 1]])
    order = np.argsort(owner, kind="stable")
    other = np.concatenate([edges[:, 1], edges[:, 0]])[order]
    edge = order % max(edge_count, 1)
    slot = np.empty(2 * edge_count, dtype=np.int64)
    degree = np.bincount(owner, minlength=mesh.vertex_count)
    start = np.cumsum(degree) - degree
    slot[order] = np.arange(2 * edge_count) - start[owner[order]]
    direction = rest[other] - rest[owner[order]]
    direction /= np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-300)
    beside = _edges_sharing_a_face(mesh, table, slot, edge_count)
    pairs: list[Integers] = [np.zeros((0, 4), dtype=np.int64)]
    for size in np.unique(degree[(degree > 1) & (degree <= _STAR)]):
        vertices = np.flatnonzero(degree == size)
        rows = start[vertices, None] + np.arange(size)
        cosine = np.einsum("nid,njd->nij", direction[rows], direction[rows])
        place = np.full(mesh.vertex_count, -1, dtype=np.int64)
        place[vertices] = np.arange(len(vertices))
        here = beside[place[beside[:, 0]] >= 0]
        cosine[place[here[:, 0]], here[:, 1], here[:, 2]] = 1.0
        cosine[place[here[:, 0]], here[:, 2], here[:, 1]] = 1.0
        best = cosine.argmin(axis=2)
        index = np.arange(len(vertices))[:, None]
        mutual = np.take_along_axis(best, best, axis=1) == np.arange(size)
        lowest = np.take_along_axis(cosine, best[:, :, None], axis=2)[:, :, 0]
        good = mutual & (lowest < _STRAIGHT) & (best > np.arange(size))
        row, first = np.nonzero(good)
        one, two = rows[row, first], rows[row, best[row, first]]
        pairs.append(np.stack([edge[one], edge[two], other[one], other[two]], axis=1))
        del index
    found = np.concatenate(pairs)
    ends = np.sort(found[:, 2:], axis=1)
    return found[:, 0], found[:, 1], ends


def _edges_sharing_a_face(
    mesh: Mesh, table: EdgeTable, slot: Integers, edge_count: int
) -> Integers:
    """(N, 3) vertex and the places of two edges there that belong to one face."""
    edges = table.vertices.astype(np.int64)
    following = next_corner(mesh)
    vertex = mesh.corners[following].astype(np.int64)
    before, after = table.corner_edges, table.corner_edges[following]
    proper = (before >= 0) & (after >= 0)
    vertex, before, after = vertex[proper], before[proper], after[proper]
    slot_before = slot[before + edge_count * (edges[before, 1] == vertex)]
    slot_after = slot[after + edge_count * (edges[after, 1] == vertex)]
    return np.stack([vertex, slot_before, slot_after], axis=1)
