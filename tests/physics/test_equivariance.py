# SPDX-License-Identifier: GPL-3.0-or-later
"""The result does not depend on where in the world, how turned or how numbered a cloth is."""

from dataclasses import replace

import numpy as np
import pytest

from taichi_cloth_addon.engine.mesh import Mesh
from taichi_cloth_addon.engine.solver import Integrator, Quality
from tests.physics.scenes import DOWN, Array, cloth, fabric, run, scene, solved_far
from tests.shapes import Shape, grid_mesh, triangle_grid

SHEET = fabric(
    bending_stiffness=1e-4,
    air_drag=1.0,
    tension_damping=0.1,
    shear_damping=0.1,
)
WIND = np.array([1.0, 2.0, 0.5])
INTEGRATORS = (Integrator.EXPLICIT, Integrator.IMPLICIT, Integrator.SOR)
# Rounding of 6e-8 m a step grows with the folds; over 1/4 s it stays below 1e-4 m for explicit
# steps. Implicit solves stop at another point, less than half a millimetre away.
TOLERANCE = {
    Integrator.EXPLICIT: 1e-4,
    Integrator.IMPLICIT: 5e-4,
    Integrator.SOR: 5e-4,
}


def dropped(shape: Shape, integrator: Integrator, turn: Array, offset: Array) -> Array:
    """The sheet after 1/4 s, in a world turned and moved."""
    mesh, rest = shape
    start = rest @ turn.T + offset
    part = replace(cloth((mesh, rest), SHEET, [0, 8]), rest=start, positions=start)
    what = scene(part, gravity=turn @ DOWN, wind=turn @ WIND)
    with solved_far():
        return run(what, 0.25, integrator, substeps=12, quality=Quality.FINAL)[-1].positions


def turn_about(axis: Array, angle: float) -> Array:
    """Rotation by Rodrigues' formula."""
    x, y, z = axis / np.linalg.norm(axis)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross


MOVES = {
    "turned by 90 degrees": (turn_about(np.array([0.0, 0.0, 1.0]), 0.5 * np.pi), np.zeros(3)),
    "turned anyhow": (turn_about(np.array([1.0, -2.0, 0.7]), 1.1), np.zeros(3)),
    "mirrored": (np.diag([-1.0, 1.0, 1.0]), np.zeros(3)),
    "upside down": (np.diag([1.0, 1.0, -1.0]), np.zeros(3)),
    "moved by 1000 m": (np.eye(3), np.array([1000.0, -1000.0, 1000.0])),
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("tiling", ["quads", "triangles"])
def test_moved_world(name: str, integrator: Integrator, tiling: str) -> None:
    """A turned, mirrored or moved scene gives the turned, mirrored or moved result."""
    shape = grid_mesh(9, 9) if tiling == "quads" else triangle_grid(9, 9)
    turn, offset = MOVES[name]
    plain = dropped(shape, integrator, np.eye(3), np.zeros(3))
    moved = dropped(shape, integrator, turn, offset)
    np.testing.assert_allclose((moved - offset) @ turn, plain, atol=TOLERANCE[integrator])


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_other_numbering(integrator: Integrator) -> None:
    """Vertices and faces in another order, faces begun at another corner: the same result."""
    mesh, rest = grid_mesh(9, 9)
    random = np.random.default_rng(0)
    number = random.permutation(len(rest))  # old vertex -> new
    faces = [
        np.roll(number[mesh.corners[a:b]], random.integers(4))
        for a, b in zip(mesh.offsets[:-1], mesh.offsets[1:], strict=True)
    ]
    shuffled = Mesh.from_polygons(len(rest), [faces[i] for i in random.permutation(len(faces))])
    moved = np.empty_like(rest)
    moved[number] = rest
    plain = run(scene(cloth((mesh, rest), SHEET, [0, 8])), 0.25, integrator)[-1]
    pins = number[[0, 8]]
    other = run(scene(cloth((shuffled, moved), SHEET, pins)), 0.25, integrator)[-1]
    np.testing.assert_allclose(other.positions[number], plain.positions, atol=TOLERANCE[integrator])


def test_scaled_in_its_dimensions() -> None:
    """A sheet twice as large, in a world of the same dimensionless numbers, moves alike.

    x -> 2 x, t -> sqrt(2) t, with gravity the same: Y and G per (rho g L), B per (rho g L³).
    """
    base = fabric(tension_stiffness=200.0, shear_stiffness=20.0, bending_stiffness=1e-4)
    large = fabric(tension_stiffness=400.0, shear_stiffness=40.0, bending_stiffness=8e-4)
    mesh, rest = grid_mesh(9, 9)
    small = run(scene(cloth((mesh, rest), base, [0, 8])), 0.25, Integrator.EXPLICIT)[-1]
    twice = run(
        scene(cloth((mesh, 2.0 * rest), large, [0, 8])),
        0.25 * np.sqrt(2.0),
        Integrator.EXPLICIT,
        fps=24.0 / np.sqrt(2.0),
    )[-1]
    np.testing.assert_allclose(0.5 * twice.positions, small.positions, atol=1e-4)
