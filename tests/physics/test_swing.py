# SPDX-License-Identifier: GPL-3.0-or-later
"""Period of a hanging sheet that swings at a small angle, as a hanging chain does."""

import numpy as np
import pytest

from taichi_cloth_addon.engine.solver import Integrator
from tests.physics.scenes import ALL, DOWN, Array, G, cloth, fabric, run, scene, top_row
from tests.shapes import Shape, grid_mesh, triangle_grid

ROOT = 2.404825557695773  # first zero of J0
LENGTH = 1.0


def bessel(x: Array) -> Array:
    """J0 by its series; x up to 3 here."""
    total, term = np.ones_like(x), np.ones_like(x)
    for k in range(1, 20):
        term = -term * (0.5 * x) ** 2 / k**2
        total = total + term
    return total


def period(shape: Shape, integrator: Integrator, fps: float) -> float:
    """Four times the time at which the lower end swings through zero, interpolated, s."""
    mesh, flat = shape
    rest = flat[:, [0, 2, 1]]  # upright, in the xz plane
    above = rest[:, 2].max() - rest[:, 2]
    swing = 0.02 * bessel(ROOT * np.sqrt(np.maximum(LENGTH - above, 0.0) / LENGTH))
    start = rest.copy()
    start[:, 1] = swing
    # Stiff: stretched by 2e-4 L, so it hangs as long as it is.
    sheet = fabric(tension_stiffness=5000.0, shear_stiffness=50.0)
    part = cloth((mesh, rest), sheet, top_row(rest, 2), positions=start)
    what = scene(part, gravity=DOWN)
    wanted = 2.0 * np.pi / (0.5 * ROOT) * np.sqrt(LENGTH / G)
    frames = run(what, 0.3 * wanted, integrator, fps=fps)
    low = rest[:, 2] < rest[:, 2].min() + 1e-6
    side = np.array([frame.positions[low, 1].mean() for frame in frames])
    zeros = np.flatnonzero(np.diff(np.sign(side)) != 0)
    assert len(zeros) == 1
    first = zeros[0] + side[zeros[0]] / (side[zeros[0]] - side[zeros[0] + 1])
    return float(4.0 * first / fps)


# The tolerance of 1 %: the lumped chain of 16 links is 1/(16 * 16)-close to the continuous
# one (0.1 % in the period), the amplitude of 2 % of the length adds 1e-4, backward Euler
# (omega h)² / 3 = 1e-4 and half a step's lag, 2e-3 s of 0.4 s; Newton's tolerance 2e-3.
@pytest.mark.parametrize("integrator", ALL)
def test_period_of_the_hanging_chain_mode(integrator: Integrator) -> None:
    """T = 2 pi / 1.2024 sqrt(L / g) = 5.2255 sqrt(L / g)."""
    found = period(grid_mesh(5, 17, 0.25, LENGTH), integrator, 24.0)
    assert found == pytest.approx(5.2255 * np.sqrt(LENGTH / G), rel=0.01)


@pytest.mark.parametrize("fps", [25.0, 30.0 / 1.001, 60.0])
def test_period_at_other_frame_rates(fps: float) -> None:
    """The frame rate has no say."""
    found = period(grid_mesh(4, 17, 0.2, LENGTH), Integrator.AUTO, fps)
    assert found == pytest.approx(5.2255 * np.sqrt(LENGTH / G), rel=0.01)


def test_period_on_triangles() -> None:
    """Nor has the tiling."""
    found = period(triangle_grid(5, 17, 0.25, LENGTH), Integrator.AUTO, 24.0)
    assert found == pytest.approx(5.2255 * np.sqrt(LENGTH / G), rel=0.01)
