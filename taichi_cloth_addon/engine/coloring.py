# SPDX-License-Identifier: GPL-3.0-or-later
"""Vertex colours: vertices of one colour are not coupled, so a sweep may treat them at once."""

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int32]
Integers = npt.NDArray[np.int64]

_PASSES = 6


def color(offsets: Indices, neighbours: Indices) -> Indices:
    """(V,) colours 0, 1, ... such that no two coupled vertices share one.

    Parallel greedy colouring (Jones and Plassmann) with the vertices of many neighbours first,
    then some rounds of iterated greedy: the classes, taken in another order, are coloured
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
    for number in range(_PASSES):
        classes = _class_order(colours, number)
        fresh = np.full(count, -1, dtype=np.int64)
        for vertices in classes:
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
    merged = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *keys]))
    owner, other = merged // max(vertex_count, 1), merged % max(vertex_count, 1)
    offsets = np.zeros(vertex_count + 1, dtype=np.int32)
    np.cumsum(np.bincount(owner, minlength=vertex_count), out=offsets[1:])
    return offsets, other.astype(np.int32)


def _first_colours(start: Integers, owner: Integers, other: Integers, degree: Integers) -> Integers:
    """Each round colours the vertices that precede all their uncoloured neighbours."""
    count = len(degree)
    shuffled = np.argsort(_mixed(np.arange(count)), kind="stable")
    rank = np.empty(count, dtype=np.int64)
    rank[shuffled] = np.arange(count)
    priority = np.minimum(degree, 2**20) * count + rank
    before = priority[other] > priority[owner]
    waiting = np.bincount(owner[before], minlength=count)
    colours = np.full(count, -1, dtype=np.int64)
    ready = np.flatnonzero(waiting == 0)
    while len(ready):
        colours[ready] = _smallest_free(ready, start, other, colours)
        entries = _entries(ready, start)
        reached = other[entries]
        later = reached[priority[reached] < np.repeat(priority[ready], degree[ready])]
        waiting -= np.bincount(later, minlength=count)
        candidates = np.unique(later)
        ready = candidates[(waiting[candidates] == 0) & (colours[candidates] < 0)]
    return colours


def _entries(vertices: Integers, start: Integers) -> Integers:
    sizes = start[vertices + 1] - start[vertices]
    ends = np.cumsum(sizes)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(
        start[vertices] - (ends - sizes), sizes
    )


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


def _class_order(colours: Integers, number: int) -> list[Integers]:
    """Vertices by colour: last colour first, every third time the largest class first."""
    order = np.argsort(colours, kind="stable")
    sizes = np.bincount(colours)
    classes = np.split(order, np.cumsum(sizes)[:-1]) if len(sizes) else []
    if number % 3 == 2:  # noqa: PLR2004
        return [classes[index] for index in np.argsort(-sizes, kind="stable")]
    return classes[::-1]


def _mixed(values: Integers) -> npt.NDArray[np.uint64]:
    """A fixed hash that scatters successive numbers (splitmix64)."""
    mixed = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
