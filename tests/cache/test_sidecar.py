# SPDX-License-Identifier: GPL-3.0-or-later
"""The sidecar: the same answer while a bake runs and after it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from taichi_cloth_addon.cache import sidecar
from taichi_cloth_addon.cache.sidecar import FrameStatistics, SidecarError, StatisticsLog
from taichi_cloth_addon.cache.storage import CacheError
from taichi_cloth_addon.engine.solver import Integrator, StepReport
from tests.cache.jobs import make_sidecar

REPORT = StepReport(Integrator.SOR, 12, 345, 1e-7, 0.0123, 0.5, ("Too stiff.",))
ENTRIES = tuple(FrameStatistics.of(frame, 1 / 3, REPORT) for frame in range(1, 6))


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "布.json"
    known = replace(
        make_sidecar(), frame_last=5, complete=True, warnings=("Слишком",), statistics=ENTRIES
    )
    sidecar.write(path, known)
    assert sidecar.read(path) == known
    content = json.loads(path.read_text("utf-8"))
    assert content["object_name"] == "Ткань"
    assert content["statistics"][0]["iterations"] == 345


def test_a_running_bake_reads_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with StatisticsLog(sidecar.log_path(path), ENTRIES[:2]) as log:
        for entry in ENTRIES[2:]:
            log.append(entry)
            known = replace(make_sidecar(), frame_last=entry.frame)
            sidecar.write_running(path, known)
            read = sidecar.read(path)
            assert read == replace(known, statistics=ENTRIES[: entry.frame])
    assert "statistics" not in json.loads(path.read_text("utf-8"))


def test_a_line_cut_off_by_a_kill_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with StatisticsLog(path) as log:
        for entry in ENTRIES:
            log.append(entry)
    data = path.read_bytes()
    for cut in range(1, 40):
        path.write_bytes(data[:-cut])
        assert sidecar.read_log(path) == ENTRIES[:4]


def test_numbers_that_json_does_not_know(tmp_path: Path) -> None:
    report = replace(REPORT, residual=float("nan"), worst_strain=float("inf"))
    entry = FrameStatistics.of(3, 0.5, report)
    assert entry.residual is None
    assert entry.worst_strain is None
    with StatisticsLog(tmp_path / "a.jsonl") as log:
        log.append(entry)
    assert sidecar.read_log(tmp_path / "a.jsonl") == (entry,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "damaged"),
        ('{"version": 9}', "has version 9"),
        ('{"version": 1}', "is damaged"),
        ('{"version": 1, "warnings": [], "frame_first": 1.5}', "is damaged"),
    ],
)
def test_damage_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(CacheError, match=message) as error:
        sidecar.read(path)
    assert str(path) in str(error.value)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(SidecarError, match=r"is missing. Bake again"):
        sidecar.read(tmp_path / "a.json")
