# SPDX-License-Identifier: GPL-3.0-or-later
"""Handlers, and the modal operator without its window."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bpy
import pytest

from tests.blender import support


def event(kind: str, value: str = "PRESS", x: int = 10, y: int = 10) -> Any:
    return SimpleNamespace(type=kind, value=value, mouse_x=x, mouse_y=y)


class Operator:
    """Stands for the operator's instance, which only Blender can make."""

    def __init__(self) -> None:
        cls = support.ours("blender.bake_operators").TAICHI_CLOTH_OT_bake
        self.resume = False
        self.reports: list[tuple[str, str]] = []
        for name in ("session", "objects", "execute", "invoke", "modal", "cancel", "conclude"):
            setattr(self, name, getattr(cls, name).__get__(self))
        self._stop = cls._stop.__get__(self)

    def report(self, kind: set[str], message: str) -> None:
        self.reports.append((next(iter(kind)), message))


class Manager:
    """Stands for the window manager."""

    def __init__(self) -> None:
        self.timers = 0
        self.handlers = 0
        self.progress = 0
        self.windows: list[Any] = []

    def event_timer_add(self, _seconds: float, *, window: Any) -> Any:
        self.timers += 1
        return object()

    def event_timer_remove(self, _timer: Any) -> None:
        self.timers -= 1

    def modal_handler_add(self, _operator: Any) -> None:
        self.handlers += 1

    def progress_begin(self, _low: float, _high: float) -> None:
        self.progress += 1

    def progress_update(self, value: int) -> None:
        assert 0 <= value <= 1000

    def progress_end(self) -> None:
        self.progress -= 1


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A context with a window: a viewport at 0..99, another editor at 100..199."""
    areas = [
        SimpleNamespace(type=kind, x=x, y=0, width=100, height=100, regions=[])
        for kind, x in (("VIEW_3D", 0), ("OUTLINER", 100))
    ]
    manager = Manager()
    view = SimpleNamespace(screen=SimpleNamespace(areas=areas))
    manager.windows.append(view)
    operators = support.ours("blender.bake_operators")
    background = SimpleNamespace(app=SimpleNamespace(background=False), types=bpy.types)
    background.context = SimpleNamespace(window_manager=manager)
    monkeypatch.setattr(operators, "bpy", background)
    ob = bpy.context.object
    return SimpleNamespace(
        window=view, window_manager=manager, scene=bpy.context.scene, object=ob,
        selected_objects=[ob],
    )  # fmt: skip


@pytest.fixture
def slow_cloth(monkeypatch: pytest.MonkeyPatch) -> Any:
    support.fake_command(monkeypatch, 0.03)
    return support.cloth(frames=(1, 40))


def test_modal_bakes_to_the_end(
    slow_cloth: Any, window: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    support.fake_command(monkeypatch)
    operator = Operator()
    assert operator.invoke(window, event("LEFTMOUSE")) == {"RUNNING_MODAL"}
    result = {"PASS_THROUGH"}
    for _ in range(1000):
        assert operator.modal(window, event("MOUSEMOVE")) == {"PASS_THROUGH"}
        result = operator.modal(window, event("TIMER"))
        if result != {"PASS_THROUGH"}:
            break
        support.time.sleep(0.01)
    assert result == {"FINISHED"}
    assert operator.reports[-1][0] == "INFO"
    manager = window.window_manager
    assert (manager.timers, manager.progress) == (0, 0)
    assert slow_cloth.taichi_cloth_status.state == "BAKED"


@pytest.mark.parametrize("frames", [0, 2])
def test_escape_over_the_viewport_cancels(slow_cloth: Any, window: Any, frames: int) -> None:
    operator = Operator()
    operator.invoke(window, event("LEFTMOUSE"))
    session = support.ours("blender.bake").current()
    began = support.time.monotonic()
    while session.progress.done < frames:
        operator.modal(window, event("TIMER"))
        support.time.sleep(0.01)
        assert support.time.monotonic() - began < 60.0
    assert operator.modal(window, event("ESC", x=150)) == {"PASS_THROUGH"}
    assert operator.modal(window, event("ESC", "RELEASE")) == {"PASS_THROUGH"}
    assert operator.modal(window, event("ESC")) == {"RUNNING_MODAL"}
    began = support.time.monotonic()
    result = {"PASS_THROUGH"}
    while result == {"PASS_THROUGH"}:
        result = operator.modal(window, event("TIMER"))
        assert support.time.monotonic() - began < 1.2
    state = slow_cloth.taichi_cloth_status.state
    assert (result, state) == (({"FINISHED"}, "PARTIAL") if frames else ({"CANCELLED"}, "NONE"))
    assert window.window_manager.timers == 0


def test_closing_the_window_ends_the_bake(slow_cloth: Any, window: Any) -> None:
    operator = Operator()
    operator.invoke(window, event("LEFTMOUSE"))
    for _ in range(20):
        operator.modal(window, event("TIMER"))
        support.time.sleep(0.03)
    operator.cancel(window)
    assert support.ours("blender.bake").current() is None
    assert window.window_manager.timers == 0


def test_loading_a_file_under_the_modal_operator(slow_cloth: Any, window: Any) -> None:
    operator = Operator()
    operator.invoke(window, event("LEFTMOUSE"))
    operator.modal(window, event("TIMER"))
    support.new_file()
    operator.cancel(window)
    assert support.ours("blender.bake").current() is None
    assert window.window_manager.timers == 0


def test_invoke_reports_what_is_wrong(slow_cloth: Any, window: Any) -> None:
    slow_cloth.taichi_cloth.use_scene_range = False
    slow_cloth.taichi_cloth.frame_end = -5
    operator = Operator()
    assert operator.invoke(window, event("LEFTMOUSE")) == {"CANCELLED"}
    assert operator.reports[0][0] == "ERROR"
    assert window.window_manager.timers == 0


def test_a_mesh_edit_marks_only_the_object_edited() -> None:
    one, two = support.cloth(name="One"), support.cloth(name="Two")
    bpy.context.view_layer.update()
    stamp = support.ours("blender.changes").stamp
    before = stamp(one.session_uid), stamp(two.session_uid)
    one.data.vertices[0].co.z += 1.0
    one.data.update()
    bpy.context.view_layer.update()
    assert stamp(one.session_uid) != before[0]
    assert stamp(two.session_uid) == before[1]


def test_other_objects_are_left_alone() -> None:
    ob = support.grid()
    ob.color = (0.1, 0.2, 0.3, 1.0)
    support.cloth()
    bpy.context.view_layer.update()
    assert [round(c, 3) for c in ob.color] == [0.1, 0.2, 0.3, 1.0]


@pytest.mark.skipif(support.INSTALLED, reason="of a checkout")
def test_blender_that_ends_takes_its_worker_along(tmp_path: Path) -> None:
    support.cloth(frames=(1, 1000))
    support.save(tmp_path / "a.blend")
    code = (
        "import os, sys, time, bpy, taichi_cloth_addon\n"
        "from pathlib import Path\n"
        "from taichi_cloth_addon.blender import bake, process\n"
        "taichi_cloth_addon.register()\n"
        f"bpy.ops.wm.open_mainfile(filepath={str(tmp_path / 'a.blend')!r})\n"
        "process.command = lambda job, *, resume: [\n"
        f"    sys.executable, {str(support.FAKE_WORKER)!r}, str(job), '--attended']\n"
        "os.environ.update(FAKE_PACKAGE='taichi_cloth_addon', FAKE_SECONDS='0.2')\n"
        "session = bake.BakeSession(bpy.context.scene, [bpy.data.objects['Cloth']])\n"
        "session.start()\n"
        "while session.progress.done < 2:\n"
        "    session.pump(); time.sleep(0.01)\n"
        "print('pid', session._worker.pid, flush=True)\n"
        "sys.exit(0)\n"
    )
    root = Path(next(iter(support.ours().__path__))).parent
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, check=False, capture_output=True, text=True
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("pid "))
    pid = int(line.split()[1])
    deadline = support.time.monotonic() + 3.0
    while Path(f"/proc/{pid}").exists() and sys.platform == "linux":
        assert support.time.monotonic() < deadline
        support.time.sleep(0.05)
