# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison of the 2012 paper on locally adaptive hybrid integration.

Four methods on four small cloths: explicit Runge-Kutta, semi-implicit with conjugate
gradients, hybrid with conjugate gradients, hybrid with SOR. The paper's own parameters are
not known; ours are stated with the table.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from taichi_cloth_addon.engine.hybrid import criterion
from taichi_cloth_addon.engine.hybrid.device import Couplings, DeviceModel
from taichi_cloth_addon.engine.hybrid.implicit import ImplicitStepper
from taichi_cloth_addon.engine.hybrid.linear import SuccessiveOverRelaxation
from taichi_cloth_addon.engine.hybrid.newton import NewtonSettings
from taichi_cloth_addon.engine.material import Fabric
from taichi_cloth_addon.engine.mesh import edge_table
from taichi_cloth_addon.engine.model import ClothState

from .conjugate_gradients import ConjugateGradients
from .runge_kutta import RungeKutta, reference
from .scenes import Array, Scene, flag, hanging, pendulum
from .stretch import stretch_of
from .tables import Cell, table

FPS = 24.0
# Steps of the methods with an implicit part.
STEPS_PER_FRAME = 10
FRAMES = 24
JUDGED = 12
# Soft enough that the criterion leaves a good part of the springs explicit at this step.
FABRIC = Fabric(
    density=0.15,
    tension_stiffness=300.0,
    shear_stiffness=30.0,
    bending_stiffness=1e-5,
    tension_damping=0.01,
    shear_damping=0.01,
    bending_damping=0.0,
    air_drag=0.0,
)
_SETTINGS = NewtonSettings(
    passes=1,
    tolerance=0.0,
    linear_tolerance=1e-3,
    linear_limit=2000,
    warm_start=False,
    second_order=False,
)


class SemiImplicit:
    """One linearisation a step, everything implicit or split by the criterion."""

    def __init__(self, scene: Scene, *, sor: bool, split: bool) -> None:
        """Copy the scene to the device and split its springs.

        Args:
            scene: what is simulated.
            sor: solve by SOR, otherwise by conjugate gradients.
            split: let the criterion make springs explicit.
        """
        self._scene = scene
        self._inputs = scene.inputs()
        self._model = scene.model()
        self._device = DeviceModel(self._model)
        solver = SuccessiveOverRelaxation if sor else ConjugateGradients
        self._stepper = ImplicitStepper(self._device, solver(self._device), _SETTINGS)
        self._split = split
        self._key = b""
        self._parts: tuple[Couplings, Couplings | None] = (self._device.everything, None)
        self._state = self._model.first_state()
        self.shares: list[float] = []
        self.iterations = 0

    def advance(self, duration: float) -> int:
        """Advance by one frame; returns the number of steps."""
        device, state = self._device, self._state
        device.load(state)
        if self._split:
            self._mark(state.positions.astype(np.float64), duration / STEPS_PER_FRAME)
        sample = self._inputs.samples[-1]
        device.set_pins(sample, sample, duration, exact=False)
        device.set_wind(self._inputs, sample, sample, state.time, duration)
        work = self._stepper.advance(sample, duration, STEPS_PER_FRAME, *self._parts, lambda: None)
        device.store(state)
        state.time += duration
        self.iterations += work.iterations
        return work.steps

    def _mark(self, positions: Array, h: float) -> None:
        marking = criterion.mark(self._model, positions, h)
        self.shares.append(float(marking.spring.mean()))
        key = np.packbits(marking.spring).tobytes() + np.packbits(marking.hinge).tobytes()
        if key != self._key:
            self._key = key
            self._parts = (
                self._device.couplings(~marking.spring, ~marking.hinge),
                self._device.couplings(marking.spring, marking.hinge),
            )

    def positions(self) -> Array:
        """World positions (V, 3), m."""
        return self._model.world_positions(
            ClothState(self._state.positions, self._state.velocities)
        )


Method = RungeKutta | SemiImplicit
METHODS: dict[str, Callable[[Scene], Method]] = {
    "explicit Runge-Kutta": RungeKutta,
    "semi-implicit, CG": lambda scene: SemiImplicit(scene, sor=False, split=False),
    "hybrid, CG": lambda scene: SemiImplicit(scene, sor=False, split=True),
    "hybrid, SOR": lambda scene: SemiImplicit(scene, sor=True, split=True),
}


@dataclass
class Run:
    """One method on one scene, advanced by turns with the others.

    Attributes:
        method: what is timed.
        wall: s of each frame.
        cpu: s of each frame.
        steps: of all frames.
        seen: positions of the frames.
    """

    method: Method
    wall: list[float]
    cpu: list[float]
    steps: int = 0
    seen: list[Array] = field(default_factory=list)

    def frame(self) -> None:
        """Advance and time one frame."""
        cpu, wall = time.process_time(), time.perf_counter()
        self.steps += self.method.advance(1.0 / FPS)
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)
        self.seen.append(self.method.positions())


def scenes() -> list[Scene]:
    """The paper's four cloths."""
    windy = Fabric(**{**vars(FABRIC), "air_drag": 1.0})
    return [
        pendulum(10, FABRIC),
        hanging(15, FABRIC),
        hanging(32, FABRIC),
        flag(16, 12, windy),
    ]


def measured(scene: Scene) -> list[dict[str, Any]]:
    """Every method on one scene, as fields of records.Record; shares in "more"."""
    truth = next(reference(scene, [JUDGED / FPS]))
    # Compiles what is not in the cache yet.
    for make in METHODS.values():
        make(scene).advance(1.0 / FPS)
    runs = {name: Run(make(scene), [], []) for name, make in METHODS.items()}
    for _ in range(FRAMES):
        for run in runs.values():
            run.frame()
    springs = len(scene.model().network.vertices)
    edges = edge_table(scene.mesh).vertices
    first, second = scene.positions[edges].transpose(1, 0, 2)
    lengths = np.linalg.norm(second - first, axis=1)
    rows = []
    for name, run in runs.items():
        share, iterations = "–", None
        if isinstance(run.method, SemiImplicit):
            shares = run.method.shares
            share = f"{min(shares):.0%}–{max(shares):.0%}" if shares else "0 %"
            iterations = run.method.iterations / FRAMES
        error = float(np.sqrt(((run.seen[JUDGED - 1] - truth) ** 2).sum(axis=1).mean()))
        rows.append(
            {
                "solver": name,
                "family": scene.name,
                "mesh": scene.name,
                "vertices": len(scene.positions),
                "springs": springs,
                "substeps": run.steps // FRAMES,
                "iterations": iterations,
                **vars(stretch_of(edges, lengths, run.seen)),
                "error": error,
                "cpu": 1e3 * median(run.cpu),
                "wall": 1e3 * median(run.wall),
                "frames": FRAMES,
                "runs": 1,
                "more": {"explicit springs": share},
            }
        )
    return rows


def _compare(scene: Scene) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for row in measured(scene):
        steps = row["substeps"]
        iterations = None if row["iterations"] is None else row["iterations"] / steps
        share = row["more"]["explicit springs"]
        wall, error = row["wall"], 1e3 * row["error"]
        rows.append(
            [
                *(row["mesh"], row["springs"], row["solver"], share, steps, iterations),
                *(wall / steps, wall, row["cpu"], error),
            ]
        )
    return rows


def report() -> str:
    """The table with its conditions."""
    rows = [row for scene in scenes() for row in _compare(scene)]
    head = [
        "cloth",
        "springs",
        "method",
        "explicit springs",
        "steps per frame",
        "iterations per step",
        "ms per step",
        "ms per frame",
        "CPU ms per frame",
        "RMS error at 0.5 s, mm",
    ]
    text = (
        f"Sheets of 1 m (flag 1.5 m × 1.1 m in a wind of 6 m/s, 30° off its plane), "
        f"{FABRIC.density} kg/m², tension {FABRIC.tension_stiffness:g} N/m, shear "
        f"{FABRIC.shear_stiffness:g} N/m, flexion at most 1 % of the tension, bending "
        f"{FABRIC.bending_stiffness:g} N·m, damping {FABRIC.tension_damping:g} N·s/m, no drag but "
        f"for the flag, {FPS:g} frames per second, {FRAMES} frames, medians. Runge-Kutta runs at "
        f"0.9 of its stable step, the others at {STEPS_PER_FRAME} steps per frame with one "
        "linearisation per step, solved to a relative residual of 1e-3. All methods take turns "
        "frame by frame in one process, on one thread as the worker does with small cloths. The "
        "criterion decides at every frame; the error is against double precision at half the "
        "stable step."
    )
    return f"{text}\n\n{table(head, rows)}"
