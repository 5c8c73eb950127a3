# SPDX-License-Identifier: GPL-3.0-or-later
"""One measurement in a Blender of its own: `blender_child.py '{"mode": ..., "out": FILE, ...}'`.

Modes: "stock" steps Blender's own cloth, "ours" bakes with the extension, "repeat" bakes many
times. Results go to an .npz or .json file named by "out".
"""

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import numpy.typing as npt

PACKAGE = os.environ.get("TAICHI_CLOTH_PACKAGE", "bl_ext.user_default.taichi_cloth")
SIZE = 2.0


def cpu() -> float:
    """CPU time of this process and its finished children, s."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def resident() -> float:
    """Resident memory of this process now, MB (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def sheet(side: int, size: float = SIZE) -> bpy.types.Object:
    """The hanging sheet: level and flat, two corners in the group "pin"."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    x, y = np.meshgrid(np.linspace(0.0, size, side), np.linspace(0.0, size, side))
    points = np.stack([x.reshape(-1), y.reshape(-1), np.full(x.size, size)], axis=1)
    low = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).reshape(-1)
    quads = np.stack([low, low + 1, low + side + 1, low + side], axis=1)
    mesh = bpy.data.meshes.new("sheet")
    mesh.from_pydata(points.tolist(), [], quads.tolist())
    ob = bpy.data.objects.new("sheet", mesh)
    scene = bpy.context.scene
    assert scene is not None
    scene.collection.objects.link(ob)
    layer = bpy.context.view_layer
    assert layer is not None
    layer.objects.active = ob
    ob.select_set(True)
    group = ob.vertex_groups.new(name="pin")
    group.add([side * (side - 1), side * side - 1], 1.0, "REPLACE")
    scene.render.fps = 24
    return ob


def read(ob: bpy.types.Object) -> npt.NDArray[np.float32]:
    """Evaluated positions, local."""
    evaluated = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
    mesh: Any = evaluated.data
    result = np.empty((len(mesh.vertices), 3), dtype=np.float32)
    mesh.vertices.foreach_get("co", result.reshape(-1))
    return result


def stock(options: dict[str, Any]) -> None:
    """Step Blender's own cloth."""
    ob = sheet(options["side"])
    scene = bpy.context.scene
    assert scene is not None
    frames = options["frames"]
    scene.frame_start, scene.frame_end = 1, frames
    modifier: Any = ob.modifiers.new("Cloth", "CLOTH")
    settings = modifier.settings
    settings.quality = options["quality"]
    settings.vertex_group_mass = "pin"
    modifier.collision_settings.use_collision = False
    modifier.point_cache.frame_start, modifier.point_cache.frame_end = 1, frames
    settings.time_scale = options["time_scale"]
    if options["ideal"]:
        settings.tension_damping = settings.compression_damping = settings.shear_damping = 0.0
        settings.bending_damping = settings.air_damping = 0.0
        settings.bending_stiffness = 0.0
    scene.frame_set(1)
    positions = [read(ob)]
    wall, used = [], []
    for frame in range(2, frames + 1):
        begin, busy = time.perf_counter(), cpu()
        scene.frame_set(frame)
        positions.append(read(ob))
        wall.append(time.perf_counter() - begin)
        used.append(cpu() - busy)
    np.savez(
        options["out"],
        positions=np.array(positions),
        wall=np.array(wall),
        cpu=np.array(used),
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        mass=settings.mass,
        tension=settings.tension_stiffness,
        shear=settings.shear_stiffness,
    )


def prepare(options: dict[str, Any]) -> bpy.types.Object:
    """The sheet as a cloth of the extension."""
    import addon_utils  # importable once bpy is

    ob = sheet(options["side"], options.get("size", SIZE))
    if addon_utils.enable(PACKAGE, default_set=True) is None:
        raise SystemExit(f"{PACKAGE} cannot be enabled; run `python build.py bench`")
    bpy.ops.taichi_cloth.add()
    settings: Any = getattr(ob, "taichi_cloth")  # noqa: B009 (of the extension)
    settings.pin_group = "pin"
    settings.cache_folder = str(Path(options["out"]).with_suffix(".cache"))
    for name, value in options.get("settings", {}).items():
        setattr(settings, name, value)
    scene: Any = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, options["frames"]
    return ob


def bake() -> float:
    """Bake by the operator; s."""
    begin = time.perf_counter()
    if bpy.ops.taichi_cloth.bake() != {"FINISHED"}:
        raise SystemExit("the bake failed")
    return time.perf_counter() - begin


def ours(options: dict[str, Any]) -> None:
    """One bake by the operator, capture, simulation and writing included."""
    ob = prepare(options)
    busy = cpu()
    seconds = bake()
    used = cpu() - busy
    scene = bpy.context.scene
    assert scene is not None
    positions = []
    for frame in range(1, options["frames"] + 1) if options.get("read", True) else ():
        scene.frame_set(frame)
        positions.append(read(ob))
    sidecars = list(Path(options["out"]).with_suffix(".cache").rglob("*.json"))
    statistics = json.loads(sidecars[0].read_text("utf-8"))["statistics"]
    np.savez(
        options["out"],
        positions=np.array(positions),
        seconds=seconds,
        cpu=used,
        frame_seconds=np.array([entry["seconds"] for entry in statistics[1:]]),
        integrator=statistics[-1]["integrator"],
        substeps=statistics[-1]["substeps"],
        memory=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3,
    )


def repeat(options: dict[str, Any]) -> None:
    """Bake again and again in one Blender and note its memory."""
    prepare(options)
    found = []
    for _ in range(options["bakes"]):
        found.append([bake(), resident()])
    Path(options["out"]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    chosen = json.loads(sys.argv[-1])
    {"stock": stock, "ours": ours, "repeat": repeat}[chosen["mode"]](chosen)
