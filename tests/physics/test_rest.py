# SPDX-License-Identifier: GPL-3.0-or-later
"""Hanging cloth comes to rest, and nothing is said of one that does."""

import numpy as np
import pytest

from taichi_cloth_addon.engine.material import PRESETS, Fabric, Preset
from taichi_cloth_addon.engine.solver import Integrator, Quality
from tests.physics.scenes import ALL, Scene, cloth, run, scene
from tests.shapes import grid_mesh

SIDE = 21
CORNERS = [SIDE * (SIDE - 1), SIDE * SIDE - 1]
TOP = list(range(SIDE * (SIDE - 1), SIDE * SIDE))
BOTTOM = list(range(SIDE))
# 1 m tall in the plane of x and y.
DOWN = np.array([0.0, -9.81, 0.0])
# What turning an object by a quarter leaves of float32: enough for a plane to buckle.
TILT = -4.37e-8


def hanging(pins: list[int], fabric: Fabric, tilt: float = 0.0) -> Scene:
    mesh, rest = grid_mesh(SIDE, SIDE)
    rest[:, 2] += tilt * rest[:, 1]
    return scene(cloth((mesh, rest), fabric, pins), gravity=DOWN)


def trembling(
    what: Scene, seconds: float, integrator: Integrator = Integrator.AUTO
) -> tuple[float, float]:
    """Largest second difference of a vertex's path (m) in the first and in the last half second."""
    frames = run(what, seconds, integrator)
    paths = np.array([frame.positions for frame in frames])
    size = np.abs(np.diff(paths, n=2, axis=0)).max(axis=(1, 2))
    return float(size[:12].max()), float(size[-12:].max())


@pytest.mark.parametrize("integrator", ALL)
def test_held_by_two_corners(integrator: Integrator) -> None:
    """Of the shock at the start, 1 cm a frame, less than 0.2 mm is left after 5 s.

    With a tenth of the damping explicit steps tremble by 1 cm for half a minute.
    """
    first, last = trembling(hanging(CORNERS, Fabric()), 5.0, integrator)
    assert first > 5e-3
    assert last < 2e-4


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.identifier)
def test_every_preset(preset: Preset) -> None:
    """Held by its upper edge it moves by less than 20 µm a frame after 4 s."""
    assert trembling(hanging(TOP, preset.fabric), 4.0)[1] < 2e-5


@pytest.mark.parametrize("quality", Quality)
@pytest.mark.parametrize("pins", [CORNERS, TOP[:10], BOTTOM], ids=["corners", "half", "bottom"])
def test_no_alarm(pins: list[int], quality: Quality) -> None:
    """Cloth that buckles, swings and comes to rest is not called unsolved."""
    frames = run(hanging(pins, Fabric(), TILT), 4.0, Integrator.IMPLICIT, quality=quality)
    assert not any(f.report.warnings for f in frames if f.report is not None)


def test_cloth_of_a_millimetre_is_an_alarm() -> None:
    """Float32 does not hold so light a cloth of so much stiffness: it stands, and that is said."""
    mesh, rest = grid_mesh(17, 17)
    rest *= 3e-4
    (canvas,) = (preset.fabric for preset in PRESETS if preset.identifier == "CANVAS")
    frames = run(scene(cloth((mesh, rest), canvas, [272, 288])), 0.25, Integrator.IMPLICIT)
    assert all("could not be solved" in f.report.warnings[0] for f in frames[2:] if f.report)
