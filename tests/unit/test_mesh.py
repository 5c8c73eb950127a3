# SPDX-License-Identifier: GPL-3.0-or-later
"""Meshes: edges, triangles, areas, diagnosis, hash, order."""

import numpy as np
import pytest
import shapes

from taichi_cloth_addon.engine.mesh import (
    Mesh,
    clean_faces,
    components,
    diagnose,
    diagnose_steps,
    edge_table,
    edges,
    morton_order,
    select_faces,
    topology_hash,
    triangulate,
    vertex_areas,
)

SQUARE = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=float)


def signed_areas(triangles, positions):
    a, b, c = (positions[triangles[:, i]] for i in range(3))
    return 0.5 * np.cross(b - a, c - a)[:, 2]


def triangle_set(triangles):
    return {tuple(sorted(triangle)) for triangle in triangles.tolist()}


def test_edges_are_unique_and_sorted():
    mesh, _ = shapes.grid_mesh(4, 3)
    found = edges(mesh)
    assert len(found) == 3 * 3 + 4 * 2
    assert (found[:, 0] < found[:, 1]).all()
    keys = found[:, 0] * 100 + found[:, 1]
    assert (np.diff(keys) > 0).all()


def test_edge_table_names_the_faces_beside_each_edge():
    mesh, _ = shapes.grid_mesh(3, 3)
    table = edge_table(mesh)
    pairs = [tuple(pair) for pair in table.vertices.tolist()]
    inner = pairs.index((1, 4))
    assert table.faces[table.face_offsets[inner] : table.face_offsets[inner + 1]].tolist() == [0, 1]
    border = pairs.index((0, 1))
    assert table.faces[table.face_offsets[border] : table.face_offsets[border + 1]].tolist() == [0]
    for corner, edge in enumerate(table.corner_edges):
        assert mesh.corners[corner] in table.vertices[edge]


def test_loose_edges_are_edges():
    mesh = Mesh.from_polygons(5, [(0, 1, 2)], [(4, 3), (3, 2)])
    assert [3, 4] in edges(mesh).tolist()
    assert [2, 3] in edges(mesh).tolist()


@pytest.mark.parametrize("start", range(4))
def test_a_quad_is_split_the_same_way_wherever_it_starts(start):
    square = np.roll([0, 1, 2, 3], start).tolist()
    split = triangulate(Mesh.from_polygons(4, [square]), SQUARE)
    assert triangle_set(split.triangles) == {(0, 1, 2), (0, 2, 3)}
    assert (signed_areas(split.triangles, SQUARE) > 0).all()


@pytest.mark.parametrize("start", range(4))
def test_a_concave_quad_is_split_inside(start):
    dart = np.array([[0, 0, 0], [2, 0, 0], [0.4, 0.4, 0], [0, 2, 0]], dtype=float)
    polygon = np.roll([0, 1, 2, 3], start).tolist()
    split = triangulate(Mesh.from_polygons(4, [polygon]), dart)
    assert triangle_set(split.triangles) == {(0, 1, 2), (0, 2, 3)}
    assert (signed_areas(split.triangles, dart) > 0).all()


@pytest.mark.parametrize("start", range(8))
def test_a_concave_polygon_is_clipped_inside(start):
    comb = np.array([[0, 0], [4, 0], [4, 3], [3, 1], [2, 3], [1, 1], [0.5, 1], [0, 3]], dtype=float)
    points = np.concatenate([comb, np.zeros((8, 1))], axis=1)
    mesh = Mesh.from_polygons(8, [np.roll(np.arange(8), start).tolist()])
    split = triangulate(mesh, points)
    area = signed_areas(split.triangles, points)
    x, y = comb.T
    whole = 0.5 * (x * np.roll(y, -1) - np.roll(x, -1) * y).sum()
    assert len(split.triangles) == 6
    assert (area > 0).all()
    assert area.sum() == pytest.approx(whole)


def test_polygons_of_every_size_are_covered():
    for size in (5, 6, 7, 12, 17, 40):
        angle = np.arange(size) * 2 * np.pi / size
        ring = np.stack([np.cos(angle), np.sin(angle), 0.1 * angle * 0], axis=1)
        mesh = Mesh.from_polygons(size, [tuple(range(size))])
        split = triangulate(mesh, ring)
        assert len(split.triangles) == size - 2
        area = signed_areas(split.triangles, ring)
        assert (area > 0).all()
        assert area.sum() == pytest.approx(0.5 * size * np.sin(2 * np.pi / size))


def test_triangles_name_their_face():
    mesh = Mesh.from_polygons(6, [(0, 1, 2), (0, 2, 3), (0, 1, 2, 3), (0, 1, 5, 4)])
    points = np.concatenate([SQUARE, [[0, 0, 1], [1, 0, 1]]])
    split = triangulate(mesh, points)
    assert split.face_of_triangle.tolist() == [0, 1, 2, 2, 3, 3]


def test_a_regular_grid_spreads_its_area_evenly():
    mesh, positions = shapes.grid_mesh(6, 5, 1.0, 0.8)
    area = vertex_areas(triangulate(mesh, positions), positions, mesh.vertex_count).reshape(5, 6)
    cell = 0.2 * 0.2
    assert area[1:-1, 1:-1] == pytest.approx(cell)
    assert area[0, 1:-1] == pytest.approx(cell / 2)
    assert area[1:-1, 0] == pytest.approx(cell / 2)
    assert area[0, 0] == pytest.approx(cell / 4)
    assert area.sum() == pytest.approx(0.8)


@pytest.mark.parametrize(
    "shape",
    [shapes.jittered_sheet(8, 7), shapes.hexagon_sheet(4, 3), shapes.sphere_mesh(12, 8)],
    ids=["triangles", "hexagons", "sphere"],
)
def test_vertex_areas_add_up(shape):
    mesh, positions = shape
    split = triangulate(mesh, positions)
    a, b, c = (positions[split.triangles[:, i]] for i in range(3))
    total = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()
    assert vertex_areas(split, positions, mesh.vertex_count).sum() == pytest.approx(total)


def test_a_sound_mesh_has_no_faults():
    for shape in (shapes.grid_mesh(5, 4), shapes.sphere_mesh(8, 6), shapes.disc_mesh(3, 8)):
        assert diagnose(*shape).sound


def test_every_fault_is_found_in_one_pass():
    points = np.array(
        [
            [0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0],  # 0-3 a square
            [2, 0, 0], [2, 0, 0],  # 4, 5 in one place
            [5, 5, 5],  # 6 in no face
            [np.nan, 0, 0],  # 7
            [0.5, 0, 1], [0.5, 0, -1],  # 8, 9 fins on the edge 0-1
            [8, 0, 0],  # 10 on the line through 0 and 1
        ],
        dtype=float,
    )  # fmt: skip
    mesh = Mesh.from_polygons(
        11,
        [
            (0, 1, 2, 3),
            (2, 3, 0, 1),  # the same again
            (1, 4, 5),  # zero area, zero length
            (0, 1, 10),  # on a line
            (0, 1, 8),
            (0, 1, 9),
            (2, 3, 7),
            (1, 2, 2),
        ],
        [(6, 4)],
    )
    found = diagnose(mesh, points)
    assert found.loose_vertices.tolist() == [6]
    assert found.loose_edges.tolist() == [[4, 6]]
    assert found.duplicate_faces.tolist() == [1]
    assert found.degenerate_faces.tolist() == [2, 3, 7]
    assert found.non_finite_vertices.tolist() == [7]
    assert found.coincident_pairs.tolist() == [[4, 5]]
    assert found.non_manifold_edges.tolist() == [[0, 1]]
    sentences = found.sentences("Dress")
    assert len(sentences) == 7
    assert all(sentence.startswith("Dress: ") for sentence in sentences)
    assert not found.sound


def test_a_mesh_without_faces_is_named():
    mesh = Mesh.from_polygons(3, [], [(0, 1), (1, 2)])
    sentences = diagnose(mesh, np.arange(9.0).reshape(3, 3)).sentences("Rope")
    assert "no faces" in sentences[0]


def test_copies_and_degenerate_faces_are_left_out_and_nothing_is_welded():
    stacked = np.concatenate([SQUARE, SQUARE])
    mesh = Mesh.from_polygons(8, [(0, 1, 2, 3), (4, 5, 6, 7), (1, 0, 3, 2), (0, 1, 1), (0, 2, 0)])
    assert clean_faces(mesh, stacked).tolist() == [0, 1]
    broken = stacked.copy()
    broken[5] = np.inf
    assert clean_faces(mesh, broken).tolist() == [0]


def test_selected_faces_keep_their_corners():
    mesh = Mesh.from_polygons(5, [(0, 1, 2), (0, 2, 3, 4), (2, 3, 4)])
    chosen = select_faces(mesh, [1, 2])
    assert chosen.offsets.tolist() == [0, 4, 7]
    assert chosen.corners.tolist() == [0, 2, 3, 4, 2, 3, 4]


def test_the_hash_tells_topologies_apart():
    first = Mesh.from_polygons(4, [(0, 1, 2, 3)])
    assert topology_hash(first) == topology_hash(Mesh.from_polygons(4, [(0, 1, 2, 3)]))
    others = [
        Mesh.from_polygons(5, [(0, 1, 2, 3)]),
        Mesh.from_polygons(4, [(1, 2, 3, 0)]),
        Mesh.from_polygons(4, [(0, 1, 2), (0, 2, 3)]),
        Mesh.from_polygons(4, [(0, 1, 2, 3)], [(0, 2)]),
    ]
    assert len({topology_hash(mesh) for mesh in [first, *others]}) == 5
    assert len(topology_hash(first)) == 64


def test_components_are_labelled_by_their_smallest_vertex():
    mesh, _ = shapes.merge(shapes.grid_mesh(3, 3), shapes.grid_mesh(2, 2))
    assert components(edges(mesh), 14).tolist() == [0] * 9 + [9] * 4 + [13]
    path = np.stack([np.arange(999), np.arange(1, 1000)], axis=1)[::-1]
    assert not components(path, 1000).any()


def test_morton_order_is_a_permutation_that_keeps_neighbours_together():
    _, positions = shapes.grid_mesh(32, 32)
    shuffled = np.random.default_rng(0).permutation(1024)
    order = morton_order(positions[shuffled])
    assert sorted(order.tolist()) == list(range(1024))
    steps = np.linalg.norm(np.diff(positions[shuffled][order], axis=0), axis=1)
    assert steps.mean() < 2.5 / 31
    assert morton_order(np.full((3, 3), np.nan)).tolist() == [0, 1, 2]


def test_an_empty_mesh_is_accepted():
    mesh = Mesh.from_polygons(0, [])
    nothing = np.zeros((0, 3))
    assert edges(mesh).shape == (0, 2)
    assert triangulate(mesh, nothing).triangles.shape == (0, 3)
    assert vertex_areas(triangulate(mesh, nothing), nothing, 0).shape == (0,)
    assert diagnose(mesh, nothing).face_count == 0


def test_the_diagnosis_pauses_more_often_on_a_larger_mesh(monkeypatch):
    monkeypatch.setattr("taichi_cloth_addon.engine.mesh._FACES", 50)
    pauses = []
    for side in (6, 31):
        shape, positions = shapes.grid_mesh(side, side)
        positions = positions.copy()
        positions[3] = positions[4]
        steps = diagnose_steps(shape, positions)
        pauses.append(sum(1 for _ in steps))
        found = diagnose(shape, positions)
        assert found.coincident_pairs.tolist() == [[3, 4]]
    assert pauses[1] > pauses[0] + 15
