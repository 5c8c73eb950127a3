# SPDX-License-Identifier: GPL-3.0-or-later
"""Vertex colours: vertices of one colour are not coupled, so a sweep may treat them at once."""

import numpy as np
import numpy.typing as npt

from .sorting import run_starts

Indices = npt.NDArray[np.int32]
Integers = npt.NDArray[np.int64]

_PASSES = 2
_ROUNDS = 10_000


def color(offsets: Indices, neighbours: Indices) -> Indices:
    """(V,) colours 0, 1, ... such that no two coupled vertices share one.

    Greedy in the order of the vertices, which suits grids and any order that keeps neighbours
    together; all vertices whose predecessors are done get their colours at once (Jones and
    Plassmann). Then two rounds of iterated greedy: the classes, last one first, are coloured
    anew, which never needs more colours. Deterministic.

    Args:
        offsets: (V + 1,) vertex v is coupled to neighbours[offsets[v] : offsets[v + 1]].
        neighbours: symmetric; an entry of a vertex with itself is ignored.
    """
    count = len(offsets) - 1
    owner = np.repeat(np.arange(count, dtype=np.int64), np.diff(offsets))
    other = neighbours.astype(np.int64)
    apart = owner != other
    owner, other = owner[apart], other[apart]
    degree = np.bincount(owner, minlength=count)
    start = np.concatenate([[0], np.cumsum(degree)])
    colours = _first_colours(start, owner, other, degree)
    for _ in range(_PASSES):
        order, ends = color_order(colours.astype(np.int32))
        fresh = np.full(count, -1, dtype=np.int64)
        for vertices in reversed(np.split(order.astype(np.int64), ends[1:-1])):
            fresh[vertices] = _smallest_free(vertices, start, other, fresh)
        colours = fresh
    return colours.astype(np.int32)


def color_order(colours: Indices) -> tuple[Indices, Indices]:
    """Vertices by colour.

    Returns:
        order: (V,) vertices, ascending within a colour.
        offsets: (colours + 1,) colour c has order[offsets[c] : offsets[c + 1]].
    """
    order = np.argsort(colours, kind="stable").astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(colours))]).astype(np.int32)
    return order, offsets


def union_pattern(vertex_count: int, *patterns: tuple[Indices, Indices]) -> tuple[Indices, Indices]:
    """Offsets and neighbours of the couplings in any of the patterns (offsets, neighbours)."""
    keys = [
        np.repeat(np.arange(vertex_count, dtype=np.int64), np.diff(offsets)) * vertex_count
        + neighbours
        for offsets, neighbours in patterns
    ]
    merged = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *keys]))
    merged = merged[run_starts(merged)]
    owner, other = merged // max(vertex_count, 1), merged % max(vertex_count, 1)
    offsets = np.zeros(vertex_count + 1, dtype=np.int32)
    np.cumsum(np.bincount(owner, minlength=vertex_count), out=offsets[1:])
    return offsets, other.astype(np.int32)


def _first_colours(start: Integers, owner: Integers, other: Integers, degree: Integers) -> Integers:
    """Greedy colours in the given order, unless that takes too many rounds: then shuffled."""
    count = len(degree)
    natural = np.arange(count, dtype=np.int64)
    colours = _greedy(natural, start, owner, other, degree)
    if colours is None:
        shuffled = np.empty(count, dtype=np.int64)
        shuffled[np.argsort(scattered(natural), kind="stable")] = natural
        colours = _greedy(shuffled, start, owner, other, degree)
    return natural if colours is None else colours


def _greedy(
    rank: Integers, start: Integers, owner: Integers, other: Integers, degree: Integers
) -> Integers | None:
    """Each round colours the vertices whose uncoloured neighbours all come later in rank."""
    waiting = np.bincount(owner[rank[other] < rank[owner]], minlength=len(degree))
    colours = np.full(len(degree), -1, dtype=np.int64)
    ready = np.flatnonzero(waiting == 0)
    for _ in range(_ROUNDS):
        if not len(ready):
            return colours
        colours[ready] = _smallest_free(ready, start, other, colours)
        reached = other[_entries(ready, start)]
        later = reached[rank[reached] > np.repeat(rank[ready], degree[ready])]
        np.subtract.at(waiting, later, 1)
        later.sort()
        later = later[run_starts(later)]
        ready = later[waiting[later] == 0]
    return None


def _entries(vertices: Integers, start: Integers) -> Integers:
    sizes = start[vertices + 1] - start[vertices]
    ends = np.cumsum(sizes)
    first = np.repeat(start[vertices] - (ends - sizes), sizes)
    return np.asarray(np.arange(len(first)) + first, dtype=np.int64)


def _smallest_free(
    vertices: Integers, start: Integers, other: Integers, colours: Integers
) -> Integers:
    """Smallest colour that no neighbour of the (mutually uncoupled) vertices has."""
    sizes = start[vertices + 1] - start[vertices]
    row = np.repeat(np.arange(len(vertices)), sizes)
    taken = colours[other[_entries(vertices, start)]]
    used = taken >= 0
    width = int(taken.max(initial=-1)) + 2
    table = np.zeros((len(vertices), width), dtype=np.bool_)
    table[row[used], taken[used]] = True
    return np.asarray(table.argmin(axis=1))


def scattered(values: Integers) -> npt.NDArray[np.uint64]:
    """A fixed hash that scatters successive numbers (splitmix64)."""
    mixed = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
