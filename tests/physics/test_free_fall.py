# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpinned sheets that fall: free fall, terminal velocity, motion edge-on."""

import numpy as np
import pytest

from taichi_cloth_addon.engine.hybrid.air_kernels import AIR_DENSITY, SKIN_FRICTION
from taichi_cloth_addon.engine.solver import Integrator
from tests.physics.scenes import ALL, DOWN, IDEAL, G, cloth, fabric, moving, run, scene
from tests.shapes import grid_mesh, jittered_sheet

STEPPED = (Integrator.IMPLICIT, Integrator.SOR)


@pytest.mark.parametrize("integrator", ALL)
@pytest.mark.parametrize("shape", [grid_mesh(9, 9), jittered_sheet(9, 9)])
def test_free_fall(integrator, shape):
    """1/2 g t²: exact for velocity Verlet, + 1/2 g h t for backward Euler.

    BDF2 makes its first step by backward Euler, 1/2 g h² too far; after it its differences fall
    to a third at each step, so n steps are 3/4 g h² (1 - 3^-n) too far.

    The tolerance is float32's: positions of up to 5 m are rounded to 2.4e-7 m, and 240 steps
    add that up to 6e-5 m at the most.
    """
    frames = run(scene(cloth(shape)), 1.0, integrator)
    used, tolerance = frames[-1].report.integrator, 1e-4
    h = 1.0 / (24.0 * frames[-1].report.substeps)
    for frame in frames:
        t = frame.index / 24.0
        excess = {
            Integrator.EXPLICIT: 0.0,
            Integrator.IMPLICIT: 0.75 * G * h * h * (1.0 - 3.0 ** (-t / h)),
            Integrator.SOR: 0.5 * G * h * t,
        }[used]
        fallen = shape[1] - frame.positions
        np.testing.assert_allclose(fallen[:, 2], 0.5 * G * t * t + excess, rtol=0, atol=tolerance)
        np.testing.assert_allclose(fallen[:, :2], 0.0, rtol=0, atol=0.1 * tolerance)


@pytest.mark.parametrize("integrator", ALL)
def test_flat_sheet_reaches_its_terminal_velocity(integrator):
    """v = v_t tanh(g t / v_t) with v_t² = 2 rho g / (rho_air c).

    The drag is linearised in a step: first order in h, with an error of about
    1/2 h g / v_t = 1.3 % of v at most (velocities lag half a step); 2 % is allowed.
    """
    sheet = fabric(air_drag=1.3)
    what = scene(cloth(grid_mesh(7, 7), sheet))
    terminal = np.sqrt(2.0 * sheet.density * G / (AIR_DENSITY * sheet.air_drag))
    for frame in run(what, 1.0, integrator)[1:]:
        wanted = terminal * np.tanh(G * frame.index / 24.0 / terminal)
        speed = -frame.state.velocities[:, 2]
        np.testing.assert_allclose(speed, wanted, rtol=0.02)
    np.testing.assert_allclose(speed, terminal, rtol=2e-3)


def test_edge_on_only_skin_friction_acts():
    """m dv/dt = m g - 1/2 rho_air A c_t v²: within 1 % of v after 2 s, as above."""
    sheet = fabric(air_drag=100.0)
    mesh, rest = grid_mesh(7, 7)
    upright = rest[:, [0, 2, 1]]
    what = scene(cloth((mesh, upright), sheet))
    coefficient = SKIN_FRICTION * sheet.air_drag
    terminal = np.sqrt(2.0 * sheet.density * G / (AIR_DENSITY * coefficient))
    last = run(what, 2.0, Integrator.EXPLICIT)[-1]
    wanted = terminal * np.tanh(G * 2.0 / terminal)
    np.testing.assert_allclose(-last.state.velocities[:, 2], wanted, rtol=0.01)


@pytest.mark.parametrize("integrator", ALL)
def test_sheet_moves_with_the_wind(integrator):
    """In wind of its own velocity a sheet feels no air at all."""
    mesh, rest = grid_mesh(6, 6)
    wind = np.array([1.0, -2.0, 0.5])
    part = cloth((mesh, rest), fabric(air_drag=1.0))
    what = scene(part, gravity=0.0 * DOWN, wind=wind)
    start = moving(what.model, rest, np.broadcast_to(wind, rest.shape))
    last = run(what, 0.5, integrator, start=start)[-1]
    # float32: positions of a metre moved 120 times.
    np.testing.assert_allclose(last.positions, rest + 0.5 * wind, atol=2e-5)


def test_no_drag_in_a_vacuum():
    """air_drag = 0 is a vacuum, whatever the wind."""
    calm = run(scene(cloth(grid_mesh(6, 6))), 0.25)[-1]
    windy = run(scene(cloth(grid_mesh(6, 6)), wind=np.array([30.0, 5.0, 9.0])), 0.25)[-1]
    np.testing.assert_array_equal(calm.positions, windy.positions)


def test_density_does_not_matter_in_a_vacuum():
    """A heavy and a light sheet fall alike; resolution has no say in it either."""
    fallen = [
        run(scene(cloth(grid_mesh(n, n), fabric(density=density))), 0.5)[-1].positions[:, 2].mean()
        for n, density in ((5, 0.05), (5, 2.0), (12, 0.05))
    ]
    np.testing.assert_allclose(fallen, fallen[0], rtol=1e-4)
    assert IDEAL.air_drag == 0.0
