# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: exit codes, progress lines, what is saved."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import bpy
import pytest

from tests.blender import support

pytestmark = pytest.mark.usefixtures("fake_worker")


def command(*arguments: str) -> int:
    code = support.ours("blender.cli").main(arguments)
    assert isinstance(code, int)
    return code


def test_bake_saves_the_file(tmp_path: Path, capfd: Any) -> None:
    support.cloth(frames=(1, 5), name="Ткань")
    support.save(tmp_path / "тест.blend")
    assert command("bake") == 0
    lines = capfd.readouterr().out.splitlines()
    assert any("Frame 5" in line and "5 of 5" in line for line in lines)
    assert any(line.startswith("Baked Ткань") for line in lines)
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "тест.blend"))
    assert bpy.data.objects["Ткань"].taichi_cloth_status.state == "BAKED"


def test_no_save(tmp_path: Path) -> None:
    support.cloth(frames=(1, 3))
    support.save(tmp_path / "a.blend")
    assert command("bake", "--no-save") == 0
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "a.blend"))
    assert bpy.data.objects["Cloth"].taichi_cloth_status.state == "NONE"


def test_range_is_kept(tmp_path: Path) -> None:
    ob = support.cloth(frames=(1, 50))
    support.save(tmp_path / "a.blend")
    assert command("bake", "--start", "-2", "--end", "2") == 0
    assert (ob.taichi_cloth_status.frame_first, ob.taichi_cloth_status.frame_last) == (-2, 2)
    assert ob.taichi_cloth_status.state == "BAKED"
    assert not ob.taichi_cloth.use_scene_range


def test_only_the_named_objects() -> None:
    one = support.cloth(frames=(1, 3), name="One")
    two = support.cloth(frames=(1, 3), name="Two")
    three = support.grid(name="Three")
    assert command("bake", "--object", "Two", "--object", "Three") == 0
    assert one.taichi_cloth_status.state == "NONE"
    assert two.taichi_cloth_status.state == "BAKED"
    assert three.taichi_cloth_status.state == "BAKED"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 2),
        (("fly",), 2),
        (("bake", "--object", "Nobody"), 2),
        (("bake", "--start", "soon"), 2),
        (("bake", "--resume", "--end", "3"), 2),
        (("bake", "--resume"), 1),
        (("bake", "--start", "9", "--end", "3"), 1),
        (("--help",), 0),
    ],
)
def test_exit_codes(arguments: tuple[str, ...], code: int, capfd: Any) -> None:
    support.cloth()
    assert command(*arguments) == code
    printed = capfd.readouterr()
    assert "Traceback" not in printed.err
    assert printed.err or code == 0


def test_nothing_to_bake_fails() -> None:
    support.grid()
    assert command("bake") == 1
    assert command("info") == 1


def test_failure(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    support.fake_command(monkeypatch, fail_at=2)
    support.cloth()
    assert command("bake") == 1
    assert "broke on purpose" in capfd.readouterr().err


def test_info_check_clear(tmp_path: Path, capfd: Any) -> None:
    ob = support.cloth(frames=(1, 3))
    support.save(tmp_path / "a.blend")
    assert command("info") == 0
    assert "Cloth: NONE" in capfd.readouterr().out
    assert command("check") == 0
    assert command("bake") == 0
    capfd.readouterr()
    assert command("info") == 0
    assert "Cloth: BAKED" in capfd.readouterr().out
    assert command("clear") == 0
    assert ob.taichi_cloth_status.state == "NONE"
    assert not list(tmp_path.rglob("*.pc2"))
    ob.taichi_cloth.pin_group = "Gone"
    assert command("check") == 1
    assert "ERROR" in capfd.readouterr().out


def test_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    ob = support.cloth(frames=(1, 30))
    support.fake_command(monkeypatch, 0.03)
    session = support.ours("blender.bake").BakeSession(bpy.context.scene, [ob])
    session.start()
    support.pump(session, lambda: session.progress.done >= 3)
    session.cancel()
    support.finish(session)
    support.fake_command(monkeypatch)
    assert command("bake", "--resume") == 0
    assert ob.taichi_cloth_status.state == "BAKED"


@pytest.mark.skipif(support.INSTALLED, reason="of a checkout")
def test_in_a_blender_of_its_own(tmp_path: Path) -> None:
    """The exit code and the lines come out of a process that ends with the bake."""
    support.cloth(frames=(1, 3))
    support.save(tmp_path / "a.blend")
    code = (
        "import os, sys, bpy, taichi_cloth_addon\n"
        "from taichi_cloth_addon.blender import cli\n"
        "taichi_cloth_addon.register()\n"
        f"bpy.ops.wm.open_mainfile(filepath={str(tmp_path / 'a.blend')!r})\n"
        "code = cli.main(['check'])\n"
        "taichi_cloth_addon.unregister()\n"
        "sys.stdout.flush()\n"
        "os._exit(code)\n"  # The bpy module of Blender 4.2 crashes in its own exit.
    )
    root = Path(next(iter(support.ours().__path__))).parent
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" in done.stdout or "No problems" in done.stdout
