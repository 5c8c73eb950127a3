# SPDX-License-Identifier: GPL-3.0-or-later
"""The multigrid levels: what is proved of them, and how fast they solve."""

import itertools

import numpy as np
import numpy.typing as npt
import pytest

from taichi_cloth_addon.engine import hierarchy
from taichi_cloth_addon.engine.hierarchy import Bending, Graph, Level
from taichi_cloth_addon.engine.model import ClothModel
from taichi_cloth_addon.engine.solver import Integrator, Quality
from taichi_cloth_addon.engine.springs import SpringKind
from tests.physics.scenes import cloth, fabric, run, scene
from tests.shapes import (
    Shape,
    cylinder_mesh,
    grid_mesh,
    jittered_sheet,
    merge,
    sphere_mesh,
)

Array = npt.NDArray[np.float64]

STIFF = fabric(tension_stiffness=1000.0, shear_stiffness=100.0, bending_stiffness=5e-5)


def shapes() -> dict[str, tuple[Shape, list[int]]]:
    """Meshes of several kinds and their pins."""
    sheet = grid_mesh(20, 20)
    tube = cylinder_mesh(24, 16, 0.3, 0.6)
    apart = merge(jittered_sheet(15, 15), (tube[0], tube[1] + [3.0, 0.0, 0.0]))
    return {
        "sheet": (sheet, [380, 399]),
        "free": (sheet, []),
        "row of pins": (sheet, list(range(380, 400))),
        "scattered pins": (sheet, list(range(0, 400, 37))),
        "triangles": (jittered_sheet(20, 20), [0, 1, 2]),
        "closed": (sphere_mesh(24, 16), []),
        "two parts": (apart, [0]),
    }


def graph(model: ClothModel) -> Graph:
    """What the solver hands in."""
    network = model.network
    strong = network.kind != SpringKind.FLEXION
    matrix = model.bending_upper
    rows = np.repeat(np.arange(model.vertex_count, dtype=np.int32), np.diff(matrix.offsets))
    upper = rows < matrix.neighbours
    pairs = np.stack([rows, matrix.neighbours], axis=1)[upper]
    bending = Bending(pairs, -matrix.weights[upper])
    return Graph(network.vertices, network.stiffness, strong, model.fixed, bending)


@pytest.fixture(scope="module", params=list(shapes()))
def built(request: pytest.FixtureRequest) -> tuple[Graph, tuple[Level, ...]]:
    """The fine graph and its levels."""
    shape, pins = shapes()[request.param]
    fine = graph(scene(cloth(shape, STIFF, pins)).model)
    return fine, hierarchy.build_levels(fine)


def test_levels_shrink(built: tuple[Graph, tuple[Level, ...]]) -> None:
    """Each level has less than three quarters of the nodes; the last has few free ones."""
    fine, levels = built
    counts = [len(fine.fixed), *(level.count for level in levels)]
    assert len(levels) >= 2
    assert all(after < 0.75 * before for before, after in itertools.pairwise(counts))
    assert (~levels[-1].fixed).sum() <= 60


def test_interpolation(built: tuple[Graph, tuple[Level, ...]]) -> None:
    """Rows sum to 1; chosen vertices keep their value; pinned ones take from pinned ones."""
    fine, levels = built
    fixed = fine.fixed
    for level in levels:
        np.testing.assert_allclose(level.weights.sum(axis=1), 1.0, atol=1e-6)
        assert (level.weights >= 0.0).all()
        for node in range(level.count):
            assert ((level.parents[:, 0] == node) & (level.weights[:, 0] == 1.0)).any()
        used = level.weights[fixed] > 0.0
        assert level.fixed[level.parents[fixed]][used].all()
        fixed = level.fixed


def galerkin(level: Level, vertices: npt.NDArray[np.int32], stiffness: Array) -> Array:
    """P^T L P for the scalar Laplacian of the springs."""
    count = len(level.parents)
    transfer = np.zeros((count, level.count))
    for slot in range(hierarchy.PARENTS):
        np.add.at(transfer, (np.arange(count), level.parents[:, slot]), level.weights[:, slot])
    laplacian = np.zeros((count, count))
    i, j = vertices.T
    np.add.at(laplacian, (i, i), stiffness)
    np.add.at(laplacian, (j, j), stiffness)
    np.add.at(laplacian, (i, j), -stiffness)
    np.add.at(laplacian, (j, i), -stiffness)
    return np.asarray(transfer.T @ laplacian @ transfer)


def test_coarse_springs_stand_for_the_galerkin_product(
    built: tuple[Graph, tuple[Level, ...]],
) -> None:
    """The same trace (each column of C is scaled to that) and nearly the same matrix."""
    fine, levels = built
    level = levels[0]
    starts = level.offsets[:-1].astype(np.int64)
    found = np.add.reduceat(level.shares * fine.stiffness[level.sources], starts)
    assert (level.shares > 0.0).all()
    wanted = galerkin(level, fine.vertices, fine.stiffness)
    matrix = np.zeros_like(wanted)
    i, j = level.springs.T
    matrix[i, j] = matrix[j, i] = -found
    np.fill_diagonal(matrix, -matrix.sum(axis=1))
    # Springs between two pinned nodes are left out.
    free = ~level.fixed
    inner = np.ix_(free, free)
    assert np.trace(matrix[inner]) == pytest.approx(np.trace(wanted[inner]), rel=0.05)
    apart = np.linalg.norm(matrix[inner] - wanted[inner]) / np.linalg.norm(wanted[inner])
    assert apart < 0.3


def test_parts_stay_apart() -> None:
    """No coarse spring and no parent joins unconnected cloths."""
    shape = merge(grid_mesh(12, 12), (grid_mesh(12, 12)[0], grid_mesh(12, 12)[1] + [9.0, 0, 0]))
    model = scene(cloth(shape, STIFF, [0])).model
    side = (model.rest[:, 0] + model.origin[0] > 4.0).astype(int)
    for level in hierarchy.build_levels(graph(model)):
        above = np.zeros(level.count, dtype=int)
        above[level.parents[:, 0]] = side
        assert (above[level.parents] == side[:, None])[level.weights > 0.0].all()
        assert (above[level.springs[:, 0]] == above[level.springs[:, 1]]).all()
        side = above


def test_small_and_degenerate_graphs() -> None:
    """No levels for a few vertices, for none that is free, and for vertices without springs."""
    few = graph(scene(cloth(grid_mesh(5, 5), STIFF)).model)
    assert hierarchy.build_levels(few) == ()
    held = graph(scene(cloth(grid_mesh(9, 9), STIFF, list(range(81)))).model)
    assert hierarchy.build_levels(held) == ()
    nothing = np.zeros((0, 2), np.int32)
    bending = Bending(nothing, np.zeros(0))
    alone = Graph(nothing, np.zeros(0), np.zeros(0, bool), np.zeros(100, bool), bending)
    assert hierarchy.build_levels(alone) == ()


def test_the_same_every_time() -> None:
    """Nothing random."""
    fine = graph(scene(cloth(jittered_sheet(17, 17), STIFF, [0])).model)
    one, two = (hierarchy.build_levels(fine) for _ in range(2))
    for a, b in zip(one, two, strict=True):
        assert a.parents.tobytes() == b.parents.tobytes()
        assert a.shares.tobytes() == b.shares.tobytes()


def test_coarse_bending_is_the_galerkin_product(built: tuple[Graph, tuple[Level, ...]]) -> None:
    """P^T Q P, but for pairs of pinned nodes."""
    fine, levels = built
    level = levels[0]
    wanted = galerkin(level, fine.bending.pairs, fine.bending.strength)
    i, j = level.bending.pairs.T
    found = np.zeros_like(wanted)
    found[i, j] = found[j, i] = -level.bending.strength
    np.fill_diagonal(wanted, 0.0)
    held = np.ix_(level.fixed, level.fixed)
    wanted[held] = 0.0
    np.testing.assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.slow
@pytest.mark.parametrize("bending", [0.0, 5e-5, 5e-3])
def test_bending_does_not_slow_the_solve(bending: float, taichi_cpu: object) -> None:
    """Iterations of a step with 64² vertices, stiff denim and ten times that included."""
    sheet = fabric(tension_stiffness=1000.0, shear_stiffness=100.0, bending_stiffness=bending)
    what = scene(cloth(grid_mesh(64, 64), sheet, [4032, 4095]))
    reports = [frame.report for frame in run(what, 0.2, Integrator.IMPLICIT)[1:]]
    steps = sum(r.substeps for r in reports if r is not None)
    assert sum(r.iterations for r in reports if r is not None) < 12 * steps


@pytest.mark.slow
def test_iterations_hardly_grow(taichi_cpu: object) -> None:
    """Falling and folding sheets of 16², 32² and 64² vertices: iterations of a pass.

    One-ring solvers need twice as many from each size to the next.
    """
    found = []
    for side in (16, 32, 64):
        pins = [side * (side - 1), side * side - 1]
        frames = run(
            scene(cloth(grid_mesh(side, side), STIFF, pins)),
            0.5,
            Integrator.IMPLICIT,
            quality=Quality.FINAL,
        )
        reports = [frame.report for frame in frames if frame.report is not None]
        found.append(sum(r.iterations for r in reports) / sum(r.substeps for r in reports))
    assert found[2] < 2.0 * found[0]
    assert found[2] < 15.0
