# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo: builds scenes, bakes them with the installed extension, renders a film.

Run by `python build.py demo`, in a Blender whose profile has the extension.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from demo import look, scenes

Build = Callable[[], list[bpy.types.Object]]


def bake(name: str, build: Build, folder: Path) -> None:
    """Build a scene, save it and bake it with the operator."""
    begin = time.perf_counter()
    cloths = build()
    bpy.ops.wm.save_as_mainfile(filepath=str(folder / f"{name}.blend"), compress=True)
    scenes.select(cloths)
    result = bpy.ops.taichi_cloth.bake()
    for ob in cloths:
        status: Any = getattr(ob, "taichi_cloth_status")  # noqa: B009 (of the extension)
        if result != {"FINISHED"} or status.state != "BAKED":
            raise SystemExit(f"{name}: {ob.name} is not baked: {status.state} {status.message}")
    bpy.ops.wm.save_mainfile()
    print(f"{name}: baked in {time.perf_counter() - begin:.1f} s", flush=True)


def film(folder: Path, step: int) -> None:
    """Bake and render the film."""
    bake("demo", scenes.film, folder)
    look.render_settings()
    scene = bpy.context.scene
    assert scene is not None
    scene.render.filepath = "//frames/frame_"
    bpy.ops.wm.save_mainfile()
    frames = range(scene.frame_start, scene.frame_end + 1, step)
    begin = time.perf_counter()
    paths = look.render_frames(frames, folder / "frames")
    print(f"Rendered {len(paths)} frames in {time.perf_counter() - begin:.0f} s", flush=True)
    if not look.write_film(paths, folder / "demo.mp4", max(1, scenes.FPS // step)):
        print("This Blender writes no films; the PNG frames are the result.")


def paper(folder: Path, step: int) -> None:
    """Bake the cloths of the 2012 paper as scene files."""
    del step
    for name, build in scenes.PAPER.items():
        bake(name, build, folder)


def presets(folder: Path, step: int) -> None:
    """Bake and render one picture of all presets."""
    del step
    bake("presets", scenes.presets, folder)
    look.render_settings(1200, 500, 32)
    scene = bpy.context.scene
    assert scene is not None
    look.render_frames([scene.frame_end], folder, "presets")


PARTS = {"film": film, "paper": paper, "presets": presets}
DEFAULT = ("paper", "film")


def main(arguments: list[str]) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--scene", action="append", choices=PARTS, help="only this; repeatable")
    parser.add_argument("--step", type=int, default=1, help="render every nth frame only")
    options = parser.parse_args(arguments)
    folder = options.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    for name in options.scene or DEFAULT:
        PARTS[name](folder, options.step)
    print(f"Demo done in {time.perf_counter() - begin:.0f} s, in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
