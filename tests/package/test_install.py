# SPDX-License-Identifier: GPL-3.0-or-later
"""The zip in a clean Blender: installs, bakes, and leaves nothing behind.

One Blender goes through scenario.py; the tests look at what it wrote down.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RUNNER = Path(__file__).resolve().parents[2] / "tools" / "bpy_script.py"
SCENARIO = Path(__file__).with_name("scenario.py")
OPERATORS = {"add", "remove", "bake", "resume", "delete_bake", "to_shape_keys", "check_mesh"}
LEFT = ("classes", "operators", "properties", "handlers", "draw functions", "commands", "timers")


@pytest.fixture(scope="module")
def facts(zip_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("package ä")
    result = folder / "result.json"
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "TAICHI_CLOTH_TEST_CACHE", "TAICHI_CLOTH_PACKAGE")
    }
    environment["BLENDER_USER_RESOURCES"] = str(folder / "profile")
    (folder / "profile").mkdir()
    done = subprocess.run(
        [sys.executable, str(RUNNER), str(SCENARIO), str(zip_file), str(result)],
        check=False,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        timeout=240,
    )
    print(done.stdout)
    if not result.exists():
        pytest.fail(f"Blender ended with {done.returncode}:\n{done.stdout[-4000:]}")
    facts: dict[str, Any] = json.loads(result.read_text("utf-8"))
    if "error" in facts:
        pytest.fail(f"{facts['error']}\n{done.stdout[-4000:]}")
    facts["exit status"] = done.returncode
    facts["output"] = done.stdout
    return facts


def test_blender_leaves_normally(facts: dict[str, Any]) -> None:
    assert facts["exit status"] == 0
    assert "Traceback" not in facts["output"]


@pytest.mark.parametrize("moment", ["enabled", "enabled again"])
def test_everything_is_there(facts: dict[str, Any], moment: str) -> None:
    assert set(facts[moment]["operators"]) >= OPERATORS
    properties = facts[moment]["properties"]
    assert {"Object.taichi_cloth", "Object.taichi_cloth_status", "Scene.taichi_cloth"} <= set(
        properties
    )
    assert any(name.startswith("Panel") for name in new(facts, moment, "classes"))
    assert facts[moment]["commands"] == ["taichi_cloth"]


def new(facts: dict[str, Any], moment: str, kind: str) -> list[str]:
    """What is registered at a moment and was not before the zip was installed."""
    return sorted(set(facts[moment][kind]) - set(facts["before"][kind]))


def test_enabling_twice_gives_the_same(facts: dict[str, Any]) -> None:
    assert facts["enabled again"] == facts["enabled"]


@pytest.mark.parametrize("kind", LEFT)
@pytest.mark.parametrize("moment", ["disabled", "disabled again"])
def test_nothing_stays_registered(facts: dict[str, Any], moment: str, kind: str) -> None:
    assert new(facts, moment, kind) == []
    assert len(facts[moment][kind]) == len(facts["before"][kind])


@pytest.mark.parametrize("which", ["first bake", "second bake"])
def test_bakes(facts: dict[str, Any], which: str) -> None:
    bake = facts[which]
    assert bake["result"] == ["FINISHED"]
    assert bake["state"] == "BAKED", bake["message"]
    assert bake["range"] == [1, 5]
    assert bake["modifiers"] == ["MESH_CACHE"]
    assert len(bake["caches"]) == 1
    assert bake["highest_first"] == pytest.approx(0, abs=1e-6)
    assert -0.5 < bake["lowest_last"] < -0.01


@pytest.mark.parametrize("which", ["first bake", "second bake"])
def test_taichi_stays_out_of_blender(facts: dict[str, Any], which: str) -> None:
    assert not facts[which]["taichi_in_blender"]
    assert facts[which]["children"] == []


def test_nothing_is_written_beside_the_code(facts: dict[str, Any]) -> None:
    assert facts["files after the bake"] == facts["files installed"]


def test_uninstalling_removes_the_files(facts: dict[str, Any]) -> None:
    assert facts["left after uninstalling"] == []
