# SPDX-License-Identifier: GPL-3.0-or-later
"""From the click to the first baked frame, and the memory of many bakes in one Blender."""

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from .children import kernel_folder, measure
from .tables import Cell, table

REPEATS = 3
BAKES = 10
SIDE = 64


def _click(folder: Path, integrator: str, *, cold: bool) -> list[float]:
    """Wall time of bakes of two frames, each with a new worker in a new Blender."""
    found = []
    for number in range(REPEATS):
        if cold:
            shutil.rmtree(kernel_folder(), ignore_errors=True)
        path = measure(
            "ours",
            folder / f"{integrator}_{cold}_{number}.npz",
            side=SIDE,
            size=1.0,
            frames=2,
            read=False,
            settings={"integrator": integrator},
        )
        with np.load(path) as results:
            found.append(float(results["seconds"]))
    return found


def report(_options: argparse.Namespace) -> str:
    """Both tables."""
    rows: list[list[Cell]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for integrator in ("AUTO", "IMPLICIT", "SOR"):
            # The cold ones leave the kernels behind that the warm ones find.
            for cold in (True, False):
                seconds = _click(folder, integrator, cold=cold)
                kind = "cold" if cold else "warm"
                rows.append([integrator, kind, median(seconds), min(seconds), max(seconds)])
        path = measure(
            "repeat",
            folder / "repeat.json",
            side=SIDE,
            size=1.0,
            frames=6,
            bakes=BAKES,
        )
        repeats = json.loads(path.read_text("utf-8"))
    text = (
        f"Sheet of {SIDE}² vertices, cotton. Time from the call of the operator until it returns "
        "after one simulated frame: a new worker process, capture, compilation, writing and "
        f"attaching included. Median of {REPEATS}; cold is with an empty kernel cache."
    )
    head = ["integrator", "kernel cache", "s, median", "s, least", "s, most"]
    memory: list[list[Cell]] = [
        [number + 1, seconds, megabytes] for number, (seconds, megabytes) in enumerate(repeats)
    ]
    return (
        f"{text}\n\n{table(head, rows)}\n\nBakes of 6 frames one after the other in one Blender:"
        f"\n\n{table(['bake', 's', 'resident memory of Blender, MB'], memory)}"
    )
