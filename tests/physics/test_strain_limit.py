# SPDX-License-Identifier: GPL-3.0-or-later
"""The strain limit: kept to rounding at the end of every frame, and no brake on the cloth."""

from dataclasses import replace

import numpy as np
import pytest

from taichi_cloth_addon.engine.solver import Integrator, Quality
from taichi_cloth_addon.engine.springs import SpringKind
from tests.physics.scenes import Array, Scene, cloth, fabric, frame_inputs, run, sample, scene
from tests.shapes import Shape, grid_mesh, jittered_sheet, sphere_mesh

SOFT = fabric(tension_stiffness=300.0, shear_stiffness=30.0, bending_stiffness=1e-5)


def strains(what: Scene, seconds: float, quality: Quality) -> tuple[list[float], Array, list[str]]:
    """Worst strain of an edge after each frame, last positions, and the integrators."""
    network = what.model.network
    edges = network.kind == SpringKind.STRUCTURAL
    i, j = network.vertices[edges].T
    found, used = [], []
    for frame in run(what, seconds, Integrator.AUTO, quality=quality)[1:]:
        x = frame.state.positions.astype(np.float64)
        length = np.linalg.norm(x[j] - x[i], axis=1)
        found.append(float((length / network.rest_length[edges]).max() - 1.0))
        used.append(frame.report.integrator.value)  # type: ignore[union-attr]
    return found, frame.positions, used


@pytest.mark.parametrize("quality", list(Quality))
@pytest.mark.parametrize(
    ("shape", "pins"),
    [
        (grid_mesh(20, 20), [380, 399]),
        (jittered_sheet(16, 16), [0]),
        (sphere_mesh(16, 10, 0.3), [0]),
    ],
)
def test_no_edge_is_longer(shape: Shape, pins: list[int], quality: Quality) -> None:
    """1 % at every frame, where the free cloth stretches by many per cent."""
    free = cloth(shape, SOFT, pins)
    worst, _, _ = strains(scene(free), 0.6, quality)
    assert max(worst) > 0.03
    held, _, used = strains(scene(replace(free, strain_limit=0.01)), 0.6, quality)
    # The engine's positions are float32: 1e-7 of the size over an edge of a tenth of it.
    assert max(held) <= 0.01 + 1e-5
    assert set(used) == {"IMPLICIT"}


def test_limited_cloth_falls_as_fast() -> None:
    """The mean drop changes by less than the stretch that is taken away and 2 %."""
    part = cloth(grid_mesh(20, 20), fabric(tension_stiffness=1000.0), [380, 399])
    drops = []
    for limit in (0.0, 0.02):
        _, last, _ = strains(scene(replace(part, strain_limit=limit)), 0.5, Quality.FINAL)
        drops.append(float(-last[:, 2].mean()))
    assert drops[1] == pytest.approx(drops[0], rel=0.03)


def test_pins_that_pull_it_apart_are_told() -> None:
    """No limit can be kept then; the cloth follows its pins, and the report says why."""
    part = replace(cloth(grid_mesh(12, 12), SOFT, [0, 11, 132, 143]), strain_limit=0.01)
    what = scene(part)
    targets = part.positions[part.pin_vertices].copy()
    targets[:2, 1] -= 0.3
    pulled = Scene(what.model, frame_inputs([part], sample([part], targets=targets)))
    frames = run(pulled, 0.25, Integrator.IMPLICIT)
    report = frames[-1].report
    assert report is not None
    assert any("strain limit" in warning for warning in report.warnings)
    assert np.isfinite(frames[-1].positions).all()
    np.testing.assert_allclose(frames[-1].positions[part.pin_vertices], targets, atol=1e-5)


def test_only_its_own_cloth_is_limited() -> None:
    """Another cloth of the same bake stretches as before."""
    mesh, rest = grid_mesh(12, 12)
    one = replace(cloth((mesh, rest), SOFT, [132, 143]), strain_limit=0.01)
    two = cloth((mesh, rest + np.array([3.0, 0.0, 0.0])), SOFT, [132, 143])
    what = scene(one, two)
    network = what.model.network
    edges = network.kind == SpringKind.STRUCTURAL
    x = run(what, 0.4, Integrator.AUTO)[-1].state.positions.astype(np.float64)
    i, j = network.vertices[edges].T
    strain = np.linalg.norm(x[j] - x[i], axis=1) / network.rest_length[edges] - 1.0
    first = network.vertices[edges][:, 0] < what.model.slices[0].stop
    assert strain[first].max() <= 0.01 + 1e-5
    assert strain[~first].max() > 0.02
