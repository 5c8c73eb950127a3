# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes per vertex that a solver and its model hold, and what a model can drop."""

import gc
import os
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from taichi_cloth_addon.engine import heap, runtime
from taichi_cloth_addon.engine.bending import HingeSet, SparseMatrix
from taichi_cloth_addon.engine.hybrid.multigrid import Multigrid
from taichi_cloth_addon.engine.hybrid.solver import HybridSolver
from taichi_cloth_addon.engine.material import Fabric
from taichi_cloth_addon.engine.model import build_model
from taichi_cloth_addon.engine.rows import Rows
from taichi_cloth_addon.engine.runtime import Runtime
from taichi_cloth_addon.engine.simulate import simulate
from taichi_cloth_addon.engine.solver import Integrator, Quality, SolverOptions
from tests.footprint import held_bytes
from tests.physics.scenes import cloth, fabric, run, scene
from tests.shapes import Shape, grid_mesh, jittered_sheet, merge, sphere_mesh

SIDE = 64
STIFF = fabric(tension_stiffness=1000.0, shear_stiffness=100.0, bending_stiffness=5e-5)
COTTON = Fabric()


@pytest.mark.parametrize(
    ("made_of", "integrator", "host", "device"),
    [
        (STIFF, Integrator.IMPLICIT, 400, 1690),
        (COTTON, Integrator.IMPLICIT, 480, 1970),
        (STIFF, Integrator.EXPLICIT, 380, 690),
    ],
)
def test_bytes_per_vertex(
    taichi_cpu: Runtime, made_of: Fabric, integrator: Integrator, host: int, device: int
) -> None:
    """After the first frames of a hanging sheet; a cloth in a vacuum has no arrays for air."""
    what = scene(cloth(grid_mesh(SIDE, SIDE), made_of, [0, SIDE - 1]))
    solver = HybridSolver(what.model, SolverOptions(integrator))
    state = what.model.first_state()
    for _ in range(2):
        solver.step(state, what.inputs, what.inputs, 1.0 / 24.0)
    held = [number / SIDE**2 for number in held_bytes(solver)]
    assert held[0] < host
    assert held[1] < device


def test_other_step_lengths_take_no_more(taichi_cpu: Runtime) -> None:
    """Damped bending has weights of its own for each step length, in the same array."""
    what = scene(cloth(grid_mesh(20, 20), COTTON, [0, 19]))
    solver = HybridSolver(what.model, SolverOptions(Integrator.IMPLICIT))
    state = what.model.first_state()
    arrays = set()
    for duration in (0.04, 0.02, 0.015, 0.01):
        solver.step(state, what.inputs, what.inputs, duration)
        # Launches keep every array that they have ever been given.
        multigrid = solver._implicit[Integrator.IMPLICIT]._solver
        assert isinstance(multigrid, Multigrid)
        arrays.add(multigrid._bend_weights)
    assert len(arrays) == 1


SHAPES = {
    "grid": lambda: grid_mesh(12, 12),
    "curved": lambda: sphere_mesh(16, 12),
    "random": lambda: jittered_sheet(10, 10),
    "parts": lambda: merge(grid_mesh(5, 5), jittered_sheet(6, 6)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_released_parts_come_back_the_same(name: str) -> None:
    """To the last bit, for several cloths in one model too."""
    shape: Shape = SHAPES[name]()
    model = build_model([cloth(shape, COTTON, [0]), cloth(grid_mesh(6, 4), STIFF)])
    before = {field.name: getattr(model, field.name) for field in fields(model)}
    same = model.bending is model.bending_upper
    model.release()
    assert "hinges" not in vars(model)
    assert (model.bending is model.bending_upper) == same
    for kind, field in ((HingeSet, "hinges"), (SparseMatrix, "bending"), (Rows, "rows")):
        for part in fields(kind):
            old, new = (getattr(each, part.name) for each in (before[field], getattr(model, field)))
            assert old.dtype == new.dtype
            np.testing.assert_array_equal(old, new)
    np.testing.assert_array_equal(before["bending_upper"].weights, model.bending_upper.weights)


def test_released_models_can_be_replaced() -> None:
    """A copy with another mass has all that was dropped."""
    model = build_model([cloth(grid_mesh(6, 6), STIFF)])
    springs = model.rows.spring.copy()
    model.release()
    other = replace(model, mass=2.0 * model.mass)
    np.testing.assert_array_equal(other.rows.spring, springs)
    with pytest.raises(AttributeError):
        _ = model.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("quality", [Quality.NORMAL, Quality.FINAL])
def test_a_released_model_steps_on(taichi_cpu: Runtime, quality: Quality) -> None:
    """A second bake of a model whose first one dropped what it could."""
    what = scene(cloth(grid_mesh(12, 12), STIFF, [0, 11]))
    first, second = (
        run(what, 0.2, Integrator.IMPLICIT, quality=quality)[-1].positions for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


def test_animated_fabrics_take_no_more(taichi_cpu: Runtime) -> None:
    """Each change makes a solver anew; the arrays of the one before are let go."""
    what = scene(cloth(grid_mesh(24, 24), STIFF, [0, 23]))
    inputs = (
        replace(what.inputs, fabrics=(replace(STIFF, density=0.2 + 0.01 * number),))
        for number in range(6)
    )
    ndarray = runtime.import_taichi().lang._ndarray.Ndarray
    alive = []
    for _ in simulate(what.model, inputs, SolverOptions(Integrator.IMPLICIT), 1.0 / 24.0):
        gc.collect()
        alive.append(sum(isinstance(each, ndarray) for each in gc.get_objects()))
    assert len(set(alive[1:])) == 1


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="needs /proc")
def test_vectors_that_are_dropped_are_freed(taichi_cpu: Runtime) -> None:
    """Taichi itself frees arrays of numbers alone."""

    def pages() -> int:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1])

    runtime.zeros(1_000_000, 3)
    before = pages()
    for _ in range(20):
        runtime.zeros(1_000_000, 3)
    assert (pages() - before) * os.sysconf("SC_PAGE_SIZE") < 50e6


def test_trimming_is_harmless() -> None:
    kept = np.arange(100_000)
    heap.trim()
    assert kept.sum() == 4_999_950_000
