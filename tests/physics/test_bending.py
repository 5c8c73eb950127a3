# SPDX-License-Identifier: GPL-3.0-or-later
"""Bending of sheets and of clamped strips under their own weight, small and large.

bending_stiffness B is the moment per width and curvature. On quads and on right triangles the
hinges make an isotropic plate with Poisson's ratio 0: a strip does not curve across when it is
bent along, and has B at any width.
"""

from dataclasses import replace

import numpy as np
import pytest

from taichi_cloth_addon.engine.model import ClothModel, ClothPart, build_model
from taichi_cloth_addon.engine.solver import Integrator
from tests.physics.scenes import Array, cloth, fabric, in_caller_order, run, scene
from tests.shapes import Shape, grid_mesh, jittered_sheet, triangle_grid

LENGTH, WIDTH = 0.5, 0.05


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


def bending_form(model: ClothModel) -> Array:
    """The dense bending matrix."""
    result = np.zeros((model.vertex_count, model.vertex_count))
    rows = np.repeat(np.arange(model.vertex_count), np.diff(model.bending.offsets))
    result[rows, model.bending.neighbours] = model.bending.weights
    return result


@pytest.mark.parametrize(
    "shape",
    [grid_mesh(21, 21), triangle_grid(21, 21), triangle_grid(21, 21, diagonals="random")],
    ids=["quads", "same", "random"],
)
def test_plate(shape: Shape) -> None:
    """Curvatures (1, 0, 0), (0, 1, 0) and twist 1 cost 1/2 (B, B, 2 B) per area, nothing mixed.

    Twist is measured in every cell; hinges lie on the 19 inner of 20 + 1 lines, so that of the
    area 19/20 counts for bending.
    """
    mesh, rest = shape
    model = build_model([cloth((mesh, rest), fabric(bending_stiffness=1.0))])
    x, y = rest[model.order, 0], rest[model.order, 1]
    fields = np.stack([0.5 * x**2, 0.5 * y**2, x * y])
    found = fields @ bending_form(model) @ fields.T
    np.testing.assert_allclose(found, np.diag([0.95, 0.95, 2.0]), atol=1e-6)


# The hinges on the clamp's line bend over half a cell on its far side, so the strip is half a
# cell longer, which is accounted for; what is left is of second order, (dx / L)² / 2 = 1.3e-3
# for 20 cells. On irregular meshes the vertices between the hinges give way until moments
# balance, which softens by about the squared scatter of the hinges, here (0.4)²: 25 %.
TILINGS = (
    ("quads", 12, 0.01),
    ("quads", 22, 0.005),
    ("quads", 62, 0.005),
    ("same", 22, 0.005),
    ("alternate", 22, 0.005),
    ("random", 22, 0.005),
    ("jittered", 22, 0.25),
    ("jittered", 42, 0.25),
)


@pytest.mark.parametrize(("tiling", "columns", "tolerance"), TILINGS)
def test_small_deflection_at_rest(tiling: str, columns: int, tolerance: float) -> None:
    """The tip of a clamped strip sinks by rho g L⁴ / (8 B): the linear system, solved at once."""
    stiffness, density, gravity = 1e-2, 0.2, 1.0
    shape = strip(tiling, columns, max(3, columns // 6))
    model = build_model([clamped(shape, stiffness)])
    free = ~model.fixed
    sunk = np.zeros(model.vertex_count)
    form = bending_form(model)[np.ix_(free, free)]
    sunk[free] = np.linalg.solve(form, model.mass[free] * gravity)
    reach = LENGTH + 0.5 * LENGTH / (columns - 2)
    tip = shape[1][:, 0] > LENGTH - 1e-9
    wanted = density * gravity * reach**4 / (8.0 * stiffness)
    assert in_caller_order(model, sunk)[tip].mean() == pytest.approx(wanted, rel=tolerance)


@pytest.mark.parametrize("integrator", [Integrator.EXPLICIT, Integrator.IMPLICIT])
def test_small_deflection_swings(integrator: Integrator) -> None:
    """Let go, the tip swings about rho g L⁴ / (8 B) with omega = 3.516 sqrt(B / (rho L⁴)).

    u(t) = s (1 - cos omega t) up to higher modes, which hold 3 % of s at the tip: 5 % of s.
    Backward Euler damps it by 1/2 omega h a radian, 1/2 * 2 pi / 120 * pi = 8 % until it
    turns: 12 %. The load is so small (0.05 m/s²) that a solver which cannot tell the energies
    of a step apart leaves the strip where it is.
    """
    stiffness, density = 1e-2, 0.2
    shape = strip("quads", 14, 3)
    reach = LENGTH + 0.5 * LENGTH / 12.0
    wanted = 0.02 * LENGTH
    gravity = wanted * 8.0 * stiffness / (density * reach**4)
    omega = 3.516 * np.sqrt(stiffness / (density * reach**4))
    what = scene(clamped(shape, stiffness), gravity=np.array([0.0, 0.0, -gravity]))
    fps = 20.0 * omega / (2.0 * np.pi)  # 20 frames a period
    explicit = integrator is Integrator.EXPLICIT
    frames = run(what, (20.0 if explicit else 11.0) / fps, integrator, fps=fps, substeps=6)
    tip = shape[1][:, 0] > LENGTH - 1e-9
    sunk = np.array([-frame.positions[tip, 2].mean() for frame in frames])
    theory = wanted * (1.0 - np.cos(2.0 * np.pi * np.arange(len(sunk)) / 20.0))
    np.testing.assert_allclose(sunk, theory, atol=(0.05 if explicit else 0.12) * wanted)


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

    ``length_ratio`` is L over the bending length (B / rho g)^(1/3). A part e of the forces
    left unbalanced moves the tip by some e L; 1 % of L is allowed, for the second order of
    dx / L = 1/30 and the stretch of rho g L / Y = 0.2 %.
    """
    shape = strip(tiling, 32, 4)
    density, g = 0.2, 9.81
    behind = LENGTH / 30.0
    stiffness = density * g * (LENGTH / length_ratio) ** 3
    middle = elastica(density * g, stiffness, 0.5 * behind)
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
    for frame in frames:
        end = frame.positions[tip][:, [0, 2]].mean(axis=0) + np.array([0.5 * behind, 0.0])
        np.testing.assert_allclose(end, middle[-1], atol=0.01 * LENGTH)


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
        energy = 0.5 * float((x * (bending_form(model) @ x)).sum())
        # Of 20 cells along, the outer halves of the first and the last have no hinge.
        assert energy == pytest.approx(0.95 * 0.5 * stiffness * kappa**2, rel=2e-3)
