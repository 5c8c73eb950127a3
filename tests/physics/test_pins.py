# SPDX-License-Identifier: GPL-3.0-or-later
"""Pins: exact where they are hard, springs where they are soft, moving between samples."""

import numpy as np
import pytest

from taichi_cloth_addon.engine.hybrid.air_kernels import AIR_DENSITY, SKIN_FRICTION
from taichi_cloth_addon.engine.inputs import FrameInputs
from taichi_cloth_addon.engine.model import build_model
from taichi_cloth_addon.engine.simulate import Frame, simulate
from taichi_cloth_addon.engine.solver import Integrator, SolverOptions
from tests.physics.scenes import (
    ALL,
    NOTHING,
    Array,
    G,
    cloth,
    fabric,
    frame_inputs,
    run,
    sample,
    scene,
    settle,
)
from tests.shapes import grid_mesh, jittered_sheet

FPS = 24.0


def path(start: Array, t: float) -> Array:
    """Targets that circle: 0.1 m, 1.5 turns a second."""
    angle = 3.0 * np.pi * t
    return start + 0.1 * np.array([np.cos(angle) - 1.0, 0.0, np.sin(angle)])


def circling(frames: int, samples: int, fps: float, integrator: Integrator) -> list[Frame]:
    """A sheet whose pins circle, with some samples a frame."""
    mesh, rest = grid_mesh(8, 8)
    sheet = fabric(bending_stiffness=1e-4, tension_damping=0.1, shear_damping=0.1)
    pins = np.array([0, 3, 7])
    part = cloth((mesh, rest), sheet, pins)
    inputs: list[FrameInputs] = [frame_inputs([part], sample([part]))]
    for frame in range(1, frames + 1):
        times = [(frame - 1 + (s + 1) / samples) / fps for s in range(samples)]
        inputs.append(
            frame_inputs([part], *(sample([part], targets=path(rest[pins], t)) for t in times))
        )
    options = SolverOptions(integrator)
    return list(simulate(build_model([part]), inputs, options, 1.0 / fps))


@pytest.mark.parametrize("integrator", ALL)
@pytest.mark.parametrize("samples", [1, 3])
def test_hard_pins_are_exact_at_every_frame(integrator: Integrator, samples: int) -> None:
    """To float32: half an ulp of 1 m and one of the last substep's product, 1e-6 m."""
    frames = circling(12, samples, FPS, integrator)
    rest = grid_mesh(8, 8)[1]
    for frame in frames:
        wanted = path(rest[[0, 3, 7]], frame.index / FPS)
        np.testing.assert_allclose(frame.positions[[0, 3, 7]], wanted, atol=1e-6)


@pytest.mark.parametrize("integrator", [Integrator.EXPLICIT, Integrator.IMPLICIT])
def test_samples_between_frames_count(integrator: Integrator) -> None:
    """Four samples a frame are as good as four times the frames, and unlike one a frame.

    The same inputs, interpolated alike. Verlet takes some more steps in one of the two: its
    second-order error at the quickest waves, 1 mm; implicit steps are shorter (1/96 s holds
    3 of 1/288 s, 1/24 s 10 of 1/240 s): h/2 of velocities up to 1 m/s, 2 mm.
    """
    fine = circling(40, 1, 4.0 * FPS, integrator)[::4]
    sampled = circling(10, 4, FPS, integrator)
    coarse = circling(10, 1, FPS, integrator)
    tolerance = 1e-3 if integrator is Integrator.EXPLICIT else 4e-3
    for one, two in zip(fine, sampled, strict=True):
        np.testing.assert_allclose(two.positions, one.positions, atol=tolerance)
    away = np.abs(sampled[-1].positions - coarse[-1].positions).max()
    assert away > 1.5 * np.abs(sampled[-1].positions - fine[-1].positions).max()


@pytest.mark.parametrize("integrator", ALL)
def test_all_hard_pins(integrator: Integrator) -> None:
    """A sheet of which every vertex is pinned goes where it is told."""
    mesh, rest = grid_mesh(4, 4)
    part = cloth((mesh, rest), pins=np.arange(16))
    what = scene(part, targets=rest + np.array([0.0, 0.0, 0.5]))
    for frame in run(what, 0.2, integrator):
        np.testing.assert_allclose(frame.positions, rest + np.array([0.0, 0.0, 0.5]), atol=1e-6)


@pytest.mark.parametrize("weight", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("shape", [grid_mesh(6, 6), jittered_sheet(6, 6)], ids=["quads", "jitter"])
def test_soft_pins_sag_by_their_stiffness(weight: float, shape: object) -> None:
    """All vertices alike: sag rho g (1 - w) / (pin_stiffness w), even at any mesh.

    0.1 %: solved by implicit steps to 1e-6 m of 1 to 20 mm.
    """
    mesh, rest = shape  # type: ignore[misc]
    part = cloth((mesh, rest), pins=np.arange(len(rest)), weights=weight, pin_stiffness=400.0)
    found = settle(scene(part), step=0.5)
    sag = 0.2 * G * (1.0 - weight) / (400.0 * weight)
    np.testing.assert_allclose(rest[:, 2] - found[:, 2], sag, rtol=2e-3, atol=2e-6)


@pytest.mark.parametrize("integrator", ALL)
def test_soft_pins_swing_about_that(integrator: Integrator) -> None:
    """Let go, the same sheet comes to rest there: damping ratio 0.3, omega = sqrt(K / rho).

    After 1 s, e^(-0.3 omega 1 s) = 1e-4 is left: 1 % for the solver's tolerance.
    """
    mesh, rest = grid_mesh(5, 5)
    part = cloth((mesh, rest), pins=np.arange(25), weights=0.5, pin_stiffness=200.0)
    last = run(scene(part), 1.0, integrator)[-1]
    np.testing.assert_allclose(rest[:, 2] - last.positions[:, 2], 0.2 * G / 200.0, rtol=0.01)


@pytest.mark.parametrize("degrees", [0.0, 30.0, 60.0, 85.0])
def test_wind_on_a_held_plate(degrees: float) -> None:
    """Softly held all over, a plate is pushed by 1/2 rho A (c_n u_n² n + c_t |u| u_t) in all.

    0.5 %: the pressure is even, so the plate stays plane and the sum is a closed form; the
    springs are read as stiffness times distance.
    """
    drag, speed = 1.3, 5.0
    mesh, rest = jittered_sheet(6, 6)
    part = cloth(
        (mesh, rest), fabric(air_drag=drag), np.arange(36), weights=0.5, pin_stiffness=1000.0
    )
    angle = np.radians(degrees)
    wind = speed * np.array([np.sin(angle), 0.0, np.cos(angle)])
    what = scene(part, gravity=NOTHING, wind=wind)
    found = settle(what, step=0.5)
    pins = what.model.pin_vertices
    moved = (found - rest)[what.model.order[pins]]
    force = (what.model.pin_stiffness[:, None] * moved).sum(axis=0)
    normal = wind * [0.0, 0.0, 1.0]
    along = wind - normal
    wanted = 0.5 * AIR_DENSITY * drag * (speed * np.cos(angle) * normal)
    wanted += 0.5 * AIR_DENSITY * drag * SKIN_FRICTION * speed * along
    np.testing.assert_allclose(force, wanted, rtol=5e-3, atol=5e-3 * np.linalg.norm(wanted))
