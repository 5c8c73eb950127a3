# SPDX-License-Identifier: GPL-3.0-or-later
"""Vertex colours."""

import numpy as np
import pytest
import shapes

from taichi_cloth_addon.engine.bending import bending_matrix, build_hinges
from taichi_cloth_addon.engine.coloring import color, color_order, union_pattern
from taichi_cloth_addon.engine.mesh import Mesh, morton_order
from taichi_cloth_addon.engine.springs import build_springs

SHAPES = {
    "grid": shapes.grid_mesh(24, 20),
    "triangles": shapes.jittered_sheet(20, 16),
    "sphere": shapes.sphere_mesh(20, 12),
    "disc": shapes.disc_mesh(4, 30),
}


def spring_pattern(mesh, positions):
    adjacency = build_springs(mesh, positions, 2000.0, 50.0, 0.02, 0.02).adjacency(len(positions))
    return adjacency.offsets, adjacency.neighbours


def renumbered(mesh, positions, order):
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order))
    return Mesh(mesh.vertex_count, mesh.offsets, rank[mesh.corners], mesh.loose_edges), positions[
        order
    ]


def clashes(offsets, neighbours, colours):
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return int(((colours[owner] == colours[neighbours]) & (owner != neighbours)).sum())


@pytest.mark.parametrize("name", SHAPES)
def test_no_two_coupled_vertices_share_a_colour(name):
    mesh, positions = SHAPES[name]
    springs = spring_pattern(mesh, positions)
    hinges = build_hinges(mesh, positions, 1.0, 0.0)
    bending = bending_matrix(hinges, positions, mesh.vertex_count)
    for pattern in (
        springs,
        union_pattern(mesh.vertex_count, springs, (bending.offsets, bending.neighbours)),
    ):
        colours = color(*pattern)
        assert clashes(*pattern, colours) == 0
        assert (np.bincount(colours) > 0).all()


@pytest.mark.parametrize("order", ["rows", "morton"])
def test_springs_of_a_grid_need_few_colours(order):
    mesh, positions = shapes.grid_mesh(48, 40)
    if order == "morton":
        mesh, positions = renumbered(mesh, positions, morton_order(positions))
    colours = color(*spring_pattern(mesh, positions))
    assert colours.max() + 1 <= 8


def test_colours_are_the_same_every_time():
    pattern = spring_pattern(*SHAPES["triangles"])
    assert (color(*pattern) == color(*pattern)).all()


def test_a_long_chain_is_coloured_too():
    count = 30_000
    middle = np.arange(count)
    owner = np.concatenate([middle[:-1], middle[1:]])
    other = np.concatenate([middle[1:], middle[:-1]])
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner))])
    colours = color(offsets, other[order])
    assert clashes(offsets, other[order], colours) == 0
    assert colours.max() <= 2


def test_colour_order_lists_each_vertex_once():
    colours = np.array([1, 0, 2, 1, 0], dtype=np.int32)
    order, offsets = color_order(colours)
    assert order.tolist() == [1, 4, 0, 3, 2]
    assert offsets.tolist() == [0, 2, 4, 5]


def test_nothing_to_colour():
    assert len(color(np.zeros(1, np.int32), np.zeros(0, np.int32))) == 0
    assert color(np.zeros(4, np.int32), np.zeros(0, np.int32)).tolist() == [0, 0, 0]
