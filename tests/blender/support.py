# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests on real Blender share: the package under test, and small scenes."""

import importlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import numpy as np

PACKAGE = os.environ.get("TAICHI_CLOTH_PACKAGE") or "taichi_cloth_addon"
INSTALLED = PACKAGE.startswith("bl_ext.")
FAKE_WORKER = Path(__file__).with_name("fake_worker.py")


def ours(name: str = "") -> Any:
    """A module of the package under test, such as ``blender.bake``."""
    return importlib.import_module(f"{PACKAGE}.{name}" if name else PACKAGE)


def new_file() -> None:
    """An empty file with factory settings; an installed extension stays enabled."""
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)


def grid(side: int = 8, size: float = 1.0, name: str = "Cloth", pinned: bool = True) -> Any:
    """A grid of side x side vertices, active and selected, pinned along the side of largest y."""
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=side - 1, y_subdivisions=side - 1, size=size)
    ob = bpy.context.object
    ob.name = name
    if pinned:
        group = ob.vertex_groups.new(name="Pins")
        edge = 0.49 * size
        group.add([v.index for v in ob.data.vertices if v.co.y > edge], 1.0, "REPLACE")
        ob.taichi_cloth.pin_group = group.name
    return ob


def cloth(side: int = 8, frames: tuple[int, int] = (1, 6), **options: Any) -> Any:
    """A grid that is a cloth, with a scene of these frames."""
    ob = grid(side, **options)
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = frames
    bpy.ops.taichi_cloth.add()
    return ob


def select(*objects: Any) -> None:
    """Select these, the first one active."""
    for ob in bpy.context.view_layer.objects:
        ob.select_set(ob in objects)
    bpy.context.view_layer.objects.active = objects[0] if objects else None


def evaluated(ob: Any, frame: int, subframe: float = 0.0) -> Any:
    """(V, 3) evaluated positions in world space."""
    bpy.context.scene.frame_set(frame, subframe=subframe)
    seen = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
    positions = np.empty(3 * len(seen.data.vertices), np.float32)
    seen.data.vertices.foreach_get("co", positions)
    matrix = np.array(seen.matrix_world)
    return positions.reshape(-1, 3) @ matrix[:3, :3].T + matrix[:3, 3]


def save(path: Path) -> None:
    """Save the file under a name."""
    bpy.ops.wm.save_as_mainfile(filepath=str(path))


def pump(session: Any, until: Callable[[], bool], seconds: float = 20.0) -> None:
    """Pump a session until something holds."""
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline, f"still {session.progress}"
        assert session.running, session.summary()
        session.pump(0.02)
        time.sleep(0.005)


def finish(session: Any, seconds: float = 20.0) -> None:
    """Pump a session to its end."""
    deadline = time.monotonic() + seconds
    while session.running:
        assert time.monotonic() < deadline, f"still {session.progress}"
        session.pump(0.02)
        time.sleep(0.002)


def fake_command(monkeypatch: Any, seconds: float = 0.0, **behaviour: Any) -> None:
    """Bake with the stand-in for the solver; see fake_worker.py for what it can do."""
    process = ours("blender.process")
    module, _folder = process.worker_module()
    monkeypatch.setenv("FAKE_PACKAGE", module.rpartition(".")[0])
    monkeypatch.setenv("FAKE_SECONDS", str(seconds))
    for name in ("fail_at", "die_at", "stubborn"):
        monkeypatch.setenv(f"FAKE_{name.upper()}", str(behaviour.get(name, "")))

    def command(job_folder: Path, *, resume: bool) -> list[str]:
        line = [sys.executable, str(FAKE_WORKER), str(job_folder), "--attended"]
        return [*line, "--resume"] if resume else line

    monkeypatch.setattr(process, "command", command)
