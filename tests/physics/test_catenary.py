# SPDX-License-Identifier: GPL-3.0-or-later
"""A stiff strip between two lines of pins hangs in a catenary."""

import numpy as np
import pytest

from taichi_cloth_addon.engine.solver import Integrator
from tests.physics.scenes import Array, cloth, fabric, run, scene
from tests.shapes import grid_mesh, triangle_grid

LENGTH = 1.0


def catenary(span: float, drop: float, arc: Array) -> Array:
    """Points (N, 2) at arc lengths from (0, 0) to (span, -drop) on the catenary of LENGTH."""
    # sqrt(L² - drop²) = 2 a sinh(span / 2a), by bisection in span / 2a.
    ratio = np.sqrt(LENGTH**2 - drop**2) / span
    low, high = 1e-6, 20.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.sinh(middle) / middle < ratio else (low, middle)
    a = span / (2.0 * low)
    # Lowest point: the slope's inverse hyperbolic sine goes from p to q evenly in x / a.
    mean = np.arctanh(-drop / LENGTH)
    p = mean - low
    start = a * np.sinh(p)
    x = a * (np.arcsinh((start + arc) / a) - p)
    y = np.sqrt(a**2 + (start + arc) ** 2) - np.sqrt(a**2 + start**2)
    return np.stack([x, y], axis=1)


@pytest.mark.parametrize(("span", "drop"), [(0.8, 0.0), (0.5, 0.0), (0.6, 0.3)])
@pytest.mark.parametrize("tiling", ["quads", "triangles"])
def test_shape(span: float, drop: float, tiling: str) -> None:
    """A strip laid into its catenary stays there, every vertex at its arc length.

    A part e of the weight left unbalanced would move it by about e g / omega² (omega the
    swing's, some 6 rad/s), so 3 mm over three swings mean forces right to 1 %. A chain of n
    links deviates from the catenary by about (L / n)² / (8 R), 1e-3 m for 20 links and
    R = 0.3 m at the tightest; the stretch of 2e-4 adds as much at most.
    """
    make = grid_mesh if tiling == "quads" else triangle_grid
    mesh, rest = make(31, 3, LENGTH, 1.0 / 15.0)
    points = catenary(span, drop, rest[:, 0])
    assert points[rest[:, 0] == LENGTH][0] == pytest.approx([span, -drop], abs=1e-9)
    start = np.stack([points[:, 0], rest[:, 1], points[:, 1]], axis=1)
    ends = np.flatnonzero((rest[:, 0] < 1e-9) | (rest[:, 0] > LENGTH - 1e-9))
    sheet = fabric(tension_stiffness=1e4, shear_stiffness=100.0)
    part = cloth((mesh, rest), sheet, ends, positions=start)
    frames = run(scene(part), 1.5, Integrator.EXPLICIT, fps=30.0)
    for frame in frames[::5]:
        np.testing.assert_allclose(frame.positions, start, atol=3e-3)
