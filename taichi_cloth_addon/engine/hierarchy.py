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
from typing import Any

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
_NONE = (np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32))
# Vertices and springs in work at once: bounds the memory.
_CHUNK = 1 << 17
# Of those so many at a time, so that their arrays stay in the processor's cache.
_PIECE = 1 << 13
# The pairs of the nodes that the ends of a spring interpolate from; spring and pair of each entry
# of a table (_PIECE, pairs).
_LEFT, _RIGHT = np.triu_indices(2 * PARENTS, 1)
_PAIRS = len(_LEFT)
_SPRING_OF = np.repeat(np.arange(_PIECE), _PAIRS)
_PAIR_OF = np.tile(np.arange(_PAIRS), _PIECE)


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
    first, second = (parents[:, 0][end] for end in strong.T)
    apart = first != second
    touching = _keys(first[apart], second[apart], len(fixed))
    is_strong = np.isin(_keys(springs[:, 0], springs[:, 1], len(fixed)), touching)
    del first, second, apart, touching
    bending = _coarse_bending(graph.bending, parents, weights, fixed)
    level = Level(parents, weights, springs, offsets, sources, shares, fixed, bending)
    return level, Graph(springs, stiffness[: len(springs)], is_strong, fixed, bending)


def _keys(one: Indices, two: Indices, count: int) -> Integers:
    """One number for each unordered pair."""
    keys = np.minimum(one, two).astype(np.int64)
    keys *= count
    keys += np.maximum(one, two)
    return keys


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
    order = stable_order(both[:, 0])
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
        for start in range(0, count, _PIECE):
            rows = slice(start, min(start + _PIECE, count))
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
    used = np.flatnonzero(weights > 0.0)
    rows, nodes, weights = rows[used], nodes[used], weights[used]
    if not len(rows):
        return rows, np.zeros((0, PARENTS), np.int32), np.zeros((0, PARENTS), np.float32)
    order = stable_order(rows - rows[0], nodes - nodes.min())
    rows, nodes = rows[order], nodes[order]
    first = np.flatnonzero(run_starts(rows, nodes))
    sums = np.add.reduceat(weights[order], first)
    rows, nodes = rows[first], nodes[first]
    new = run_starts(rows)
    begins = np.flatnonzero(new)
    row = np.cumsum(new) - 1
    result = np.zeros((len(begins), PARENTS))
    node = np.repeat(nodes[begins, None], PARENTS, axis=1)
    for place in range(PARENTS):
        # The largest of what is left of each row, of equal ones the first.
        largest = np.maximum.reduceat(sums, begins)
        found = np.flatnonzero((sums == largest[row]) & (sums > 0.0))
        found = found[run_starts(row[found])]
        result[row[found], place] = sums[found]
        node[row[found], place] = nodes[found]
        sums[found] = 0.0
    unused = result == 0.0
    node[unused] = np.broadcast_to(node[:, :1], node.shape)[unused]
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
    runs = []
    for start in range(0, len(vertices), _PIECE):
        first, second = vertices[start : start + _PIECE].T
        low, high, source, share = _pairs(
            (parents[first], weights[first]), (parents[second], weights[second]), fixed
        )
        source += start
        runs.append(_run(low, high, count, source.astype(np.int32), share))
    keys, offsets, sources, shares = _merged(runs)
    springs = np.stack(np.divmod(keys, count), axis=1).astype(np.int32)
    return springs, offsets.astype(np.int32), sources, shares


@dataclass(frozen=True)
class _Run:
    """Terms of pairs of nodes, by pair.

    Attributes:
        keys: of the pairs, ascending: low node * count + high node.
        lengths: terms of each pair.
        columns: two numbers of each term.
    """

    keys: Integers
    lengths: Indices
    columns: tuple[npt.NDArray[Any], npt.NDArray[Any]]


def _run(
    low: Indices, high: Indices, count: int, one: npt.NDArray[Any], two: npt.NDArray[Any]
) -> _Run:
    """Sort terms by pair; stable."""
    if not len(low):
        return _Run(low.astype(np.int64), low, (one, two))
    order = stable_order(low - low.min(), high - high.min())
    low, high = low[order], high[order]
    begins = np.flatnonzero(run_starts(low, high))
    keys = low[begins].astype(np.int64) * count + high[begins]
    lengths = np.diff(begins, append=len(low)).astype(np.int32)
    return _Run(keys, lengths, (one[order], two[order]))


def _merged(
    runs: list[_Run],
) -> tuple[Integers, Integers, npt.NDArray[Any], npt.NDArray[Any]]:
    """All terms by pair, for each pair those of the first run first.

    Returns:
        keys (K,) of the pairs, ascending; offsets (K + 1,) of their terms; the two columns.
    """
    keys = np.concatenate([np.zeros(0, np.int64), *(run.keys for run in runs)])
    lengths = np.concatenate([np.zeros(0, np.int64), *(run.lengths for run in runs)])
    order = np.argsort(keys, kind="stable")
    keys, lengths = keys[order], lengths[order]
    ends = np.cumsum(lengths)
    goal = np.empty(len(order), dtype=np.int64)
    goal[order] = ends - lengths
    total = int(ends[-1]) if len(ends) else 0
    result = [np.empty(total, column.dtype) for column in (runs[0].columns if runs else _NONE)]
    at = 0
    for run in runs:
        begins = goal[at : at + len(run.keys)] - (np.cumsum(run.lengths) - run.lengths)
        at += len(run.keys)
        place = np.repeat(begins, run.lengths)
        place += np.arange(len(place))
        for whole, column in zip(result, run.columns, strict=True):
            whole[place] = column
    new = run_starts(keys)
    return keys[new], np.append((ends - lengths)[new], total), result[0], result[1]


def _coarse_bending(fine: Bending, parents: Indices, weights: Weights, fixed: Mask) -> Bending:
    """The Galerkin product P^T Q P of the bending matrix.

    It is too stiff for smooth bends (the interpolation has kinks); scaled down it preconditions
    worse all the same (measured with 0.05 to 0.7 a level).
    """
    count = len(fixed)
    keys, values = [], []
    for start in range(0, len(fine.pairs), _CHUNK):
        own = slice(start, min(start + _CHUNK, len(fine.pairs)))
        key, offsets, share, strength = _merged(_bending_runs(fine, own, parents, weights, fixed))
        keys.append(key)
        values.append(np.add.reduceat(share * strength, offsets[:-1]) if len(key) else strength)
    if not keys:
        return fine
    key, strength = _summed(np.concatenate(keys), np.concatenate(values))
    pairs = np.stack(np.divmod(key, count), axis=1).astype(np.int32)
    return Bending(pairs, strength)


def _bending_runs(
    fine: Bending, own: slice, parents: Indices, weights: Weights, fixed: Mask
) -> list[_Run]:
    """What some pairs add to coarse ones: shares and the strengths they are of."""
    runs = []
    for start in range(own.start, own.stop, _PIECE):
        piece = slice(start, min(start + _PIECE, own.stop))
        first, second = fine.pairs[piece].T
        nodes, delta = _differences(
            (parents[first], weights[first]), (parents[second], weights[second])
        )
        share = -delta[:, _LEFT] * delta[:, _RIGHT]
        low, high, pair, value = _useful(nodes, share, fixed)
        runs.append(_run(low, high, len(fixed), value, fine.strength[piece][pair]))
    return runs


def _useful(
    nodes: Indices, share: Weights, fixed: Mask
) -> tuple[Indices, Indices, Integers, Weights]:
    """The terms that are not 0 and not between fixed nodes.

    Returns:
        low and high node, spring and share of each.
    """
    flat = np.flatnonzero(share != 0.0)
    spring, pair = np.take(_SPRING_OF, flat), np.take(_PAIR_OF, flat)
    value = np.take(share.reshape(-1), flat)
    row = spring * (2 * PARENTS)
    one = np.take(nodes.reshape(-1), row + np.take(_LEFT, pair))
    other = np.take(nodes.reshape(-1), row + np.take(_RIGHT, pair))
    idle = fixed[one] & fixed[other]
    if idle.any():
        used = np.flatnonzero(~idle)
        one, other, spring, value = one[used], other[used], spring[used], value[used]
    return np.minimum(one, other), np.maximum(one, other), spring, value


def _summed(keys: Integers, values: Array) -> tuple[Integers, Array]:
    """Sum the values of equal keys; the keys ascend."""
    order = np.argsort(keys, kind="stable")
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
    # By columns, each in one piece of memory.
    names = np.ascontiguousarray(nodes.T)
    columns = np.concatenate([start[1].T, -end[1].T])
    for i in range(PARENTS):
        for j in range(PARENTS, 2 * PARENTS):
            shared = columns[j] * (names[i] == names[j])
            columns[i] += shared
            columns[j] -= shared
    delta = np.ascontiguousarray(columns.T)
    return nodes, delta


def _pairs(
    start: tuple[Indices, Weights], end: tuple[Indices, Weights], fixed: Mask
) -> tuple[Indices, Indices, Integers, Weights]:
    """Low and high coarse node, spring and share, for springs given by their ends' rows."""
    nodes, delta = _differences(start, end)
    trace = 0.5 * (delta * delta).sum(axis=1)
    share = -delta[:, _LEFT] * delta[:, _RIGHT]
    share *= share >= _LEAST_SHARE
    total = share.sum(axis=1)
    scale = np.divide(trace, total, out=np.zeros_like(total), where=total > 0.0)
    low, high, spring, value = _useful(nodes, share, fixed)
    return low, high, spring, (value * scale[spring]).astype(np.float32, copy=False)
