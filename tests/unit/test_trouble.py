# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said about a cloth that is stretched too far or blew up, with the real solver."""

from dataclasses import replace

import numpy as np
import pytest

from taichi_cloth_addon.engine.inputs import FieldShape, FrameInputs, WindField
from taichi_cloth_addon.engine.material import Fabric
from taichi_cloth_addon.engine.simulate import Frame, SimulationError, simulate
from taichi_cloth_addon.engine.solver import Integrator, SolverOptions
from tests.physics.scenes import Scene, cloth, frame_inputs, moving, sample, scene
from tests.shapes import grid_mesh

pytestmark = pytest.mark.usefixtures("taichi_cpu")

SHEET = grid_mesh(12, 12)
EDGE = list(range(132, 144))
CORNERS = [132, 143]
COTTON = Fabric()
# Damping holds much together.
LIVELY = Fabric(tension_damping=0.01, shear_damping=0.01)
SOFT = replace(LIVELY, tension_stiffness=2.0, shear_stiffness=0.2, density=1.0)


def flag(fabric: Fabric = COTTON, pins: list[int] = EDGE, **world: np.ndarray) -> Scene:
    return scene(replace(cloth(SHEET, fabric, pins), name="Flag"), **world)


def frames(what: Scene, *inputs: FrameInputs, options: SolverOptions | None = None) -> list[Frame]:
    options = options or SolverOptions(Integrator.EXPLICIT)
    return list(simulate(what.model, inputs, options, 1.0 / 24.0, first_frame=1001))


def told(what: Scene, *inputs: FrameInputs) -> set[str]:
    """All that is said about stretching."""
    found = frames(what, *inputs)
    reports = [frame.report for frame in found if frame.report is not None]
    assert [bool(r.warnings) for r in reports] == [r.worst_strain > 0.5 for r in reports]
    return {text for report in reports for text in report.warnings}


def shifted(what: Scene, offset: np.ndarray, stretch: float = 1.0) -> FrameInputs:
    """A frame with the pins elsewhere."""
    part = what.model.parts[0]
    targets = part.rest[part.pin_vertices] * np.array([stretch, 1.0, 1.0]) + offset
    return frame_inputs(what.model.parts, sample(what.model.parts, targets=targets))


def test_ordinary_scenes_say_nothing() -> None:
    """Among them a flag in a strong wind, and pins that walk 2 m/s."""
    windy = flag(wind=np.array([1.0, 0.0, 10.0]))
    assert told(windy, *[windy.inputs] * 8) == set()
    still = flag(pins=CORNERS)
    walk = [shifted(still, np.array([0.0, 0.0, 2.0 / 24.0 * i])) for i in range(8)]
    assert told(still, *walk) == set()


def test_wind_that_blows_a_cloth_up() -> None:
    what = flag(LIVELY, wind=np.array([0.0, 300.0, 1000.0]))
    with pytest.raises(SimulationError) as error:
        frames(what, *[what.inputs] * 5)
    assert str(error.value) == (
        'Frame 1002: "Flag" blew up: the wind is too strong for it (1\N{NO-BREAK SPACE}044 m/s). '
        "Lower its Velocity or Gusts, or raise its Density and Tension"
    )


def test_wind_that_stretches_a_cloth() -> None:
    what = flag(pins=CORNERS, wind=np.array([0.0, 20.0, 60.0]))
    for text in told(what, *[what.inputs] * 5):
        assert text.startswith('"Flag" is stretched ')
        assert "the wind is too strong for it (63.2 m/s)" in text


def test_gusts_count_as_wind() -> None:
    """A wind of 10 m/s, which alone is no trouble, in gusts of eight times that."""
    steady = flag(pins=CORNERS, wind=np.array([0.0, 3.0, 10.0]))
    assert told(steady, *[steady.inputs] * 4) == set()
    texts = told(steady, *[replace(steady.inputs, gusts=np.array([8.0]))] * 4)
    speeds = [float(text.split("for it (")[1].split(" m/s")[0]) for text in texts]
    assert max(speeds) > 40.0


def test_force_fields_that_stretch_a_cloth() -> None:
    what = flag(pins=CORNERS)
    part = replace(what.model.parts[0], use_fields=True)
    what = scene(part)
    field = WindField(np.zeros(3), np.array([0.0, 0.0, 1.0]), 80.0, FieldShape.PLANE)
    inputs = frame_inputs([part], sample([part], fields=(field,)))
    texts = told(what, *[inputs] * 4)
    assert texts
    for text in texts:
        assert "the wind of the force fields is too strong for it (80 m/s)" in text
        assert "Lower their Strength" in text


def test_pins_that_jump() -> None:
    what = flag(LIVELY)
    far = shifted(what, np.array([0.0, 0.0, 8.0]))
    (text,) = told(what, *[what.inputs] * 3, *[far] * 3)
    assert "its pins move at 192 m/s, 8 m in a frame. Slow their animation down" in text
    assert "by 86 %" in text or "times its length" in text


def test_pins_that_go_apart() -> None:
    what = flag(pins=CORNERS)
    apart = [shifted(what, np.zeros(3), 1.0 + 0.1 * i) for i in range(21)]
    texts = told(what, *apart)
    assert texts
    for text in texts:
        assert "times as far apart as at the first frame" in text
    # Not a sentence for each frame, but another one when it is twice as bad.
    assert 1 < len(texts) < 5


def test_a_cloth_too_heavy_for_its_fabric() -> None:
    what = flag(SOFT, CORNERS)
    texts = told(what, *[what.inputs] * 12)
    assert texts
    for text in texts:
        assert "too heavy for so soft a fabric" in text


def test_a_gravity_in_other_units() -> None:
    what = flag(pins=CORNERS, gravity=np.array([0.0, 0.0, -9810.0]))
    for text in told(what, *[what.inputs] * 4):
        assert "gravity is 9\N{NO-BREAK SPACE}810 m/s²" in text


def test_the_stretched_one_of_two_is_named() -> None:
    rest = SHEET[1] + np.array([3.0, 0.0, 0.0])
    one = replace(cloth(SHEET, COTTON, CORNERS), name="Curtain")
    two = replace(cloth((SHEET[0], rest), SOFT, CORNERS), name="Net")
    what = scene(one, two)
    texts = told(what, *[what.inputs] * 12)
    assert texts
    assert all(text.startswith('"Net" is stretched ') for text in texts)


@pytest.mark.parametrize(
    ("fabric", "text"),
    [
        (
            Fabric(tension_stiffness=1e6),
            "its Stiffness Tension is very high (1\N{NO-BREAK SPACE}000\N{NO-BREAK SPACE}000 N/m)",
        ),
        (Fabric(bending_damping=1.0), "its Damping Bending is very high"),
        (Fabric(density=0.001), "it is very light (0.001 kg/m²). Raise its Density"),
        (COTTON, "lower its Tension, or let what moves it go more slowly"),
    ],
)
def test_a_fabric_that_blows_up(fabric: Fabric, text: str) -> None:
    """The state is spoilt by hand: the solver copes with these fabrics."""
    what = flag(fabric)
    rest = what.model.world_positions(what.model.first_state())
    velocities = np.zeros_like(rest)
    velocities[7] = np.nan
    start = moving(what.model, rest, velocities)
    options = SolverOptions(Integrator.IMPLICIT, 7)
    with pytest.raises(SimulationError) as error:
        list(simulate(what.model, [what.inputs] * 3, options, 1.0 / 24.0, start=start))
    assert str(error.value).startswith(f'Frame 1: "Flag" blew up: {text}')
    assert "set Substeps to 0 (now 7)" in str(error.value)
