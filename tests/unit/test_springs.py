# SPDX-License-Identifier: GPL-3.0-or-later
"""The spring network: counts, stiffness of the sheet on every tiling, bad input."""

import numpy as np
import pytest
import reference
import shapes
import statics

from taichi_cloth_addon.engine.mesh import Mesh, triangulate, vertex_areas
from taichi_cloth_addon.engine.springs import (
    FLEXION_SHARE,
    SpringKind,
    axial_stiffness,
    build_springs,
)

Y, G = 2000.0, 50.0


def network_of(shape, tension=Y, shear=G, tension_damping=0.02, shear_damping=0.02):
    return build_springs(*shape, tension, shear, tension_damping, shear_damping)


@pytest.mark.parametrize(
    ("columns", "rows", "count"), [(32, 32, 5826), (16, 12, 1014), (15, 15, 1202), (2, 5, 27)]
)
def test_spring_count_of_a_grid(columns, rows, count):
    assert 6 * columns * rows - 5 * (columns + rows) + 2 == count
    assert len(network_of(shapes.grid_mesh(columns, rows)).kind) == count


def test_kinds_of_a_grid():
    kind = network_of(shapes.grid_mesh(32, 32)).kind
    assert np.bincount(kind).tolist() == [1984, 1922, 1920]


def test_the_count_does_not_depend_on_the_fabric():
    for shear in (0.0, 50.0, 1e6):
        assert len(network_of(shapes.grid_mesh(9, 7), shear=shear).kind) == 6 * 63 - 80 + 2


@pytest.mark.parametrize("shear", [0.0, 50.0, 750.0, 2000.0])
def test_identity_of_a_square_grid(shear):
    mesh, positions = shapes.grid_mesh(9, 7, 0.8, 0.6)
    network = network_of((mesh, positions), shear=shear)
    c11 = axial_stiffness(Y, shear)
    assert c11 - shear**2 / c11 == pytest.approx(Y)
    kf = min(FLEXION_SHARE * c11, (c11 - shear) / 8)
    expected = {
        SpringKind.STRUCTURAL: c11 - shear - 4 * kf,
        SpringKind.SHEAR: shear,
        SpringKind.FLEXION: kf,
    }
    middle = 0.5 * (positions[network.vertices[:, 0]] + positions[network.vertices[:, 1]])
    x, y = middle[:, 0], middle[:, 1]
    tiny = 1e-9
    border = (x < tiny) | (x > 0.8 - tiny) | (y < tiny) | (y > 0.6 - tiny)
    for kind, stiffness in expected.items():
        inside = (network.kind == kind) & ~border
        assert network.stiffness[inside] == pytest.approx(stiffness, rel=1e-6, abs=1e-6)
        outside = (network.kind == kind) & border
        assert network.stiffness[outside] == pytest.approx(stiffness / 2, rel=1e-6, abs=1e-6)


def test_pairs_are_unique_and_ordered():
    for shape in (shapes.sphere_mesh(8, 6), shapes.cylinder_mesh(4, 5), shapes.disc_mesh(3, 7)):
        network = network_of(shape)
        assert (network.vertices[:, 0] < network.vertices[:, 1]).all()
        assert len(np.unique(network.vertices, axis=0)) == len(network.vertices)


def test_a_diagonal_that_is_an_edge_elsewhere_is_structural_once():
    mesh = Mesh.from_polygons(5, [(0, 1, 2, 3), (0, 2, 4)])
    points = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0.5, 0.5, 1]], dtype=float)
    network = network_of((mesh, points))
    row = (network.vertices == [0, 2]).all(axis=1)
    assert network.kind[row].tolist() == [SpringKind.STRUCTURAL]


def test_springs_of_larger_polygons():
    mesh, positions = shapes.hexagon_sheet(1, 1)
    network = network_of((mesh, positions))
    assert np.bincount(network.kind).tolist() == [6, 9]
    angle = np.arange(5) * 2 * np.pi / 5
    pentagon = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    network = network_of((Mesh.from_polygons(5, [tuple(range(5))]), pentagon))
    assert np.bincount(network.kind).tolist() == [5, 5]


def test_flexion_of_a_border_vertex_pairs_the_border_edges():
    network = network_of(shapes.grid_mesh(3, 3))
    flexion = network.vertices[network.kind == SpringKind.FLEXION].tolist()
    assert sorted(flexion) == [[0, 2], [0, 6], [1, 7], [2, 8], [3, 5], [6, 8]]


# Shape and tolerances (uniaxial, shear), relative. The ends of a strip are a little softer,
# since the last cells lie under one flexion spring instead of two.
SHEETS = {
    "squares": (shapes.grid_mesh(25, 13, 2.0, 1.0), 0.005, 0.005),
    "cells 1:2": (shapes.grid_mesh(17, 17, 2.0, 1.0), 0.005, 0.005),
    "cells 4:1": (shapes.grid_mesh(17, 33, 4.0, 2.0), 0.005, 0.005),
    "same diagonals": (shapes.triangle_grid(25, 13, 2.0, 1.0), 0.005, 0.005),
    "alternate diagonals": (
        shapes.triangle_grid(25, 13, 2.0, 1.0, diagonals="alternate"),
        0.005,
        0.005,
    ),
    "random diagonals": (
        shapes.triangle_grid(25, 13, 2.0, 1.0, diagonals="random"),
        0.005,
        0.01,
    ),
    "triangles 1:2": (shapes.triangle_grid(17, 17, 2.0, 1.0, diagonals="random"), 0.005, 0.01),
    "jittered quads": (shapes.skewed_grid(25, 13, 2.0, 1.0, jitter=0.1), 0.03, 0.1),
    "jittered triangles": (shapes.jittered_sheet(25, 13, 2.0, 1.0, jitter=0.1), 0.03, 1.2),
}


@pytest.mark.parametrize("name", SHEETS)
def test_a_strip_stretches_as_the_fabric_says(name):
    shape, axial, shear = SHEETS[name]
    found = statics.measure(network_of(shape), shape[1])
    assert found.along_x == pytest.approx(Y, rel=axial)
    assert found.along_y == pytest.approx(Y, rel=axial)
    assert found.shear == pytest.approx(G, rel=shear)


@pytest.mark.parametrize("jitter", [0.1, 0.2, 0.3])
def test_irregular_triangles_hold_a_fabric_of_natural_shear(jitter):
    """With G near 3/8 Y the sheet is isotropic, which triangles represent in any direction."""
    shape = shapes.jittered_sheet(25, 13, 2.0, 1.0, jitter=jitter)
    found = statics.measure(network_of(shape, shear=750.0), shape[1])
    assert found.along_x == pytest.approx(Y, rel=0.03)
    assert found.along_y == pytest.approx(Y, rel=0.03)
    assert found.shear == pytest.approx(750.0, rel=0.1)


@pytest.mark.parametrize(("jitter", "tolerance"), [(0.1, 0.03), (0.2, 0.05), (0.3, 0.1)])
def test_very_irregular_triangles_stay_near(jitter, tolerance):
    shape = shapes.jittered_sheet(25, 13, 2.0, 1.0, jitter=jitter)
    found = statics.measure(network_of(shape), shape[1])
    assert found.along_x == pytest.approx(Y, rel=tolerance)
    assert found.along_y == pytest.approx(Y, rel=tolerance)


@pytest.mark.parametrize(("jitter", "tolerance"), [(0.1, 0.03), (0.2, 0.1)])
def test_very_irregular_quads_stay_near(jitter, tolerance):
    shape = shapes.skewed_grid(25, 13, 2.0, 1.0, jitter=jitter)
    found = statics.measure(network_of(shape), shape[1])
    assert found.along_x == pytest.approx(Y, rel=tolerance)
    assert found.along_y == pytest.approx(Y, rel=tolerance)


@pytest.mark.filterwarnings("error")
def test_a_large_irregular_sheet_is_judged_by_a_patch():
    small = network_of(shapes.jittered_sheet(40, 40, jitter=0.2))
    large = network_of(shapes.jittered_sheet(120, 120, jitter=0.2))
    assert large.stiffness.mean() == pytest.approx(small.stiffness.mean(), rel=0.05)


@pytest.mark.parametrize(
    "shape",
    [shapes.cylinder_mesh(24, 9), shapes.disc_mesh(16, 64), shapes.sphere_mesh(48, 24)],
    ids=["cylinder", "disc", "sphere"],
)
def test_a_regular_curved_surface_is_not_taken_for_a_soft_one(shape):
    """Its springs are those that its faces ask for, as on the flat grid."""
    network = network_of(shape)
    mesh, positions = shape
    area = vertex_areas(triangulate(mesh, positions), positions, mesh.vertex_count).sum()
    energy = 0.5 * (network.stiffness * network.rest_length**2).sum()
    # Under an even strain in all directions the energy per area is C11 + C12.
    assert energy / area == pytest.approx(axial_stiffness(Y, G) + G, rel=0.06)


def test_slender_cells_keep_the_tension_and_give_up_shear():
    shape = shapes.grid_mesh(9, 33, 2.0, 1.0)  # cells 8:1
    found = statics.measure(network_of(shape, shear=500.0), shape[1])
    assert found.along_x == pytest.approx(Y, rel=0.01)
    assert found.along_y == pytest.approx(Y, rel=0.01)
    assert found.shear < 500.0


@pytest.mark.parametrize("degrees", [30.0, 45.0, 72.0])
@pytest.mark.parametrize("tiling", ["quads", "triangles", "irregular"])
def test_a_turned_sheet_has_the_same_springs(tiling, degrees):
    mesh, positions = {
        "quads": shapes.grid_mesh(9, 7),
        "triangles": shapes.triangle_grid(9, 7, diagonals="random"),
        "irregular": shapes.jittered_sheet(9, 7),
    }[tiling]
    straight = network_of((mesh, positions))
    turned = network_of((mesh, shapes.rotated(positions, degrees)))
    assert (straight.vertices == turned.vertices).all()
    assert turned.stiffness == pytest.approx(straight.stiffness, rel=1e-6, abs=1e-3)


def test_triangulating_a_grid_keeps_the_edges_springs():
    quads = network_of(shapes.grid_mesh(9, 7))
    triangles = network_of(shapes.triangle_grid(9, 7))
    for kind in (SpringKind.STRUCTURAL, SpringKind.FLEXION):
        rows = [
            (tuple(pair), stiffness)
            for pair, stiffness in zip(
                quads.vertices[quads.kind == kind].tolist(),
                quads.stiffness[quads.kind == kind],
                strict=True,
            )
        ]
        table = {
            tuple(pair): stiffness
            for pair, stiffness in zip(
                triangles.vertices.tolist(), triangles.stiffness, strict=True
            )
        }
        for pair, stiffness in rows:
            assert table[pair] == pytest.approx(stiffness, rel=2e-3)


def test_the_warp_does_not_depend_on_the_fabric():
    """A regular triangulation could be read at 45 degrees as well."""
    shape = shapes.triangle_grid(12, 12, 1.0, 1.0)
    for tension, shear in ((2000.0, 50.0), (100.0, 100.0), (100.0, 30.0)):
        found = statics.measure(network_of(shape, tension, shear), shape[1])
        assert found.along_x == pytest.approx(tension, rel=0.015)
        assert found.shear == pytest.approx(shear, rel=0.015)


def test_stiffness_does_not_depend_on_resolution_or_size():
    coarse = network_of(shapes.grid_mesh(9, 9, 1.0, 1.0))
    fine = network_of(shapes.grid_mesh(17, 17, 0.01, 0.01))
    for kind in SpringKind:
        assert coarse.stiffness[coarse.kind == kind].max() == pytest.approx(
            fine.stiffness[fine.kind == kind].max()
        )


def test_damping_follows_stiffness_kind_by_kind():
    network = network_of(shapes.grid_mesh(9, 7), tension_damping=0.4, shear_damping=0.03)
    for kind, time in (
        (SpringKind.STRUCTURAL, 0.4 / Y),
        (SpringKind.SHEAR, 0.03 / G),
    ):
        rows = network.kind == kind
        assert network.damping[rows] == pytest.approx(time * network.stiffness[rows], rel=0.05)
    assert (network.damping > 0.0).all()


def test_without_shear_stiffness_shear_is_still_damped():
    network = network_of(shapes.grid_mesh(9, 9), shear=0.0, shear_damping=0.03)
    rows = network.kind == SpringKind.SHEAR
    assert network.stiffness[rows] == pytest.approx(0.0, abs=1e-9)
    assert network.damping[rows] == pytest.approx(0.03)


def test_without_damping_there_is_none():
    network = network_of(shapes.jittered_sheet(9, 7), tension_damping=0.0, shear_damping=0.0)
    assert (network.damping == 0.0).all()


def sliver_mesh():
    points = [[0, 0, 0], [54, 0, 0], [27, 1, 0], [27, -1e-4, 0], [54, 1e-7, 0]]
    return Mesh.from_polygons(5, [(0, 1, 2), (1, 0, 3), (1, 4, 2)]), np.array(points, dtype=float)


SQUARE = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=float)
LINE = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [1, 0, 0]], dtype=float)
FINS = np.array([[0, 0, 0], [1, 0, 0], [0.5, 1, 0], [0.5, -1, 0], [0.5, 0, 1]], dtype=float)
BAD = {
    "slivers": sliver_mesh(),
    "zero area": (Mesh.from_polygons(4, [(0, 1, 2)]), LINE),
    "zero length": (Mesh.from_polygons(4, [(0, 1, 3), (1, 2, 3)]), LINE),
    "all in one place": (Mesh.from_polygons(4, [(0, 1, 2, 3)]), np.zeros((4, 3))),
    "copies": (Mesh.from_polygons(4, [(0, 1, 2, 3), (1, 2, 3, 0), (3, 2, 1, 0)]), SQUARE),
    "repeated vertex": (Mesh.from_polygons(4, [(0, 1, 1, 2), (0, 0, 1), (0, 2, 3)]), SQUARE),
    "bow tie": (Mesh.from_polygons(4, [(0, 2, 1, 3)]), SQUARE),
    "fins": (Mesh.from_polygons(5, [(0, 1, 2), (1, 0, 3), (0, 1, 4)]), FINS),
    "threads": (Mesh.from_polygons(4, [], [(0, 1), (1, 2), (2, 3)]), SQUARE),
    "points": (Mesh.from_polygons(4, []), SQUARE),
    "nothing": (Mesh.from_polygons(0, []), np.zeros((0, 3))),
    "not finite": (
        Mesh.from_polygons(4, [(0, 1, 2), (0, 2, 3)]),
        np.where(np.arange(4)[:, None] == 3, np.nan, SQUARE),
    ),
}


@pytest.mark.parametrize("shear", [0.0, 50.0, 1e6])
@pytest.mark.parametrize("name", BAD)
@pytest.mark.filterwarnings("error")
def test_bad_input_gives_finite_springs(name, shear):
    network = network_of(BAD[name], shear=shear)
    for values in (network.rest_length, network.stiffness, network.damping):
        assert np.isfinite(values).all()
        assert (values >= 0.0).all()
    assert network.stiffness.max(initial=0.0) <= 100.0 * axial_stiffness(Y, shear)


def test_threads_are_springs():
    network = network_of(BAD["threads"])
    structural = network.kind == SpringKind.STRUCTURAL
    assert structural.sum() == 3
    assert network.stiffness[structural] == pytest.approx(0.5 * axial_stiffness(Y, G), rel=0.03)


def test_copies_of_a_face_add_no_stiffness():
    single = network_of((Mesh.from_polygons(4, [(0, 1, 2, 3)]), SQUARE))
    assert network_of(BAD["copies"]).stiffness == pytest.approx(single.stiffness)


def test_every_edge_of_a_garment_has_some_stiffness():
    network = network_of(shapes.jittered_sheet(30, 30, jitter=0.3))
    assert network.stiffness[network.kind == SpringKind.STRUCTURAL].min() > 1e-3 * Y


def test_adjacency_lists_every_spring_twice():
    mesh, positions = shapes.jittered_sheet(7, 6)
    network = network_of((mesh, positions))
    adjacency = network.adjacency(mesh.vertex_count)
    assert np.bincount(adjacency.springs).tolist() == [2] * len(network.kind)
    for vertex in range(mesh.vertex_count):
        part = slice(adjacency.offsets[vertex], adjacency.offsets[vertex + 1])
        other = adjacency.neighbours[part]
        assert (np.diff(other) > 0).all()
        ends = np.sort(network.vertices[adjacency.springs[part]], axis=1)
        assert (ends == np.sort(np.stack([other, np.full_like(other, vertex)], 1), axis=1)).all()


def test_reference_forces_are_the_gradient_of_the_energy():
    mesh, positions = shapes.skewed_grid(4, 3)
    network = network_of((mesh, positions))
    generator = np.random.default_rng(0)
    x = positions + generator.normal(0.0, 0.05, positions.shape)
    forces = reference.spring_forces(x, np.zeros_like(x), network)
    step = 1e-6
    for vertex in range(len(x)):
        for axis in range(3):
            moved = [x.copy(), x.copy()]
            moved[0][vertex, axis] += step
            moved[1][vertex, axis] -= step
            slope = np.subtract(*(reference.spring_energy(m, network) for m in moved)) / (2 * step)
            assert forces[vertex, axis] == pytest.approx(-slope, rel=1e-5, abs=1e-5)
    v = generator.normal(size=x.shape)
    damped = reference.spring_forces(x, v, network)
    assert damped.sum(axis=0) == pytest.approx(0.0, abs=1e-9)
    assert ((damped - forces) * v).sum() < 0.0
