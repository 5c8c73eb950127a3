# SPDX-License-Identifier: GPL-3.0-or-later
"""Bending of clamped strips under their own weight, small and large.

bending_stiffness B is the moment per width and curvature of a sheet that is rolled up, that
is with no curvature across. The hinges make an isotropic plate with Poisson's ratio 1/3, so a
strip that is free to curve across (narrow, and bent so little that it need not stretch for
that) has only B (1 - 1/9) = 8/9 B. Once the curve across would stretch the strip (width²
times curvature beyond the thickness sqrt(12 B / Y) of an equal plate) it stays flat across
and has all of B.
"""

from dataclasses import replace

import numpy as np
import pytest

from taichi_cloth_addon.engine.model import ClothPart
from taichi_cloth_addon.engine.solver import Integrator
from tests.physics.scenes import Array, average, cloth, fabric, run, scene
from tests.shapes import Shape, grid_mesh, jittered_sheet, triangle_grid

LENGTH, WIDTH = 0.5, 0.05
NARROW = 8.0 / 9.0


def clamped(shape: Shape, stiffness: float) -> ClothPart:
    """A strip along x whose vertices at x <= 0 are held: two columns, so the direction is too."""
    mesh, rest = shape
    sheet = fabric(bending_stiffness=stiffness, tension_stiffness=500.0, shear_stiffness=170.0)
    return cloth((mesh, rest), sheet, np.flatnonzero(rest[:, 0] < 1e-9))


def strip(tiling: str, columns: int = 27, rows: int = 4) -> Shape:
    """A strip with a column of cells behind x = 0."""
    behind = LENGTH / (columns - 2)
    size = (columns, rows, LENGTH + behind, WIDTH)
    if tiling == "quads":
        mesh, rest = grid_mesh(*size)
    elif tiling == "jittered":
        mesh, rest = jittered_sheet(*size)
        # Straight columns where it is clamped.
        rest[:, 0] = np.where(
            np.arange(len(rest)) % columns == 1, behind, np.maximum(rest[:, 0], 0.0)
        )
    else:
        mesh, rest = triangle_grid(*size, diagonals=tiling)
    rest[:, 0] -= behind
    return mesh, rest


# The tolerance: the hinges on the clamp's line bend over half a cell on its far side, so the
# strip is half a cell longer, which is accounted for; what is left of that is second order,
# (dx / L)² = 2e-3 times some. The deflection of 2 % of the length is linear to 1e-3. The clamp
# keeps a piece as long as the strip is wide, a tenth of the length, flat across: it has up to
# 9/8 of the stiffness where the moment is largest, 4 * 0.1 / 9 = 4 % of the deflection at
# most. The average over two periods leaves 1e-2 of higher modes' 3 %. Together 6 % on
# lattices; on irregular meshes, whose hinges scatter, 12 %.
LATTICE, IRREGULAR = 0.06, 0.12
TILINGS = (
    ("quads", 22, LATTICE),
    ("quads", 12, LATTICE),
    ("quads", 32, LATTICE),
    ("same", 22, LATTICE),
    ("alternate", 22, LATTICE),
    ("random", 22, IRREGULAR),
    ("jittered", 22, IRREGULAR),
)


@pytest.mark.parametrize(("tiling", "columns", "tolerance"), TILINGS)
def test_small_deflection(tiling: str, columns: int, tolerance: float) -> None:
    """The tip of a clamped strip swings about rho g L⁴ / (8 B 8/9)."""
    stiffness, density = 1e-2, 0.2
    shape = strip(tiling, columns, max(3, columns // 6))
    reach = LENGTH + 0.5 * LENGTH / (columns - 2)
    gravity = 0.02 * LENGTH * 8.0 * NARROW * stiffness / (density * reach**4)
    part = clamped(shape, stiffness)
    first = 2.0 * np.pi / (3.516 * np.sqrt(NARROW * stiffness / (density * reach**4)))
    what = scene(part, gravity=np.array([0.0, 0.0, -gravity]))
    found = average(run(what, 2.0 * first, Integrator.EXPLICIT, fps=24.0))
    tip = shape[1][:, 0] > LENGTH - 1e-9
    assert -found[tip, 2].mean() == pytest.approx(0.02 * LENGTH, rel=tolerance)


def elastica(load: float, rigidity: float, extra: float, points: int = 300) -> Array:
    """Shape (points + 1, 2) of a heavy cantilever: B theta'' = -w (L - s) cos theta.

    L is LENGTH + ``extra``. theta is the downward slope, clamped at 0 and free of moment at
    the end: shooting with Runge-Kutta and bisection.
    """
    length = LENGTH + extra
    h = length / points

    def slope(s: float, y: Array) -> Array:
        return np.array([y[1], -load * (length - s) * np.cos(y[0]) / rigidity])

    def shoot(first: float) -> Array:
        result = np.empty((points + 1, 2))
        y = result[0] = np.array([0.0, first])
        for i in range(points):
            s = i * h
            k1 = slope(s, y)
            k2 = slope(s + 0.5 * h, y + 0.5 * h * k1)
            k3 = slope(s + 0.5 * h, y + 0.5 * h * k2)
            k4 = slope(s + h, y + h * k3)
            y = result[i + 1] = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return result

    low, high = 0.0, load * length**2 / rigidity
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if shoot(middle)[-1, 1] < 0.0 else (low, middle)
    theta = shoot(low)[:, 0]
    middle_theta = 0.5 * (theta[1:] + theta[:-1])
    steps = h * np.stack([np.cos(middle_theta), -np.sin(middle_theta)], axis=1)
    return np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])


@pytest.mark.parametrize("tiling", ["quads", "same"])
@pytest.mark.parametrize("length_ratio", [2.0, 3.0])
def test_large_deflection(tiling: str, length_ratio: float) -> None:
    """A strip laid into its elastica stays there; the tip hangs by more than half the length.

    ``length_ratio`` is L over the bending length (B / rho g)^(1/3). The rigidity lies between
    8/9 B and B, as the strip is more or less flat across, so it is laid in the middle, and
    swings by less than the distance to either. 1 % of L beside for the second order of dx.
    """
    shape = strip(tiling, 32, 4)
    density, g = 0.2, 9.81
    behind = LENGTH / 30.0
    stiffness = density * g * (LENGTH / length_ratio) ** 3
    soft, middle, stiff = (
        elastica(density * g, factor * stiffness, 0.5 * behind) for factor in (NARROW, 0.95, 1.0)
    )
    mesh, rest = shape
    arc = np.maximum(rest[:, 0], 0.0) + 0.5 * behind
    places = np.linspace(0.0, LENGTH + 0.5 * behind, len(middle))
    start = rest.copy()
    start[:, 0] = np.interp(arc, places, middle[:, 0]) - 0.5 * behind
    start[:, 2] = np.interp(arc, places, middle[:, 1])
    held = rest[:, 0] < 1e-9
    start[held] = rest[held]
    part = replace(clamped((mesh, rest), stiffness), positions=start)
    frames = run(scene(part), 1.5, Integrator.EXPLICIT, fps=24.0)
    tip = rest[:, 0] > LENGTH - 1e-9
    assert -middle[-1, 1] > 0.5 * LENGTH
    allowed = np.abs(stiff[-1] - soft[-1]) + 0.01 * LENGTH
    for frame in frames:
        end = frame.positions[tip][:, [0, 2]].mean(axis=0) + [0.5 * behind, 0.0]
        assert (np.abs(end - middle[-1]) < allowed).all()


def test_rolled_up_sheet_has_all_of_the_stiffness() -> None:
    """Held flat across, a sheet has B: energy per area 1/2 B kappa² on a cylinder.

    Evaluated by the model's own bending matrix on positions rolled up exactly. On a regular
    grid the second difference of a circle of 126 steps a turn differs by 1e-3.
    """
    mesh, rest = grid_mesh(21, 21)
    stiffness, kappa = 1e-3, 1.0
    model = scene(cloth((mesh, rest), fabric(bending_stiffness=stiffness))).model
    for axis in (0, 1):
        angle = kappa * rest[:, axis]
        rolled = rest.copy()
        rolled[:, axis] = np.sin(angle) / kappa
        rolled[:, 2] = (1.0 - np.cos(angle)) / kappa
        x = rolled[model.order]
        matrix = model.bending
        rows = np.repeat(np.arange(model.vertex_count), np.diff(matrix.offsets))
        product = np.zeros_like(x)
        np.add.at(product, rows, matrix.weights[:, None] * x[matrix.neighbours])
        energy = 0.5 * float((x * product).sum())
        # Of 20 cells along, the outer halves of the first and the last have no hinge.
        assert energy == pytest.approx(0.5 * stiffness * kappa**2, rel=0.06)
