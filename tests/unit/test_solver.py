# SPDX-License-Identifier: GPL-3.0-or-later
"""The time loop and the solver's choices and reports."""

from dataclasses import replace

import numpy as np
import pytest

from taichi_cloth_addon.engine.hybrid.cost import implicit_cost
from taichi_cloth_addon.engine.simulate import Cancelled, SimulationError, simulate
from taichi_cloth_addon.engine.solver import Integrator, Quality, SolverOptions
from tests.physics.scenes import ALL, Scene, cloth, fabric, moving, run, scene, solved_far
from tests.shapes import grid_mesh

pytestmark = pytest.mark.usefixtures("taichi_cpu")


def small(**changes: float) -> Scene:
    return scene(cloth(grid_mesh(6, 6), fabric(**changes), [30, 35]))


@pytest.mark.parametrize("integrator", ALL)
def test_report(integrator: Integrator) -> None:
    """What ran, how many steps, what was left."""
    frames = run(small(), 0.25, integrator)
    assert frames[0].report is None
    assert [frame.index for frame in frames] == list(range(7))
    for frame in frames[1:]:
        report = frame.report
        assert report is not None
        if integrator is not Integrator.AUTO:
            assert report.integrator is integrator
        assert report.integrator is not Integrator.AUTO
        assert report.substeps >= 1
        assert 0.0 <= report.explicit_share <= 1.0
        assert 0.0 <= report.residual < 0.1
        assert 0.0 <= report.worst_strain < 0.5
        assert report.warnings == ()
        assert frame.state.time == pytest.approx(frame.index / 24.0)


@pytest.mark.parametrize("substeps", [1, 7])
def test_substeps_are_the_users(substeps: int) -> None:
    """Implicit ones exactly; explicit ones at least as many as stability wants."""
    for integrator in (Integrator.IMPLICIT, Integrator.SOR):
        report = run(small(), 0.1, integrator, substeps=substeps)[-1].report
        assert report is not None
        assert report.substeps == substeps
    report = run(small(), 0.1, Integrator.EXPLICIT, substeps=substeps)[-1].report
    assert report is not None
    assert report.substeps > 20


def test_auto_takes_what_is_cheaper() -> None:
    """A soft coarse sheet explicitly, a stiff damped one implicitly; cost grows with both."""
    soft = run(small(), 0.1)[-1].report
    assert soft is not None
    assert soft.integrator is Integrator.EXPLICIT
    damped = scene(
        cloth(
            grid_mesh(16, 16),
            fabric(
                tension_stiffness=1e5, shear_stiffness=1e4, tension_damping=50.0, shear_damping=50.0
            ),
            [0, 15],
        )
    )
    stiff = run(damped, 0.05)[-1].report
    assert stiff is not None
    assert stiff.integrator is Integrator.IMPLICIT
    assert implicit_cost(10, 5.0) > implicit_cost(10, 1.0) > 0.0
    assert implicit_cost(20, 1.0) == pytest.approx(2.0 * implicit_cost(10, 1.0))


def test_large_strain_is_reported() -> None:
    """Never a silent wrong answer: a sheet that hangs by a thread of rubber says so."""
    heavy = small(tension_stiffness=2.0, shear_stiffness=0.2, density=1.0)
    report = run(heavy, 0.5, Integrator.IMPLICIT)[-1].report
    assert report is not None
    assert report.worst_strain > 0.5
    assert any("stretched" in warning for warning in report.warnings)


def test_cancel() -> None:
    """Asked before the next frame's work is done."""
    what = small()
    stop: list[bool] = []
    stream = simulate(
        what.model, [what.inputs] * 100, SolverOptions(), 1.0 / 24.0, cancelled=lambda: bool(stop)
    )
    next(stream)
    next(stream)
    stop.append(True)
    with pytest.raises(Cancelled):
        next(stream)


def test_phases() -> None:
    """Compiling before the first step, simulating once it is done."""
    what = small()
    phases: list[str] = []
    stream = simulate(
        what.model, [what.inputs] * 4, SolverOptions(), 1.0 / 24.0, on_phase=phases.append
    )
    next(stream)
    assert phases == []
    next(stream)
    assert phases == ["compiling", "simulating"]
    list(stream)
    assert phases == ["compiling", "simulating"]


def test_what_is_not_a_number_stops_the_bake() -> None:
    """With a sentence, not with NaN in the cache."""
    what = small()
    rest = what.model.world_positions(what.model.first_state())
    velocities = np.zeros_like(rest)
    velocities[7] = np.nan
    start = moving(what.model, rest, velocities)
    with pytest.raises(SimulationError, match="blew up"):
        run(what, 0.2, Integrator.EXPLICIT, start=start)


def test_yielded_states_are_copies() -> None:
    """A frame kept is not changed by the next."""
    frames = run(small(), 0.2, Integrator.EXPLICIT)
    assert not np.array_equal(frames[1].state.positions, frames[2].state.positions)
    again = run(small(), 0.2, Integrator.EXPLICIT)
    np.testing.assert_array_equal(frames[1].state.positions, again[1].state.positions)


def test_animated_fabric() -> None:
    """Settings of each frame count: a sheet that goes soft sags; unchanged ones change nothing."""
    what = small(tension_damping=1.0, shear_damping=1.0)
    soft = replace(
        what.inputs,
        fabrics=(replace(what.inputs.fabrics[0], tension_stiffness=20.0, shear_stiffness=2.0),),
    )
    inputs = [what.inputs] * 5
    options = SolverOptions(Integrator.IMPLICIT)
    plain = list(simulate(what.model, inputs + [what.inputs] * 8, options, 1.0 / 24.0))
    animated = list(simulate(what.model, inputs + [soft] * 8, options, 1.0 / 24.0))
    np.testing.assert_array_equal(plain[4].positions, animated[4].positions)
    assert animated[-1].positions[:, 2].mean() < plain[-1].positions[:, 2].mean() - 0.02


@pytest.mark.parametrize("integrator", ALL)
def test_no_free_vertices(integrator: Integrator) -> None:
    """A sheet pinned all over, and one of a single quad."""
    pinned = scene(cloth(grid_mesh(3, 3), pins=np.arange(9)))
    np.testing.assert_allclose(run(pinned, 0.1, integrator)[-1].positions, grid_mesh(3, 3)[1])
    single = scene(cloth(grid_mesh(2, 2), pins=[0]))
    assert np.isfinite(run(single, 0.25, integrator)[-1].positions).all()


@pytest.mark.parametrize("integrator", ALL)
def test_two_cloths_move_as_each_alone(integrator: Integrator) -> None:
    """Each with its own fabric.

    Implicit steps of 1/120 s, of which no part is explicit, are solved on both together: 1 mm.
    Explicit steps are as short as the stiffer of the two wants: the other's waves of a few steps'
    length turn out a little different, 5 mm of a fall of 0.3 m.
    """
    tolerance = {Integrator.IMPLICIT: 1e-3, Integrator.SOR: 1e-3}.get(integrator, 5e-3)
    one = cloth(grid_mesh(5, 5), fabric(density=0.1), [20, 24])
    mesh, rest = grid_mesh(6, 4)
    two = cloth((mesh, rest + np.array([3.0, 0.0, 0.0])), fabric(density=0.5, air_drag=2.0), [0, 5])
    with solved_far():
        both, first, second = (
            run(scene(*parts), 0.25, integrator, substeps=5, quality=Quality.FINAL)[-1].positions
            for parts in ((one, two), (one,), (two,))
        )
    np.testing.assert_allclose(both[:25], first, atol=tolerance)
    np.testing.assert_allclose(both[25:], second, atol=tolerance)


def test_damping_beyond_explicit_steps_is_told() -> None:
    """And AUTO takes implicit steps for it, without a word."""
    part = cloth(grid_mesh(6, 6), fabric(tension_damping=50.0), [30, 35])
    told = run(scene(part), 0.05, Integrator.EXPLICIT)[-1].report
    assert told is not None
    assert any("damping" in warning for warning in told.warnings)
    calm = run(scene(part), 0.05, Integrator.AUTO)[-1].report
    assert calm is not None
    assert calm.integrator is Integrator.IMPLICIT
    assert not calm.warnings
    usual = run(scene(cloth(grid_mesh(6, 6), pins=[30, 35])), 0.05, Integrator.EXPLICIT)[-1].report
    assert usual is not None
    assert not usual.warnings
