# SPDX-License-Identifier: GPL-3.0-or-later
"""What `bench speed` computes from positions and times, without running anything."""

import json

import numpy as np
import pytest

from benchmarks.cloths import Cloth, sheet
from benchmarks.meshes import random_sheet, refined
from benchmarks.records import (
    CLOTH,
    DYNAMICS,
    OURS,
    Record,
    growth,
    main_table,
    ratio_table,
    strip_table,
)
from benchmarks.stretch import rms, stretch
from benchmarks.variants import DEFAULT, LADDERS, VARIANTS, solver_options
from taichi_cloth_addon.engine.solver import Integrator, SolverOptions
from taichi_cloth_addon.engine.springs import SpringKind


def test_springs_of_the_sheet_are_those_of_the_text() -> None:
    model = sheet(17).scene().model()
    network = model.network
    inside = np.abs(model.rest[:, :2]).max(axis=1) < 0.5 - 1.5 / 16
    inner = inside[network.vertices].all(axis=1)
    structural = network.stiffness[inner & (network.kind == SpringKind.STRUCTURAL)]
    shear = network.stiffness[inner & (network.kind == SpringKind.SHEAR)]
    np.testing.assert_allclose(structural, 1000.0, rtol=0.01)
    np.testing.assert_allclose(shear, 100.0, rtol=0.01)
    assert model.mass.sum() == pytest.approx(0.2)
    assert model.fixed.sum() == 2


def test_blenders_network_is_uniform() -> None:
    cloth = sheet(9, uniform=True)
    model = cloth.model(cloth.scene())
    values = {kind: set(model.network.stiffness[model.network.kind == kind]) for kind in SpringKind}
    assert values[SpringKind.STRUCTURAL] == {1000.0}
    assert values[SpringKind.SHEAR] == {100.0}
    assert values[SpringKind.FLEXION] == {0.0}
    assert np.ptp(model.mass) == 0.0


def test_strip_holds_the_same_width_on_every_sheet() -> None:
    for side in (33, 65, 129):
        scene = sheet(side, pins="strip").scene()
        assert len(scene.pins) == side * ((side - 1) // 32 + 1)


def test_stretch_of_a_sheet_pulled_out() -> None:
    cloth = sheet(9)
    _, positions = cloth.shape()
    pulled = positions * [1.1, 1.0, 1.0]
    seen = stretch(cloth, np.array([positions, pulled, positions]))
    # Half the edges are stretched in one of two frames.
    assert seen.worst == pytest.approx(0.1, abs=1e-6)
    assert seen.mean == pytest.approx(0.025, abs=1e-6)
    assert seen.p99 == pytest.approx(0.1, abs=1e-6)
    assert rms(positions + np.array([0.0, 0.3, 0.4]), positions) == pytest.approx(0.5)


def test_stretch_near_the_strip_does_not_count() -> None:
    cloth = sheet(33, pins="strip")
    _, positions = cloth.shape()
    near = positions.copy()
    near[positions[:, 1] > 1.0 - 1.0 / 16.0 + 1e-9, 2] += 1.0
    assert stretch(cloth, np.array([positions, near])).worst == pytest.approx(0.0, abs=1e-6)


def test_random_sheet_is_a_sheet(tmp_path) -> None:
    pytest.importorskip("scipy")
    cloth = Cloth("random", path=str(random_sheet(400, tmp_path)))
    scene = cloth.scene()
    assert len(scene.pins) == 2
    model = scene.model()
    assert model.mass.sum() == pytest.approx(0.2)
    again = Cloth("random", path=str(random_sheet(400, tmp_path)))
    np.testing.assert_array_equal(again.shape()[1], scene.positions)


def test_refinement_keeps_the_area() -> None:
    positions = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])
    faces = np.array([[0, 1, 2], [1, 3, 2]], dtype=np.int32)
    points, triangles = refined(positions, faces, 2)
    assert (len(points), len(triangles)) == (25, 32)
    a, b, c = points[triangles].transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)[:, 2]
    np.testing.assert_allclose(normal, 1.0 / 16.0)


def _record(side: int, group: str, solver: str, cpu: float, error: float, **more) -> Record:
    return Record(
        more.pop("part", "sheet"),
        group,
        solver,
        "sheet",
        f"sheet {side}²",
        side,
        side**2,
        cpu=cpu,
        wall=cpu,
        error=error,
        **more,
    )


def test_growth_and_ratios() -> None:
    records = [_record(side, OURS, DEFAULT, 1e-3 * side**1.8, 0.03) for side in (32, 64, 128, 256)]
    records += [_record(128, OURS, "better", 50.0, 0.005)]
    records += [_record(128, CLOTH, "quality 80", 500.0, 0.01, more={"quality": 80})]
    records += [_record(128, CLOTH, "quality 20", 250.0, 0.02, more={"quality": 20})]
    (found,) = growth(records)
    # 32² is too small to count.
    assert found.vertices == (4096, 65_536)
    assert found.cpu == pytest.approx(0.9)
    rows = ratio_table(records, DEFAULT, 20).splitlines()[2:]
    assert [row.split(" | ")[4] for row in rows] == ["better", "better", DEFAULT]
    assert [row.split(" | ")[7] for row in rows][:2] == ["10", "5"]
    assert main_table(records).count("\n") == len(records) + 1


def test_strip_interpolates_on_the_cheaper_ladder() -> None:
    records = [
        _record(64, OURS, DEFAULT, 10.0, 0.0, part="strip", p99=0.01),
        _record(64, OURS, "stiff", 10.0, 0.0, part="strip", p99=0.001),
        _record(64, DYNAMICS, "10 × 1", 20.0, 0.0, part="strip", p99=0.04, more={"steps": 1}),
        _record(64, DYNAMICS, "20 × 1", 45.0, 0.0, part="strip", p99=0.0025, more={"steps": 1}),
        _record(64, DYNAMICS, "10 × 15", 35.0, 0.0, part="strip", p99=0.008, more={"steps": 15}),
    ]
    row, none = (line.split(" | ") for line in strip_table(records).splitlines()[2:])
    assert row[4] == "10 × 1 to 20 × 1"
    assert row[5:7] == ["30", "3"]
    assert none[4] == "none; 20 × 1 has 0.25%"


def test_json_has_no_infinity() -> None:
    record = Record("sheet", OURS, DEFAULT, "sheet", "sheet", worst=float("inf"))
    assert json.loads(json.dumps(record.words(), allow_nan=False))["worst"] is None


def test_variants() -> None:
    assert DEFAULT in [variant.name for variant in VARIANTS]
    for variant in VARIANTS:
        assert isinstance(solver_options(variant.settings), SolverOptions)
    explicit = solver_options({"integrator": "EXPLICIT", "substeps": 7})
    assert explicit == SolverOptions(Integrator.EXPLICIT, 7)
    # At odd counts Cloth Dynamics applies too little gravity.
    assert all(substeps % 2 == 0 for ladder in LADDERS.values() for substeps in ladder)
