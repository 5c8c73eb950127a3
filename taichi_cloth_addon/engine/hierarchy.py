# SPDX-License-Identifier: GPL-3.0-or-later
"""The levels of the multigrid preconditioner, for the spring network of any mesh.

A coarse level is a spring network again: some of the vertices of the level before (a maximal
independent set) and springs with a symmetric 3x3 tensor. Interpolation P is scalar and
algebraic (rest stiffnesses alone, no coordinates), as in classical algebraic multigrid (Ruge
and Stüben 1987); with it the Galerkin product of a spring of tensor K between i and j is a set
of springs between the coarse nodes that i and j interpolate from,

    P^T (e_i - e_j) K (e_i - e_j)^T P = sum over pairs I < J of  -d_I d_J  K-spring (I, J),

where d = P_i - P_j, which sums to 0. So coarse tensors are a fixed sparse map of fine ones,
K_c = C K. Negative entries of C are dropped and the others scaled up to keep the sum: every
coarse spring is then positive semidefinite, and damped Jacobi with 2/3 converges on every level.
Pinned vertices are taken into the coarse levels first and interpolate from pinned nodes alone.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .coloring import scattered
from .sorting import run_starts, stable_order

Indices = npt.NDArray[np.int32]
Integers = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]
Weights = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

# Nodes that a vertex interpolates from, and the least weight beside the largest.
PARENTS = 3
_LEAST_PARENT = 0.08
_PASSES = 2
# Entries of C below this are dropped.
_LEAST_SHARE = 0.02
# A level with so few free nodes is the last, and so is one that no longer shrinks.
_COARSEST = 40
_LEAST_SHRINKAGE = 0.75
_MOST_LEVELS = 12
# Vertices and springs in work at once: bounds the memory.
_CHUNK = 1 << 17


@dataclass(frozen=True)
class Bending:
    """A symmetric matrix without row sums: energy 1/2 strength |u_i - u_j|² of each pair.

    Attributes:
        pairs: (B, 2) nodes, the smaller first.
        strength: (B,) N/m, of either sign.
    """

    pairs: Indices
    strength: Array


@dataclass(frozen=True)
class Graph:
    """A spring network reduced to what the hierarchy needs.

    Attributes:
        vertices: (S, 2) ends of each spring.
        stiffness: (S,) N/m.
        strong: (S,) springs that make neighbours: structural and shear ones.
        fixed: (V,) nodes that do not move.
        bending: the bending matrix's pairs.
    """

    vertices: Indices
    stiffness: Array
    strong: Mask
    fixed: Mask
    bending: Bending


@dataclass(frozen=True)
class Level:
    """A coarse level, seen from the level before it.

    Attributes:
        parents: (V, PARENTS) nodes that each vertex of the level before interpolates from,
            the heaviest first; unused ones repeat the first with weight 0.
        weights: (V, PARENTS) their weights; rows sum to 1.
        springs: (S,) its springs' ends.
        offsets: (S + 1,) spring s has the tensor sum of share * (tensor of source) over
            its entries offsets[s] .. offsets[s + 1].
        sources: springs of the level before.
        shares: of their tensors.
        fixed: (N,) nodes that do not move.
        bending: its bending matrix.
    """

    parents: Indices
    weights: Weights
    springs: Indices
    offsets: Indices
    sources: Indices
    shares: Weights
    fixed: Mask
    bending: Bending

    @property
    def count(self) -> int:
        """Number of nodes."""
        return len(self.fixed)


def build_levels(graph: Graph) -> tuple[Level, ...]:
    """Coarsen until few free nodes are left. Deterministic; empty for a small graph."""
    levels: list[Level] = []
    while len(levels) < _MOST_LEVELS and int((~graph.fixed).sum()) > _COARSEST:
        level, coarse = _coarsen(graph)
        if level.count > _LEAST_SHRINKAGE * len(graph.fixed):
            break
        levels.append(level)
        graph = coarse
    return tuple(levels)


def _coarsen(graph: Graph) -> tuple[Level, Graph]:
    count = len(graph.fixed)
    strong = graph.vertices[graph.strong]
    chosen = _independent_set(strong, count, graph.fixed)
    number = np.full(count, -1, dtype=np.int32)
    number[chosen] = np.arange(int(chosen.sum()), dtype=np.int32)
    fixed = graph.fixed[chosen]
    parents, weights = _interpolation(graph, strong, number)
    springs, offsets, sources, shares = _coarse_springs(graph.vertices, parents, weights, fixed)
    stiffness = np.add.reduceat(
        np.append(shares * graph.stiffness[sources], 0.0), offsets[:-1].astype(np.int64)
    )
    touching = _keys(parents[:, 0][strong], len(fixed))
    is_strong = np.isin(_keys(springs, len(fixed)), touching)
    bending = _coarse_bending(graph.bending, parents, weights, fixed)
    level = Level(parents, weights, springs, offsets, sources, shares, fixed, bending)
    return level, Graph(springs, stiffness[: len(springs)], is_strong, fixed, bending)


def _keys(pairs: Indices, count: int) -> Integers:
    """One number for each unordered pair."""
    low = pairs.min(axis=1).astype(np.int64)
    return np.asarray(low * count + pairs.max(axis=1))


def _independent_set(edges: Indices, count: int, first: Mask) -> Mask:
    """Maximal independent set, greedy in a scattered order with ``first`` before the rest.

    All vertices that precede their undecided neighbours are decided at once (Luby 1986).
    """
    order = np.lexsort((scattered(np.arange(count, dtype=np.int64)), ~first))
    rank = np.empty(count, dtype=np.int32)
    rank[order] = np.arange(count, dtype=np.int32)
    undecided = np.ones(count, dtype=np.bool_)
    chosen = np.zeros(count, dtype=np.bool_)
    early = np.where(rank[edges[:, 0]] < rank[edges[:, 1]], edges[:, 0], edges[:, 1])
    late = edges.sum(axis=1, dtype=np.int32) - early
    apart = early != late
    early, late = early[apart], late[apart]
    while undecided.any():
        joins = undecided.copy()
        joins[late] = False
        chosen |= joins
        undecided &= ~joins
        undecided[late[joins[early]]] = False
        keep = undecided[early] & undecided[late]
        early, late = early[keep], late[keep]
    return chosen


def _interpolation(graph: Graph, strong: Indices, number: Indices) -> tuple[Indices, Weights]:
    """Solve D W = L W for the vertices between the chosen ones, by Jacobi passes.

    L holds the rest stiffnesses between strong neighbours. The first guess spreads a vertex
    over its chosen neighbours.
    """
    count = len(number)
    both = np.concatenate([strong, strong[:, ::-1]])
    k = np.tile(np.maximum(graph.stiffness[graph.strong], 0.0), 2)
    # Springs without stiffness (a slack direction) still make neighbours.
    k = np.maximum(k, 1e-6 * k.max(initial=1e-30))
    # A pinned vertex takes pinned parents only.
    useful = ~(graph.fixed[both[:, 0]] & ~graph.fixed[both[:, 1]])
    both, k = both[useful], k[useful]
    order = np.argsort(both[:, 0], kind="stable")
    other, k = both[order, 1], k[order]
    offsets = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(both[:, 0], minlength=count), out=offsets[1:])

    parents = np.zeros((count, PARENTS), dtype=np.int32)
    weights = np.zeros((count, PARENTS), dtype=np.float32)
    chosen = number >= 0
    parents[chosen] = number[chosen, None]
    weights[chosen, 0] = 1.0
    for _ in range(1 + _PASSES):
        new_parents, new_weights = parents.copy(), weights.copy()
        for start in range(0, count, _CHUNK):
            rows = slice(start, min(start + _CHUNK, count))
            span = slice(int(offsets[rows.start]), int(offsets[rows.stop]))
            own = np.repeat(
                np.arange(rows.start, rows.stop), np.diff(offsets[start : rows.stop + 1])
            )
            between = ~chosen[own]
            own, neighbour, strength = own[between], other[span][between], k[span][between]
            found, node, weight = _largest(
                np.repeat(own, PARENTS),
                parents[neighbour].reshape(-1),
                (strength[:, None] * weights[neighbour]).reshape(-1),
            )
            new_parents[found] = node
            new_weights[found] = weight
        parents, weights = new_parents, new_weights
    return parents, weights


def _largest(rows: Integers, nodes: Indices, weights: Array) -> tuple[Integers, Indices, Weights]:
    """Sum equal (row, node) and keep the PARENTS largest of each row, scaled to sum 1.

    ``rows`` ascends.

    Returns:
        the rows found, their nodes (R, PARENTS) and weights.
    """
    used = weights > 0.0
    rows, nodes, weights = rows[used], nodes[used], weights[used]
    if not len(rows):
        return rows, np.zeros((0, PARENTS), np.int32), np.zeros((0, PARENTS), np.float32)
    keys = rows * (int(nodes.max()) + 1) + nodes
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    sums = np.add.reduceat(weights[order], first)
    rows, nodes = rows[order][first], nodes[order][first]
    order = np.lexsort((-sums, rows))
    rows, nodes, sums = rows[order], nodes[order], sums[order]
    begins = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
    place = np.arange(len(rows)) - np.repeat(begins, np.diff(np.append(begins, len(rows))))
    keep = place < PARENTS
    row = np.cumsum(place == 0) - 1
    result = np.zeros((len(begins), PARENTS))
    result[row[keep], place[keep]] = sums[keep]
    node = np.repeat(nodes[begins, None], PARENTS, axis=1)
    node[row[keep], place[keep]] = nodes[keep]
    small = result < _LEAST_PARENT * result[:, :1]
    result[small] = 0.0
    node[small] = np.broadcast_to(node[:, :1], node.shape)[small]
    result /= result.sum(axis=1, keepdims=True)
    return rows[begins], node.astype(np.int32), result.astype(np.float32)


def _coarse_springs(
    vertices: Indices, parents: Indices, weights: Weights, fixed: Mask
) -> tuple[Indices, Indices, Indices, Weights]:
    """Pairs of coarse nodes that springs couple, and the map C by pair."""
    count = len(fixed)
    keys, sources, shares = [], [], []
    for start in range(0, len(vertices), _CHUNK):
        first, second = vertices[start : start + _CHUNK].T
        key, source, share = _pairs(
            (parents[first], weights[first]), (parents[second], weights[second]), fixed
        )
        keys.append(key)
        sources.append((source + start).astype(np.int32))
        shares.append(share)
    if not keys:
        return (
            np.zeros((0, 2), np.int32),
            np.zeros(1, np.int32),
            np.zeros(0, np.int32),
            np.zeros(0, np.float32),
        )
    key = np.concatenate(keys)
    order = np.argsort(key, kind="stable")
    key = key[order]
    begins = np.flatnonzero(np.concatenate([np.ones(min(len(key), 1), bool), key[1:] != key[:-1]]))
    springs = np.stack(np.divmod(key[begins], count), axis=1).astype(np.int32)
    offsets = np.append(begins, len(key)).astype(np.int32)
    return springs, offsets, np.concatenate(sources)[order], np.concatenate(shares)[order]


def _coarse_bending(fine: Bending, parents: Indices, weights: Weights, fixed: Mask) -> Bending:
    """The Galerkin product P^T Q P of the bending matrix.

    It is too stiff for smooth bends (the interpolation has kinks); scaled down it preconditions
    worse all the same (measured with 0.05 to 0.7 a level).
    """
    count = len(fixed)
    keys, values = [], []
    for start in range(0, len(fine.pairs), _CHUNK):
        first, second = fine.pairs[start : start + _CHUNK].T
        nodes, delta = _differences(
            (parents[first], weights[first]), (parents[second], weights[second])
        )
        left, right = np.triu_indices(2 * PARENTS, 1)
        share = -delta[:, left] * delta[:, right]
        pair, slot = np.nonzero(share)
        one, other = nodes[pair, left[slot]], nodes[pair, right[slot]]
        value = share[pair, slot] * fine.strength[start : start + _CHUNK][pair]
        useful = ~(fixed[one] & fixed[other])
        low = np.minimum(one, other)[useful].astype(np.int64)
        key, total = _summed(low * count + np.maximum(one, other)[useful], value[useful])
        keys.append(key)
        values.append(total)
    if not keys:
        return fine
    key, strength = _summed(np.concatenate(keys), np.concatenate(values))
    pairs = np.stack(np.divmod(key, count), axis=1).astype(np.int32)
    return Bending(pairs, strength)


def _summed(keys: Integers, values: Array) -> tuple[Integers, Array]:
    """Sum the values of equal keys; the keys ascend."""
    order = stable_order(keys)
    keys = keys[order]
    begins = np.flatnonzero(run_starts(keys))
    if not len(begins):
        return keys, np.zeros(0)
    return keys[begins], np.add.reduceat(values[order], begins)


def _differences(
    start: tuple[Indices, Weights], end: tuple[Indices, Weights]
) -> tuple[Indices, Weights]:
    """Nodes (S, 2 PARENTS) and d = P_i - P_j of springs given by their ends' rows.

    A node that both ends have counts once; its second place has 0.
    """
    nodes = np.concatenate([start[0], end[0]], axis=1)
    delta = np.concatenate([start[1], -end[1]], axis=1)
    for i in range(PARENTS):
        for j in range(PARENTS, 2 * PARENTS):
            same = nodes[:, i] == nodes[:, j]
            delta[:, i] += np.where(same, delta[:, j], 0.0)
            delta[same, j] = 0.0
    return nodes, delta


def _pairs(
    start: tuple[Indices, Weights], end: tuple[Indices, Weights], fixed: Mask
) -> tuple[Integers, Integers, Weights]:
    """Keys of coarse pairs, springs' numbers and shares, for springs given by their ends' rows."""
    nodes, delta = _differences(start, end)
    trace = 0.5 * (delta * delta).sum(axis=1)
    left, right = np.triu_indices(2 * PARENTS, 1)
    share = -delta[:, left] * delta[:, right]
    share[share < _LEAST_SHARE] = 0.0
    total = share.sum(axis=1)
    scale = np.divide(trace, total, out=np.zeros_like(total), where=total > 0.0)
    spring, pair = np.nonzero(share)
    one, other = nodes[spring, left[pair]], nodes[spring, right[pair]]
    useful = ~(fixed[one] & fixed[other])
    spring, pair, one, other = spring[useful], pair[useful], one[useful], other[useful]
    low, high = np.minimum(one, other).astype(np.int64), np.maximum(one, other)
    value = share[spring, pair] * scale[spring]
    return low * len(fixed) + high, spring, value.astype(np.float32)
