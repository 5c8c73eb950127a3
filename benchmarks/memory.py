# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory and set-up of the worker against the number of vertices."""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from taichi_cloth_addon.cache.job import (
    VERSION,
    FrameBlock,
    Job,
    JobCloth,
    job_folder,
    write_frame,
    write_job,
)
from taichi_cloth_addon.engine.mesh import topology_hash
from taichi_cloth_addon.engine.model import ClothPart
from taichi_cloth_addon.engine.solver import Device, Integrator, SolverOptions

from . import children
from .cloths import FPS, sheet
from .run import kernel_folder
from .tables import Cell, table

CHILD = Path(__file__).with_name("memory_child.py")
SIDES = (64, 256, 512, 1000)
# Simulated; the first one also compiles or loads the kernels and makes what the solver keeps.
FRAMES = 3


def write_sheet(cache: Path, side: int, kernels: str, device: str) -> Path:
    """Write the job of a sheet that hangs by two corners; returns its folder."""
    cloth = sheet(side)
    scene = cloth.scene()
    part = ClothPart(
        cloth.name,
        scene.mesh,
        scene.positions,
        scene.positions,
        scene.fabric,
        scene.pins,
        np.ones(len(scene.pins)),
    )
    job = Job(
        version=VERSION,
        fps=FPS,
        frame_start=1,
        frame_end=1 + FRAMES,
        options=SolverOptions(Integrator.IMPLICIT),
        device=Device[device],
        kernel_cache=kernels,
        settings_hash="",
        cloths=(JobCloth(part, "sheet", str(cache / "sheet.pc2"), topology_hash(scene.mesh)),),
    )
    folder = job_folder(cache, "sheet")
    write_job(folder, job)
    inputs = scene.inputs()
    for frame in range(job.frame_start, job.frame_end + 1):
        write_frame(folder, FrameBlock(frame, inputs, np.eye(4)[None]))
    return folder


def measured(side: int, kernels: str, device: str) -> dict[str, Any]:
    """What the worker took for a sheet."""
    with tempfile.TemporaryDirectory() as name:
        cache = Path(name)
        job = write_sheet(cache, side, kernels, device)
        path = children.start(CHILD, "bake", cache / "found.json", job=str(job))
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    vertices = side**2
    first, rest = found["frames"][1], mean(found["frames"][2:])
    found.update(
        side=side,
        vertices=vertices,
        frame=rest,
        setup=found["build"] + max(first - rest, 0.0),
        device_each=found["device"] / vertices,
        host_each=found["host"] / vertices,
    )
    return found


def report(options: argparse.Namespace) -> str:
    """The table; the numbers also go to memory.json."""
    kernels = kernel_folder(options.out)
    sides = options.sizes or SIDES
    # Fill the kernel cache, so that compiling is in no row.
    measured(16, kernels, options.device)
    measured(100, kernels, options.device)
    results = [measured(side, kernels, options.device) for side in sides]
    (options.out / "memory.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    rows: list[list[Cell]] = [
        [
            f"{r['side']}²",
            r["peak"],
            r["device_each"],
            r["host_each"],
            r["build"],
            r["setup"],
            r["frame"],
            r["iterations"],
        ]
        for r in results
    ]
    head = [
        "sheet",
        "peak, MB",
        "device, bytes per vertex",
        "host, bytes per vertex",
        "building the model, s",
        "set-up in all, s",
        "s per frame",
        "iterations of frame 1",
    ]
    return (
        "A quad sheet of 1 m hangs by two corners, IMPLICIT, NORMAL quality; the worker bakes "
        f"{FRAMES} frames of a job folder. Peak is the most resident memory of its process, "
        "in MB of 2^20 bytes. "
        "Bytes are those of the arrays that the solver and its model hold while they step. "
        "Set-up in all is the building of the model and what the first frame takes longer than "
        f"the {FRAMES - 1} after it, kernels loaded from their cache.\n\n{table(head, rows)}"
    )
