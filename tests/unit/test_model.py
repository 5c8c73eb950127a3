# SPDX-License-Identifier: GPL-3.0-or-later
"""Assembling models: masses, order, pins, several cloths, and meshes that are hard."""

import numpy as np
import pytest

from taichi_cloth_addon.engine.mesh import Mesh
from taichi_cloth_addon.engine.model import ClothPart, build_model
from tests.physics.scenes import Array, cloth, fabric, in_caller_order, run, scene
from tests.shapes import Shape, grid_mesh, jittered_sheet, sphere_mesh, triangle_grid


@pytest.mark.parametrize("count", [3, 9, 20])
def test_weight_is_the_areas(count: int) -> None:
    """Density times area, whatever the number of vertices."""
    model = build_model([cloth(jittered_sheet(count, count, 2.0, 1.5), fabric(density=0.3))])
    assert model.mass.sum() == pytest.approx(0.3 * 3.0)


def test_order_is_undone() -> None:
    """Positions come back in the caller's order, to float32 of the cloth's own size."""
    mesh, rest = jittered_sheet(7, 6)
    far = rest + np.array([1000.0, -2000.0, 3000.0])
    model = build_model([cloth((mesh, far))])
    np.testing.assert_allclose(model.world_positions(model.first_state()), far, atol=1e-7)
    assert sorted(model.order.tolist()) == list(range(42))
    np.testing.assert_allclose(in_caller_order(model, model.positions) + model.origin, far)


def test_several_cloths_are_one_model() -> None:
    """Vertices, springs, triangles and pins of the second come after those of the first."""
    one = cloth(grid_mesh(4, 4), fabric(density=0.1), [0, 3])
    two = cloth(triangle_grid(5, 3), fabric(density=0.4, air_drag=2.0), [2, 1, 14])
    model = build_model([one, two])
    alone = [build_model([part]) for part in (one, two)]
    assert model.slices == (slice(0, 16), slice(16, 31))
    np.testing.assert_allclose(model.mass, np.concatenate([m.mass for m in alone]))
    assert len(model.network.vertices) == sum(len(m.network.vertices) for m in alone)
    inside = model.network.vertices < 16
    assert (inside[:, 0] == inside[:, 1]).all()
    # Pins in the order of the parts' own.
    world = model.positions[model.pin_vertices] + model.origin
    np.testing.assert_allclose(world[:2], one.positions[[0, 3]], atol=1e-12)
    np.testing.assert_allclose(world[2:], two.positions[[2, 1, 14]], atol=1e-12)
    assert (model.air_drag[-len(alone[1].triangles) :] == 2.0).all()


def test_pins_by_weight() -> None:
    """1 is exact, less a spring of pin_stiffness A w / (1 - w), 0 nothing."""
    mesh, rest = grid_mesh(5, 5)
    weights = np.array([1.0, 0.5, 0.75, 0.0])
    part = cloth((mesh, rest), pins=[0, 6, 7, 12], weights=weights, pin_stiffness=160.0)
    model = build_model([part])
    area = 1.0 / 16.0
    np.testing.assert_allclose(model.pin_stiffness, [0.0, 10.0, 30.0, 0.0], atol=1e-9)
    assert model.pin_stiffness[1] == pytest.approx(160.0 * area)
    assert model.fixed.sum() == 1
    assert model.fixed[model.pin_vertices].tolist() == [True, False, False, False]


def test_other_fabrics_keep_the_mesh() -> None:
    """Animated settings: the same order and origin, other stiffness."""
    model = build_model([cloth(grid_mesh(5, 5))])
    other = model.with_fabrics([fabric(tension_stiffness=2000.0, shear_stiffness=200.0)])
    np.testing.assert_array_equal(other.order, model.order)
    np.testing.assert_array_equal(other.origin, model.origin)
    np.testing.assert_allclose(other.network.stiffness, 2.0 * model.network.stiffness)


@pytest.mark.parametrize("where", ["rest", "positions"])
def test_not_a_number_names_the_cloth(where: str) -> None:
    mesh, rest = grid_mesh(3, 3)
    bad = rest.copy()
    bad[4, 1] = np.nan
    given = {"rest": rest, "positions": rest, where: bad}
    part = ClothPart(
        "Flag",
        mesh,
        given["rest"],
        given["positions"],
        fabric(),
        np.zeros(0, np.int32),
        np.zeros(0),
    )
    with pytest.raises(ValueError, match="Flag"):
        build_model([part])


def test_no_vertices_names_the_cloth() -> None:
    empty = Mesh.from_polygons(0, [])
    part = ClothPart(
        "Empty",
        empty,
        np.zeros((0, 3)),
        np.zeros((0, 3)),
        fabric(),
        np.zeros(0, np.int32),
        np.zeros(0),
    )
    with pytest.raises(ValueError, match="Empty"):
        build_model([part])


def loose_point() -> Shape:
    """A quad and three vertices in no face."""
    points = np.array(
        [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [5, 0, 0], [6, 0, 0], [7, 0, 0]], dtype=float
    )
    return Mesh.from_polygons(7, [[0, 1, 2, 3]]), points


def sewing_edge() -> Shape:
    """Two quads joined by a face-less edge with a vertex in its middle."""
    points = np.array(
        [
            [0, 0, 0],
            [1, 0, 0],
            [1, 1, 0],
            [0, 1, 0],
            [3, 0, 0],
            [4, 0, 0],
            [4, 1, 0],
            [3, 1, 0],
            [2, 0.5, 0],
        ],
        dtype=float,
    )
    mesh = Mesh.from_polygons(9, [[0, 1, 2, 3], [4, 5, 6, 7]])
    edges = np.array([[1, 8], [8, 4]], dtype=np.int32)
    return Mesh(mesh.vertex_count, mesh.offsets, mesh.corners, edges), points


def doubled_face() -> Shape:
    """Two faces on the same vertices."""
    mesh, points = grid_mesh(3, 3)
    faces = [list(mesh.corners[4 * f : 4 * f + 4]) for f in range(4)]
    return Mesh.from_polygons(9, [*faces, faces[0][::-1]]), points


def sliver_and_ngon() -> Shape:
    """A concave hexagon beside a quad that is almost a line, untriangulated."""
    points = np.array(
        [
            [0, 0, 0],
            [2, 0, 0],
            [2, 2, 0],
            [1, 0.5, 0],
            [0, 2, 0],
            [0, 1, 0],
            [3, 0, 0],
            [3, 1e-7, 0],
        ],
        dtype=float,
    )
    return Mesh.from_polygons(8, [[0, 1, 2, 3, 4, 5], [1, 6, 7, 2]]), points


def zero_area() -> Shape:
    """A face whose vertices lie on a line, and one whose vertices coincide."""
    mesh, points = grid_mesh(4, 4)
    points[1] = 0.5 * (points[0] + points[2])
    points[[4, 5]] = points[[0, 1]]
    return mesh, points


def coincident() -> Shape:
    """Two panels on top of each other, 0 mm apart, and a doubled vertex."""
    mesh, points = grid_mesh(3, 3)
    faces = [list(mesh.corners[4 * f : 4 * f + 4]) for f in range(4)]
    faces += [[v + 9 for v in face] for face in faces]
    return Mesh.from_polygons(18, faces), np.concatenate([points, points])


def fan() -> Shape:
    """Three faces on one edge."""
    points = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [-1, 0, 0], [0, 0, 1]], dtype=float)
    return Mesh.from_polygons(5, [[0, 1, 2], [1, 0, 3], [0, 1, 4]]), points


HARD = {
    "loose points": loose_point,
    "sewing edge": sewing_edge,
    "doubled face": doubled_face,
    "sliver and n-gon": sliver_and_ngon,
    "no area": zero_area,
    "coincident": coincident,
    "three faces on an edge": fan,
    "sphere": lambda: sphere_mesh(6, 4, 0.5),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("integrator", ["EXPLICIT", "IMPLICIT", "SOR"])
def test_hard_meshes_run(name: str, integrator: str, taichi_cpu: object) -> None:
    """Reports 1, 2, 3, 4, 6, 7, 15, 16: every coordinate stays finite, nothing flies apart."""
    from taichi_cloth_addon.engine.solver import Integrator

    mesh, rest = HARD[name]()
    sheet = fabric(bending_stiffness=1e-4, air_drag=1.0, tension_damping=0.1, shear_damping=0.1)
    what = scene(cloth((mesh, rest), sheet, [0]))
    size = np.ptp(rest, axis=0).max()
    frames = run(what, 0.5, Integrator(integrator), fps=12.0)
    for frame in frames:
        assert np.isfinite(frame.positions).all()
        away: Array = np.abs(frame.positions - rest)
        # Free fall over 1/2 s is 1.3 m.
        assert away.max() < 1.5 + 2.0 * size


def test_same_with_quads_split_by_hand() -> None:
    """Report 4: an n-gon mesh and its triangles weigh the same in all and move as far."""
    quads, rest = grid_mesh(5, 5)
    triangles, _ = triangle_grid(5, 5)
    one, two = (build_model([cloth((mesh, rest))]) for mesh in (quads, triangles))
    assert one.mass.sum() == pytest.approx(two.mass.sum())


def test_slivers_do_not_set_the_step() -> None:
    """A vertex of hardly any area gets a share of the usual mass, so the step stays sane."""
    mesh, rest = grid_mesh(5, 5)
    squeezed = rest.copy()
    squeezed[12] = rest[11] + 1e-6 * (rest[12] - rest[11])
    plain = build_model([cloth((mesh, rest))])
    model = build_model([cloth((mesh, squeezed))])
    assert model.mass.min() > 0.01 * plain.mass.min()


def test_the_build_tells_what_it_does_and_how_large_it_is():
    phases = []
    build_model([cloth(jittered_sheet(40, 30, 2.0, 1.5))], on_phase=phases.append)
    assert phases == [
        "preparing 1\N{NO-BREAK SPACE}200 vertices",
        "building the spring network",
        "building the bending elements",
        "joining springs and bending",
    ]
