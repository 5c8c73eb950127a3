# SPDX-License-Identifier: GPL-3.0-or-later
"""Hinges: bending energy of the sheet on every tiling, gradient, quadratic form, bad input."""

import numpy as np
import pytest
import reference
import shapes

from taichi_cloth_addon.engine.bending import (
    bending_matrix,
    build_hinges,
    hinge_angles,
    hinge_weights,
    pair_triangles,
)
from taichi_cloth_addon.engine.mesh import Mesh

B = 2e-4  # N m
KAPPA = 0.05  # 1/m


def rolled(positions, curvature, degrees):
    """The flat sheet on a cylinder; ``degrees`` is the direction that curves."""
    angle = np.radians(degrees)
    along = np.array([np.cos(angle), np.sin(angle)])
    across = np.array([-along[1], along[0]])
    s, t = positions[:, :2] @ along, positions[:, :2] @ across
    plane = np.outer(np.sin(curvature * s) / curvature, along) + np.outer(t, across)
    height = 2.0 * np.sin(0.5 * curvature * s) ** 2 / curvature
    return np.concatenate([plane, height[:, None]], axis=1)


def lifted(positions, height):
    return np.concatenate([positions[:, :2], height[:, None]], axis=1)


def energy_per_area(shape, deformed):
    """Bending energy over the area, without the rim, where hinges are missing."""
    mesh, positions = shape
    hinges = build_hinges(mesh, positions, B, 0.0)
    theta = hinge_angles(deformed, hinges.vertices)
    energy = hinges.stiffness * (1.0 - np.cos(theta - hinges.rest_angle))
    middle = 0.5 * (positions[hinges.vertices[:, 0]] + positions[hinges.vertices[:, 1]])
    low, high = positions.min(axis=0)[:2], positions.max(axis=0)[:2]
    # A window of whole cells, with the hinges on its rim counted half.
    low, high = low + 0.25 * (high - low), high - 0.25 * (high - low)
    weight = np.ones(len(middle))
    for axis in (0, 1):
        place = middle[:, axis]
        tiny = 1e-9
        weight *= np.where((place < low[axis] - tiny) | (place > high[axis] + tiny), 0.0, 1.0)
        weight *= np.where(
            (np.abs(place - low[axis]) < tiny) | (np.abs(place - high[axis]) < tiny), 0.5, 1.0
        )
    return float((weight * energy).sum() / np.prod(high - low))


SHEETS = {  # shape and relative tolerance
    "squares": (shapes.grid_mesh(33, 33), 0.002),
    "cells 1:2": (shapes.grid_mesh(33, 65), 0.002),
    "cells 4:1": (shapes.grid_mesh(17, 65), 0.002),
    "same diagonals": (shapes.triangle_grid(33, 33), 0.002),
    "alternate diagonals": (shapes.triangle_grid(33, 33, diagonals="alternate"), 0.002),
    "random diagonals": (shapes.triangle_grid(33, 33, diagonals="random"), 0.002),
    "jittered quads": (shapes.skewed_grid(33, 33), 0.05),
    "hexagons": (shapes.hexagon_sheet(24, 28, 0.03), 0.06),
    "jittered triangles 0.1": (shapes.jittered_sheet(65, 65, jitter=0.1), 0.12),
    "jittered triangles 0.2": (shapes.jittered_sheet(65, 65, jitter=0.2), 0.12),
    "jittered triangles 0.3": (shapes.jittered_sheet(65, 65, jitter=0.3), 0.12),
}


@pytest.mark.parametrize("degrees", [0.0, 90.0, 45.0, -45.0])
@pytest.mark.parametrize("name", SHEETS)
def test_rolling_up_costs_half_b_kappa_squared(name, degrees):
    shape, tolerance = SHEETS[name]
    found = energy_per_area(shape, rolled(shape[1], KAPPA, degrees))
    assert found == pytest.approx(0.5 * B * KAPPA**2, rel=tolerance)


@pytest.mark.parametrize("name", SHEETS)
def test_dome_saddle_and_twist(name):
    shape, tolerance = SHEETS[name]
    x, y = shape[1][:, 0], shape[1][:, 1]
    for height in (
        0.5 * KAPPA * (x**2 + y**2),
        0.5 * KAPPA * (x**2 - y**2),
        KAPPA * x * y,
    ):
        found = energy_per_area(shape, lifted(shape[1], height))
        assert found == pytest.approx(B * KAPPA**2, rel=max(0.005, 2.0 * tolerance))


def test_a_strip_one_cell_wide_has_its_stiffness():
    shape = shapes.grid_mesh(2, 33, 0.1, 3.2)
    hinges = build_hinges(*shape, B, 0.0)
    theta = hinge_angles(rolled(shape[1], KAPPA, 90.0), hinges.vertices)
    bent = np.abs(theta) > 1e-9
    moment = hinges.stiffness[bent] * np.sin(theta[bent])
    assert np.abs(moment) == pytest.approx(B * KAPPA * 0.1, rel=1e-3)


def test_hinges_of_a_grid():
    """One across each inner edge, two in each quad, all of them alike but for the diagonals."""
    hinges = build_hinges(*shapes.grid_mesh(5, 4, 0.4, 0.3), B, 0.1 * B)
    assert len(hinges.stiffness) == (3 * 3 + 4 * 2) + 2 * 12
    assert hinges.damping == pytest.approx(0.1 * hinges.stiffness)
    slim = (hinges.vertices[:, 2] == hinges.vertices[:, 3]) & (
        hinges.vertices[:, 4] == hinges.vertices[:, 5]
    )
    assert slim.sum() == 24
    assert hinges.stiffness[~slim] == pytest.approx(B, rel=1e-6)
    assert hinges.rest_angle == pytest.approx(0.0, abs=1e-12)


def test_a_quad_that_was_split_counts_as_a_quad():
    quads = build_hinges(*shapes.grid_mesh(7, 6), B, 0.0)
    split = build_hinges(*shapes.triangle_grid(7, 6, diagonals="random"), B, 0.0)
    assert {tuple(row) for row in quads.vertices.tolist()} == {
        tuple(row) for row in split.vertices.tolist()
    }
    assert np.sort(split.stiffness) == pytest.approx(np.sort(quads.stiffness))


def test_triangles_are_not_paired_over_a_fold_or_into_a_kite():
    mesh, positions = shapes.triangle_grid(2, 2)
    assert pair_triangles(mesh, positions).sizes.tolist() == [4]
    folded = positions.copy()
    folded[0, 2] = 0.7
    assert pair_triangles(mesh, folded).sizes.tolist() == [3, 3]
    kite = positions.copy()
    kite[0, :2] = 0.45
    assert pair_triangles(mesh, kite).sizes.tolist() == [3, 3]


def test_the_curved_rest_shape_is_free_of_moment():
    for shape in (shapes.sphere_mesh(16, 9), shapes.cylinder_mesh(12, 5)):
        hinges = build_hinges(*shape, B, 0.0)
        assert len(hinges.stiffness) > 0
        assert reference.hinge_energy(shape[1], hinges) == pytest.approx(0.0, abs=1e-18)
        assert np.abs(reference.hinge_forces(shape[1], hinges)).max() < 1e-15


def test_the_sign_of_theta():
    """Positive where the wings are raised along the normals."""
    points = np.array([[0, 0, 0], [1, 0, 0], [0.5, 1, 0.2], [0.5, -1, 0.2]], dtype=float)
    hinge = np.array([[0, 1, 2, 2, 3, 3]])
    assert hinge_angles(points, hinge)[0] == pytest.approx(2 * np.arctan(0.2))
    assert hinge_angles(points * [1, 1, -1], hinge)[0] == pytest.approx(-2 * np.arctan(0.2))


def test_theta_reaches_half_a_turn():
    points = np.array([[0, 0, 0], [1, 0, 0], [0.5, 1, 0], [0.5, 1, 1e-6]], dtype=float)
    assert abs(hinge_angles(points, np.array([[0, 1, 2, 2, 3, 3]]))[0]) == pytest.approx(
        np.pi, abs=1e-5
    )


def test_reference_forces_are_the_gradient_of_the_energy():
    mesh, positions = shapes.merge(
        shapes.skewed_grid(4, 4), shapes.jittered_sheet(4, 4), shapes.hexagon_sheet(2, 2)
    )
    hinges = build_hinges(mesh, positions, 1.0, 1.0)
    generator = np.random.default_rng(0)
    x = positions + generator.normal(0.0, 0.1, positions.shape)
    forces = reference.hinge_forces(x, hinges)
    step = 1e-6
    slope = np.zeros_like(x)
    for vertex in range(len(x)):
        for axis in range(3):
            moved = [x.copy(), x.copy()]
            moved[0][vertex, axis] += step
            moved[1][vertex, axis] -= step
            slope[vertex, axis] = np.subtract(
                *(reference.hinge_energy(m, hinges) for m in moved)
            ) / (2 * step)
    assert forces == pytest.approx(-slope, abs=1e-6 * np.abs(forces).max())
    assert forces.sum(axis=0) == pytest.approx(0.0, abs=1e-9)
    assert np.cross(x, forces).sum(axis=0) == pytest.approx(0.0, abs=1e-9)


def test_hinge_damping_takes_energy_and_ignores_rigid_motion():
    mesh, positions = shapes.jittered_sheet(5, 5)
    hinges = build_hinges(mesh, positions, 1.0, 1.0)
    generator = np.random.default_rng(0)
    x = positions + generator.normal(0.0, 0.05, positions.shape)
    still = reference.hinge_forces(x, hinges)
    v = generator.normal(size=x.shape)
    assert ((reference.hinge_forces(x, hinges, v) - still) * v).sum() < 0.0
    rigid = np.array([1.0, 2.0, 3.0]) + np.cross([0.3, -0.2, 0.5], x)
    assert reference.hinge_forces(x, hinges, rigid) == pytest.approx(still, abs=1e-9)


MATRIX_SHAPES = {
    "grid": shapes.grid_mesh(7, 6),
    "triangles": shapes.jittered_sheet(7, 6),
    "hexagons": shapes.hexagon_sheet(3, 3),
    "cylinder": shapes.cylinder_mesh(8, 4),
}


def dense(matrix, count):
    full = np.zeros((count, count))
    full[np.repeat(np.arange(count), np.diff(matrix.offsets)), matrix.neighbours] = matrix.weights
    return full


@pytest.mark.parametrize("name", MATRIX_SHAPES)
def test_the_bending_matrix_is_the_sum_of_its_hinges(name):
    mesh, positions = MATRIX_SHAPES[name]
    hinges = build_hinges(mesh, positions, B, 0.0)
    count = mesh.vertex_count
    matrix = bending_matrix(hinges, positions, count)
    full = dense(matrix, count)
    weights = np.zeros((len(hinges.stiffness), count))
    rows = np.arange(len(weights))[:, None]
    np.add.at(weights, (rows, hinges.vertices), hinge_weights(positions, hinges.vertices))
    assert full == pytest.approx(weights.T @ (hinges.stiffness[:, None] * weights))
    assert np.abs(full.sum(axis=1)).max() < 1e-12 * np.abs(full).max() * count
    assert np.linalg.eigvalsh(full).min() > -1e-12 * np.abs(full).max()
    for vertex in range(count):
        part = matrix.neighbours[matrix.offsets[vertex] : matrix.offsets[vertex + 1]]
        assert (np.diff(part) > 0).all()
        assert vertex in part


def test_the_bending_matrix_is_the_hessian_of_the_flat_sheet():
    mesh, positions = shapes.jittered_sheet(7, 6)
    hinges = build_hinges(mesh, positions, B, 0.0)
    matrix = dense(bending_matrix(hinges, positions, mesh.vertex_count), mesh.vertex_count)
    height = 1e-4 * np.random.default_rng(0).normal(size=mesh.vertex_count)
    bent = lifted(positions, height)
    assert reference.hinge_energy(bent, hinges) == pytest.approx(
        0.5 * height @ matrix @ height, rel=1e-4
    )
    force = reference.hinge_forces(bent, hinges)[:, 2]
    assert force == pytest.approx(-matrix @ height, abs=1e-4 * np.abs(force).max())


SQUARE = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=float)
LINE = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [1, 0, 0]], dtype=float)
FINS = np.array([[0, 0, 0], [1, 0, 0], [0.5, 1, 0], [0.5, -1, 0], [0.5, 0, 1]], dtype=float)
SLIVERS = np.array([[0, 0, 0], [54, 0, 0], [27, 1, 0], [27, -1e-4, 0], [54, 1e-7, 0]], dtype=float)
BAD = {
    "slivers": (Mesh.from_polygons(5, [(0, 1, 2), (1, 0, 3), (1, 4, 2)]), SLIVERS),
    "zero area": (Mesh.from_polygons(4, [(0, 1, 2)]), LINE),
    "zero length": (Mesh.from_polygons(4, [(0, 1, 3), (1, 2, 3)]), LINE),
    "all in one place": (Mesh.from_polygons(4, [(0, 1, 2, 3)]), np.zeros((4, 3))),
    "copies": (Mesh.from_polygons(4, [(0, 1, 2, 3), (1, 2, 3, 0), (3, 2, 1, 0)]), SQUARE),
    "repeated vertex": (Mesh.from_polygons(4, [(0, 1, 1, 2), (0, 0, 1), (0, 2, 3)]), SQUARE),
    "bow tie": (Mesh.from_polygons(4, [(0, 2, 1, 3)]), SQUARE),
    "fins": (Mesh.from_polygons(5, [(0, 1, 2), (1, 0, 3), (0, 1, 4)]), FINS),
    "threads": (Mesh.from_polygons(4, [], [(0, 1), (1, 2), (2, 3)]), SQUARE),
    "nothing": (Mesh.from_polygons(0, []), np.zeros((0, 3))),
    "not finite": (
        Mesh.from_polygons(4, [(0, 1, 2), (0, 2, 3)]),
        np.where(np.arange(4)[:, None] == 3, np.nan, SQUARE),
    ),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.filterwarnings("error")
def test_bad_input_gives_finite_hinges(name):
    mesh, positions = BAD[name]
    hinges = build_hinges(mesh, positions, B, B)
    for values in (hinges.rest_angle, hinges.stiffness, hinges.damping):
        assert np.isfinite(values).all()
    assert hinges.stiffness.max(initial=0.0) <= 40.0 * B
    safe = np.nan_to_num(positions)
    matrix = bending_matrix(hinges, safe, mesh.vertex_count)
    assert np.isfinite(matrix.weights).all()
    if len(hinges.stiffness):
        flat = np.zeros_like(safe)
        assert np.isfinite(reference.hinge_forces(flat, hinges)).all()


def test_an_edge_with_three_faces_bends_between_successive_ones():
    hinges = build_hinges(*BAD["fins"], B, 0.0)
    on_edge = (hinges.vertices[:, :2] == [0, 1]).all(axis=1)
    assert on_edge.sum() == 2


def test_without_stiffness_hinges_still_carry_damping():
    hinges = build_hinges(*shapes.grid_mesh(4, 4), 0.0, B)
    assert (hinges.stiffness == 0.0).all()
    assert hinges.damping.max() == pytest.approx(B, rel=1e-6)
