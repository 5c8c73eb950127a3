# SPDX-License-Identifier: GPL-3.0-or-later
"""Momentum, energy and recovery of cloth left to itself."""

import numpy as np
import pytest

from taichi_cloth_addon.engine.model import ClothModel, ClothState
from taichi_cloth_addon.engine.simulate import simulate
from taichi_cloth_addon.engine.solver import Integrator, Quality, SolverOptions
from taichi_cloth_addon.engine.springs import SpringKind
from tests.physics.scenes import (
    ALL,
    NOTHING,
    Scene,
    angular_momentum,
    cloth,
    elastic_energy,
    fabric,
    kinetic_energy,
    momentum,
    moving,
    run,
    scene,
    solved_far,
)
from tests.shapes import grid_mesh, jittered_sheet, merge

IMPLICIT = (Integrator.IMPLICIT, Integrator.SOR)
STIFF = fabric(tension_stiffness=500.0, shear_stiffness=50.0, bending_stiffness=1e-4)


def shaken(seed: int = 3, **changes: float) -> tuple[Scene, ClothState]:
    """A free sheet, bent at random, with random velocities of 1 m/s."""
    random = np.random.default_rng(seed)
    mesh, rest = jittered_sheet(9, 9)
    what = scene(cloth((mesh, rest), fabric(**changes)), gravity=NOTHING)
    positions = 1.05 * rest + random.normal(size=rest.shape) * 0.01
    return what, moving(what.model, positions, random.normal(size=rest.shape))


def total_of(model: ClothModel, state: ClothState) -> float:
    """Sum of m |v|, the size that momentum is measured against."""
    return float((model.mass * np.linalg.norm(state.velocities, axis=1)).sum())


# Explicit steps add equal and opposite forces, each rounded to 6e-8: 1e-5 over some hundred
# steps. Implicit ones have the momentum error of what their solve leaves, at most its
# tolerance of 2e-3 of the step's impulse; impulses of a second are some times m |v|: 5e-3.
@pytest.mark.parametrize(
    ("integrator", "tolerance"),
    [
        (Integrator.EXPLICIT, 1e-5),
        (Integrator.IMPLICIT, 5e-3),
        (Integrator.SOR, 5e-3),
        (Integrator.AUTO, 5e-3),
    ],
)
@pytest.mark.parametrize("damping", [0.0, 0.05])
def test_linear_momentum(integrator: Integrator, tolerance: float, damping: float) -> None:
    """Without external forces it stays what it is, damped or not."""
    what, start = shaken(
        bending_stiffness=1e-4,
        tension_damping=damping,
        shear_damping=damping,
        bending_damping=1e-6 * (damping > 0.0),
    )
    before = momentum(what.model, start)
    scale = total_of(what.model, start)
    for frame in run(what, 0.5, integrator, start=start):
        drift = np.abs(momentum(what.model, frame.state) - before).max()
        assert drift < tolerance * scale


def test_angular_momentum() -> None:
    """Central forces and a symmetric bending form turn nothing: 1e-4 of sum |x| m |v| (float32).

    Verlet keeps it exactly but for rounding.
    """
    what, start = shaken(bending_stiffness=1e-4)
    before = angular_momentum(what.model, start)
    scale = total_of(what.model, start)
    for frame in run(what, 0.5, Integrator.EXPLICIT, start=start):
        drift = np.abs(angular_momentum(what.model, frame.state) - before).max()
        assert drift < 1e-4 * scale


@pytest.mark.parametrize(
    ("integrator", "damping"),
    [(Integrator.IMPLICIT, 0.0), (Integrator.IMPLICIT, 10.0), (Integrator.SOR, 0.0)],
)
def test_slow_spin_goes_on(integrator: Integrator, damping: float) -> None:
    """A spinning sheet: backward Euler takes omega² h of the rate a second, 0.4 % at 1 rad/s.

    Dampers do not hold it back: a rotation changes no length. (Of SOR's single linearisation
    they would take a part.)
    """
    mesh, rest = grid_mesh(7, 7)
    flat = rest - rest.mean(axis=0)
    sheet = fabric(tension_damping=damping, shear_damping=damping)
    what = scene(cloth((mesh, flat), sheet), gravity=NOTHING)
    start = moving(what.model, flat, np.cross([0.0, 0.0, 1.0], flat))
    before = angular_momentum(what.model, start)[2]
    last = run(what, 1.0, integrator, start=start)[-1]
    assert angular_momentum(what.model, last.state)[2] == pytest.approx(before, rel=0.02)


def test_energy_of_verlet_stays() -> None:
    """Undamped explicit steps oscillate about the energy: (omega h)² / 8 of it at most.

    With 0.8 of the stable step, (omega h)² is at most 3.2 for the quickest wave: 40 % for it,
    a few per cent for all; no drift: the mean of the last second is that of the first to 2 %.
    """
    what, start = shaken()
    frames = run(what, 2.0, Integrator.EXPLICIT, fps=48.0, start=start)
    energy = np.array(
        [kinetic_energy(what.model, f.state) + elastic_energy(what.model, f.state) for f in frames]
    )
    assert energy[48:].mean() == pytest.approx(energy[:48].mean(), rel=0.02)
    assert np.ptp(energy) < 0.2 * energy.mean()


@pytest.mark.parametrize("integrator", IMPLICIT)
@pytest.mark.parametrize("start", ["stretched", "scrambled", "shaken"])
@pytest.mark.parametrize("substeps", [0, 1])
def test_backward_euler_never_gains_energy(
    integrator: Integrator, start: str, substeps: int
) -> None:
    """Kinetic plus elastic energy never rises from frame to frame, whatever the step.

    But for rounding: an energy is a sum of about 1e3 terms of 1e-7 each: 1e-5 of the first.
    """
    random = np.random.default_rng(5)
    mesh, rest = grid_mesh(8, 8)
    what = scene(cloth((mesh, rest), STIFF), gravity=NOTHING)
    if start == "stretched":
        state = moving(what.model, rest * [1.5, 1.2, 1.0], np.zeros_like(rest))
    elif start == "scrambled":
        state = moving(what.model, random.random(rest.shape), np.zeros_like(rest))
    else:
        positions = rest + 0.02 * random.normal(size=rest.shape)
        state = moving(what.model, positions, random.normal(size=rest.shape))
    first = before = kinetic_energy(what.model, state) + elastic_energy(what.model, state)
    for frame in run(what, 0.5, integrator, substeps=substeps, start=state):
        now = kinetic_energy(what.model, frame.state) + elastic_energy(what.model, frame.state)
        assert now <= before + 1e-5 * first
        before = now
    assert before < 0.9 * first


@pytest.mark.parametrize("integrator", ALL)
def test_scrambled_sheet_recovers(integrator: Integrator) -> None:
    """Every vertex at random in a cube: finite at every frame, and unstretched in the end.

    Held by two corners and damped; 20 % of stretch at the worst spring is where fabrics tear.
    """
    mesh, rest = grid_mesh(12, 12)
    sheet = fabric(
        tension_stiffness=500.0,
        bending_stiffness=1e-4,
        tension_damping=0.5,
        shear_damping=0.5,
        air_drag=1.0,
    )
    pins = np.array([0, 11])
    positions = np.random.default_rng(1).random(rest.shape)
    positions[pins] = rest[pins]
    what = scene(cloth((mesh, rest), sheet, pins, positions=positions))
    frames = run(what, 2.0, integrator)
    assert all(np.isfinite(frame.positions).all() for frame in frames)
    network = what.model.network
    chosen = network.kind == SpringKind.STRUCTURAL
    first, second = network.vertices[chosen].T
    x = frames[-1].state.positions.astype(np.float64)
    stretch = np.linalg.norm(x[second] - x[first], axis=1) / network.rest_length[chosen] - 1.0
    assert np.quantile(stretch, 0.99) < 0.2


@pytest.mark.parametrize("integrator", [Integrator.EXPLICIT, Integrator.IMPLICIT])
@pytest.mark.parametrize("name", ["tension_damping", "shear_damping", "bending_damping"])
def test_damping_dissipates(integrator: Integrator, name: str) -> None:
    """Each kind of damping takes energy that the same undamped sheet keeps.

    In steps of 1/1152 s: longer implicit ones take as much by themselves.
    """
    values = {"tension_damping": 0.5, "shear_damping": 0.5, "bending_damping": 5e-4}
    left = []
    for damping in ({}, {name: values[name]}):
        what, start = shaken(bending_stiffness=1e-3, **damping)
        last = run(what, 1.0 / 24.0, integrator, substeps=48, start=start)[-1].state
        drift = momentum(what.model, last) / what.model.mass.sum()
        last.velocities[:] -= drift.astype(np.float32)
        left.append(kinetic_energy(what.model, last) + elastic_energy(what.model, last))
    assert left[1] < 0.9 * left[0]


def test_unconnected_cloths_do_not_feel_each_other() -> None:
    """A part of a mesh that hangs in the air moves as it does alone (to the solver's tolerance)."""
    sheet = grid_mesh(6, 6)
    other = (sheet[0], sheet[1] + [3.0, 0.0, 0.0])
    with solved_far():
        alone, both = (
            run(scene(cloth(shape, STIFF, [0])), 0.25, Integrator.IMPLICIT, quality=Quality.FINAL)[
                -1
            ]
            for shape in (sheet, merge(sheet, other))
        )
    np.testing.assert_allclose(both.positions[:36], alone.positions, atol=1e-3)
    fall = both.positions[36:] - other[1]
    np.testing.assert_allclose(fall[:, 2], fall[0, 2], atol=1e-4)


@pytest.mark.parametrize("integrator", [Integrator.EXPLICIT, Integrator.IMPLICIT, Integrator.SOR])
def test_runs_are_bit_equal_and_resume(integrator: Integrator) -> None:
    """The same scene twice, and gone on from frame 4: not a bit differs."""
    mesh, rest = jittered_sheet(9, 9)
    sheet = fabric(bending_stiffness=1e-4, air_drag=1.0, tension_damping=0.1)
    what = scene(cloth((mesh, rest), sheet, [72, 80]), wind=np.array([1.0, 2.0, 0.0]))
    once, again = (run(what, 0.4, integrator, fps=25.0) for _ in range(2))
    options = SolverOptions(integrator)
    rest_of = list(
        simulate(what.model, [what.inputs] * 7, options, 1.0 / 25.0, start=once[4].state)
    )
    for one, two in zip(once, again, strict=True):
        assert one.positions.tobytes() == two.positions.tobytes()
        assert one.state.velocities.tobytes() == two.state.velocities.tobytes()
    for one, two in zip(once[5:], rest_of, strict=True):
        assert one.index == two.index
        assert one.positions.tobytes() == two.positions.tobytes()
        assert one.state.velocities.tobytes() == two.state.velocities.tobytes()
        assert one.state.time == two.state.time
