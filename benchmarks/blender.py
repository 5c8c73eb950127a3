# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender's own cloth and ours on the same hanging sheet, by turns, each in its own process."""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from taichi_cloth_addon.engine import runtime
from taichi_cloth_addon.engine.material import Fabric

from .children import measure
from .runge_kutta import reference
from .scenes import Array, hanging
from .tables import Cell, table

SIZE = 2.0
# A long and a short bake: their difference is the cost of frames without that of the start.
FRAMES, SHORT = 61, 17
REPEATS = 3
FPS = 24.0
# Blender's cloth takes a frame for 1 / sqrt(1000) s whatever the frame rate says.
BLENDER_FPS = 1000.0**0.5
# Of the frame that is nearest to half a second, on each clock.
JUDGED = 12
JUDGED_BLENDER = 16
# Blender's defaults: kg per vertex, and stiffness of which 1000 / rest length is N/m.
MASS, STIFFNESS = 0.3, 15.0
DENSITY = 0.2
CONVERGED_QUALITY = 80


def matched_fabric(side: int) -> Fabric:
    """The fabric of ours that has the stiffness per mass of Blender's default cloth."""
    edge = SIZE / (side - 1)
    per_mass = 1000.0 * STIFFNESS / edge / MASS
    mass = DENSITY * edge**2
    structural = per_mass * mass
    shear = structural / 2.0**0.5
    axial = structural + shear
    return Fabric(
        density=DENSITY,
        tension_stiffness=axial - shear**2 / axial,
        shear_stiffness=shear,
        bending_stiffness=1e-7,
        tension_damping=0.0,
        shear_damping=0.0,
        bending_damping=0.0,
        air_drag=0.0,
    )


def _drop(positions: Array, first: Array) -> float:
    return float((first[:, 2] - positions[:, 2]).mean())


class _Rows:
    """Collects the rows of one size."""

    def __init__(self, side: int, folder: Path) -> None:
        self.side = side
        self.folder = folder
        self.fabric = matched_fabric(side)
        self.rows: list[list[Cell]] = []

    def stock(self, name: str, *, ideal: bool, quality: int = 5, frames: int = FRAMES) -> Path:
        """Blender's own cloth; ideal is without damping and on the right clock."""
        return measure(
            "stock",
            self.folder / f"{name}_{self.side}.npz",
            side=self.side,
            frames=frames,
            quality=quality,
            ideal=ideal,
            time_scale=BLENDER_FPS / FPS if ideal else 1.0,
        )

    def ours(self, name: str, frames: int = FRAMES) -> Path:
        """A bake by the operator."""
        return measure(
            "ours",
            self.folder / f"{name}_{self.side}.npz",
            side=self.side,
            frames=frames,
            settings=vars(self.fabric),
        )

    def add(
        self,
        name: str,
        costs: Sequence[Cell],
        positions: Array,
        truth: Array,
        first: Array,
        memory: float,
    ) -> None:
        """One row; errors are of positions at the same instant."""
        drop, goal = _drop(positions, first), _drop(truth, first)
        rms = float(np.sqrt(((positions - truth) ** 2).sum(axis=1).mean()))
        error = f"{100.0 * (drop / goal - 1.0):+.1f}"
        self.rows.append([f"{self.side}²", name, *costs, drop, goal, error, 1e3 * rms, memory])


def _size(side: int, folder: Path) -> list[list[Cell]]:
    work = _Rows(side, folder)
    stock, ideal, long, short = [], [], [], []
    work.ours("warm", 3)
    for number in range(REPEATS):
        stock.append(work.stock(f"stock{number}", ideal=False))
        long.append(work.ours(f"long{number}"))
        ideal.append(work.stock(f"ideal{number}", ideal=True))
        short.append(work.ours(f"short{number}", SHORT))
    own = work.stock("own", ideal=False, quality=CONVERGED_QUALITY, frames=JUDGED_BLENDER + 1)
    scene = hanging(side, work.fabric, SIZE)
    (truth,) = reference(scene, [JUDGED / FPS])
    truth[:, 2] += SIZE
    with np.load(own) as results:
        own_truth = results["positions"][JUDGED_BLENDER]
    for name, paths, judged, goal in (
        ("Blender, defaults", stock, JUDGED_BLENDER, own_truth),
        ("Blender, undamped, right clock", ideal, JUDGED, truth),
    ):
        runs = [np.load(path) for path in paths]
        costs: list[Cell] = [
            median(1e3 * float(run[kind][SHORT - 1 :].mean()) for run in runs)
            for kind in ("wall", "cpu")
        ]
        positions, memory = runs[0]["positions"], float(runs[0]["memory"])
        work.add(name, [*costs, None], positions[judged], goal, positions[0], memory)
    results = np.load(long[0])
    costs = []
    for kind in ("seconds", "cpu"):
        whole, part = (
            median(float(np.load(path)[kind]) for path in paths) for paths in (long, short)
        )
        costs.append(1e3 * (whole - part) / (FRAMES - SHORT))
        if kind == "seconds":
            start = part - (SHORT - 1) * (whole - part) / (FRAMES - SHORT)
    work.add(
        f"Taichi Cloth ({results['integrator']}, {results['substeps']} steps)",
        [*costs, start],
        results["positions"][JUDGED],
        truth,
        results["positions"][0],
        float(results["memory"]),
    )
    return work.rows


def report(options: argparse.Namespace) -> str:
    """The table with its conditions."""
    runtime.start(runtime.Device.CPU, str(options.out / "kernels"))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for side in options.sizes or [64]:
            rows += _size(side, Path(name))
    head = [
        "mesh",
        "solver",
        "ms per frame",
        "CPU ms per frame",
        "start, s",
        "drop at 0.5 s, m",
        "converged drop, m",
        "error of the drop, %",
        "RMS error, mm",
        "peak memory, MB",
    ]
    text = (
        f"A level sheet of {SIZE:g} m hangs from two corners; {FPS:g} frames per second; {REPEATS} "
        "runs of each by turns, every one in a process of its own; medians. The times are those "
        f"of frames {SHORT + 1} to {FRAMES}. Ours are the differences of whole bakes by the "
        f"operator of {FRAMES} and {SHORT} frames, from the click to the finished cache, so that "
        "capture and writing are included; what is left, the start of the worker and its "
        "compiled kernels, is in its own column. CPU time counts all threads and the worker. "
        "Memory is that of the worker for ours, of Blender for its own cloth.\n\n"
        f"Blender's defaults are quality 5, {MASS} kg per vertex, stiffness {STIFFNESS:g}, which "
        "measures as 1000 · stiffness / edge length in N/m. Ours has the same stiffness per mass "
        f"on a sheet of {DENSITY} kg/m². Blender's cloth takes a frame for 1/√1000 s at every "
        f"frame rate, so that its frame {JUDGED_BLENDER} is its half second; the second row sets "
        "its time scale right. Each is judged against a converged solution of its own equations: "
        f"the defaults, with their damping, against Blender at quality {CONVERGED_QUALITY}; the "
        "others, which have no damping, against Runge-Kutta in double precision at half the "
        "stable step."
    )
    return f"{text}\n\n{table(head, rows)}"
