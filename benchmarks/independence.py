# SPDX-License-Identifier: GPL-3.0-or-later
"""How much the result depends on what it should not depend on.

A sheet of 1 m of the default fabric starts level and flat and hangs from two corners, in air.
Its mean drop and its shape are compared over meshes, frame rates, step counts and integrators,
and with a converged solution in double precision.
"""

from dataclasses import dataclass, replace

import numpy as np

from taichi_cloth_addon.engine.material import Fabric
from taichi_cloth_addon.engine.solver import Integrator

from .runge_kutta import reference
from .scenes import Array, Scene, hanging, mean_drop
from .tables import Cell, table

SIDES = (32, 64, 128)
RATES = (24.0, 25.0, 30.0, 60.0, 30.0 / 1.001)
STIFFNESSES = (10.0, 100.0, 1000.0, 10_000.0)
TIMES = (0.5, 1.0)
COARSE = 32


@dataclass(frozen=True)
class Result:
    """Positions at 0.5 s and 1 s, between frames linear as Blender plays them."""

    scene: Scene
    at: tuple[Array, ...]

    def drops(self) -> list[float]:
        """Mean drop at each time, m."""
        return [mean_drop(self.scene, positions) for positions in self.at]

    def on(self, side: int) -> list[Array]:
        """Positions interpolated on a grid of side x side."""
        own = round(len(self.at[0]) ** 0.5)
        place = np.linspace(0.0, own - 1.0, side)
        low = np.minimum(place.astype(int), own - 2)
        share = place - low
        found = []
        for positions in self.at:
            grid = positions.reshape(own, own, 3)
            s = share[:, None, None]
            rows = (1.0 - s) * grid[low] + s * grid[low + 1]
            s = share[None, :, None]
            found.append((1.0 - s) * rows[:, low] + s * rows[:, low + 1])
        return found


def run(
    scene: Scene,
    fps: float = 24.0,
    integrator: Integrator = Integrator.AUTO,
    substeps: int = 0,
) -> tuple[Result, str]:
    """Simulate one second; returns also which integrator ran with how many steps."""
    count = int(np.ceil(TIMES[-1] * fps - 1e-6))
    wanted = [time * fps for time in TIMES]
    kept: dict[int, Array] = {}
    ran = ""
    for frame in scene.frames(count, fps, integrator, substeps):
        if any(abs(frame.index - w) < 1.0 for w in wanted):
            kept[frame.index] = frame.positions
        if frame.report is not None:
            ran = f"{frame.report.integrator.value.lower()}, {frame.report.substeps}"
    found = []
    for w in wanted:
        low = int(np.floor(w + 1e-9))
        share = w - low
        later = kept[low + 1] if share > 1e-6 else kept[low]
        found.append((1.0 - share) * kept[low] + share * later)
    return Result(scene, tuple(found)), ran


def converged(scene: Scene) -> Result:
    """Runge-Kutta in double precision at half its stable step; at 0.9 of it on the finest."""
    fraction = 0.5 if len(scene.positions) < SIDES[-1] ** 2 else 1.0
    return Result(scene, tuple(reference(scene, list(TIMES), fraction)))


def _row(name: str, ran: str, result: Result, best: Result) -> list[Cell]:
    drops, goal = result.drops(), best.drops()
    rms = [
        1e3 * float(np.sqrt(((a - b) ** 2).sum(axis=-1).mean()))
        for a, b in zip(result.on(COARSE), best.on(COARSE), strict=True)
    ]
    cells: list[Cell] = [name, ran]
    for drop, other, distance in zip(drops, goal, rms, strict=True):
        cells += [drop, f"{100.0 * (drop / other - 1.0):+.2f}", distance]
    return cells


_HEAD = (
    "varied",
    "integrator, steps per frame",
    *("drop at 0.5 s, m", "difference, %", "RMS, mm"),
    *("drop at 1 s, m", "difference, %", "RMS, mm"),
)


def _meshes(fabric: Fabric) -> str:
    fine = converged(hanging(SIDES[-1], fabric))
    rows = [_row(f"{SIDES[-1]}² converged", "Runge-Kutta", fine, fine)]
    for side in SIDES[:-1]:
        exact = converged(hanging(side, fabric))
        rows.append(_row(f"{side}² converged", "Runge-Kutta", exact, fine))
    for side in SIDES:
        result, ran = run(hanging(side, fabric))
        rows.append(_row(f"{side}²", ran, result, fine))
    return f"## Meshes\n\nAgainst {SIDES[-1]}², converged in time.\n\n{table(_HEAD, rows)}"


def _rates(fabric: Fabric, side: int) -> str:
    scene = hanging(side, fabric)
    best = converged(scene)
    rows = []
    for fps in RATES:
        result, ran = run(scene, fps)
        rows.append(_row(f"{fps:.2f} fps", ran, result, best))
    for integrator in (Integrator.EXPLICIT, Integrator.IMPLICIT, Integrator.SOR):
        result, ran = run(scene, 24.0, integrator)
        rows.append(_row(integrator.value, ran, result, best))
        doubled = 2 * int(ran.rsplit(" ", 1)[1])
        result, ran = run(scene, 24.0, integrator, doubled)
        rows.append(_row(f"{integrator.value}, twice the steps", ran, result, best))
    text = "## Frame rates, integrators and steps"
    return f"{text}\n\nAt {side}², against its converged solution.\n\n{table(_HEAD, rows)}"


def _stiffnesses(fabric: Fabric, side: int) -> str:
    rows = []
    for stiffness in STIFFNESSES:
        # A tenth at most, so that the softest sheet still has the shear of a woven one.
        shear = min(fabric.shear_stiffness, 0.1 * stiffness)
        scene = hanging(side, replace(fabric, tension_stiffness=stiffness, shear_stiffness=shear))
        best = converged(scene)
        for integrator in (Integrator.AUTO, Integrator.IMPLICIT, Integrator.SOR):
            result, ran = run(scene, 24.0, integrator)
            rows.append(_row(f"{stiffness:g} N/m, {integrator.value}", ran, result, best))
    text = "## Stiffness: nothing falls in slow motion"
    note = f"At {side}² and 24 frames per second, each against its own converged solution."
    return f"{text}\n\n{note}\n\n{table(_HEAD, rows)}"


def report() -> str:
    """All tables."""
    fabric = Fabric()
    text = (
        "A sheet of 1 m of the default fabric (cotton: "
        f"{fabric.density} kg/m², tension {fabric.tension_stiffness:g} N/m, shear "
        f"{fabric.shear_stiffness:g} N/m, bending {1e6 * fabric.bending_stiffness:g} µN·m, air "
        f"drag {fabric.air_drag:g}) starts level and flat and hangs from two corners. The drop is "
        "the area's mean; RMS is the distance of positions, on a common 32² grid. After about "
        "half a second the folds are chaotic: whatever is changed, the position of single folds "
        "changes with it, and only means compare."
    )
    parts = [_meshes(fabric), _rates(fabric, 64), _stiffnesses(fabric, COARSE)]
    return "\n\n".join([text, *parts])
