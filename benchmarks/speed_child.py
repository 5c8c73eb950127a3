# SPDX-License-Identifier: GPL-3.0-or-later
"""One measurement of the engine in a process of its own: `speed_child.py '{"mode": ...}'`.

Modes: "run" times one of our settings, "reference" makes converged positions, "triad" measures
memory, "paper" runs the methods of the 2012 paper. Results go to the file named by "out".
"""

import json
import math
import sys
import time
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks import processes  # noqa: E402
from benchmarks.cloths import FPS, FRAMES, Cloth, sheet  # noqa: E402
from benchmarks.variants import solver_options  # noqa: E402
from taichi_cloth_addon.engine import runtime  # noqa: E402
from taichi_cloth_addon.engine.hybrid import criterion  # noqa: E402
from taichi_cloth_addon.engine.hybrid.solver import HybridSolver  # noqa: E402
from taichi_cloth_addon.engine.simulate import simulate  # noqa: E402
from taichi_cloth_addon.engine.solver import (  # noqa: E402
    Integrator,
    SolverOptions,
    StepReport,
)

DURATION = 1.0 / FPS


def start(options: dict[str, Any], vertex_count: int) -> runtime.Runtime:
    """Start Taichi on one thread, or on as many as the worker takes for such a cloth."""
    threads = 1 if options.get("alone") else runtime.suitable_threads(vertex_count)
    if options.get("alone"):
        processes.one_processor()
    device = runtime.Device[options.get("device", "CPU")]
    return runtime.start(device, options["kernels"], threads)


def _timed(solver: HybridSolver, state: Any, inputs: Any) -> tuple[StepReport, float, float]:
    cpu, wall = processes.cpu_time(), time.perf_counter()
    report = solver.step(state, inputs, inputs, DURATION)
    runtime.synchronize()
    return report, time.perf_counter() - wall, processes.cpu_time() - cpu


def _warm(choices: SolverOptions, words: dict[str, Any]) -> None:
    """Compile what is not in the kernel cache yet, on a small sheet."""
    small = sheet(8, pins="corners", stiffness=words["stiffness"])
    scene = small.scene()
    model, inputs = small.model(scene), scene.inputs()
    kinds = [choices.integrator]
    if choices.integrator is Integrator.AUTO:
        # A small sheet may choose otherwise than a large one.
        kinds = [Integrator.EXPLICIT, Integrator.IMPLICIT]
    for kind in kinds:
        solver = HybridSolver(model, replace(choices, integrator=kind))
        solver.step(model.first_state(), inputs, inputs, DURATION)


def run(options: dict[str, Any]) -> None:
    """Time one of our settings, frame by frame."""
    cloth = Cloth(**options["cloth"])
    scene = cloth.scene()
    started = start(options, scene.mesh.vertex_count)
    choices = solver_options(options["settings"])
    _warm(choices, options["cloth"])
    begin = time.perf_counter()
    model, inputs = cloth.model(scene), scene.inputs()
    built = time.perf_counter() - begin
    begin = time.perf_counter()
    solver = HybridSolver(model, choices)
    # Taken twice: the first one also makes what the solver keeps.
    _timed(solver, model.first_state(), inputs)
    setup = time.perf_counter() - begin
    state = model.first_state()
    positions, wall, cpu, reports = [model.world_positions(state)], [], [], []
    for index in range(options["frames"]):
        report, seconds, busy = _timed(solver, state, inputs)
        state.time = (index + 1) * DURATION
        wall.append(seconds)
        cpu.append(busy)
        reports.append(report)
        positions.append(model.world_positions(state))
        if not np.isfinite(positions[-1]).all() or sum(wall) > options["limit"]:
            break
    steps = len(reports)
    _write(
        options,
        positions,
        wall=wall,
        cpu=cpu,
        build=built,
        setup=max(setup - wall[0], 0.0),
        springs=len(model.network.vertices),
        integrator="/".join(sorted({report.integrator.value for report in reports})),
        substeps=sum(report.substeps for report in reports) / steps,
        iterations=sum(report.iterations for report in reports) / steps,
        residual=max(report.residual for report in reports),
        explicit_share=float(np.mean([report.explicit_share for report in reports])),
        device=started.description,
    )


def reference(options: dict[str, Any]) -> None:
    """Positions by explicit steps of half the stable length; none if that takes too long."""
    cloth = Cloth(**options["cloth"])
    scene = cloth.scene()
    start(options, scene.mesh.vertex_count)
    model = cloth.model(scene)
    step = criterion.stable_step(model, model.positions)
    steps = 2 * math.ceil(DURATION / step)
    choices = SolverOptions(Integrator.EXPLICIT, steps)
    begin = time.perf_counter()
    positions = []
    for frame in simulate(model, repeat(scene.inputs(), FRAMES + 1), choices, DURATION):
        positions.append(frame.positions)
        spent = time.perf_counter() - begin
        if frame.index and spent * FRAMES / frame.index > options["limit"]:
            break
    _write(options, positions, steps=steps, seconds=time.perf_counter() - begin)


def triad(options: dict[str, Any]) -> None:
    """Memory bandwidth, and that of the solver's sweeps."""
    from benchmarks import bandwidth

    started = start(options, 1 << 30)
    rows = bandwidth.measure(options["bytes"], Cloth(**options["cloth"]))
    Path(options["out"]).write_text(json.dumps([started.description, rows]), encoding="utf-8")


def paper(options: dict[str, Any]) -> None:
    """The methods of the 2012 paper on its cloths."""
    from benchmarks import paper as comparison

    processes.one_processor()
    runtime.start(runtime.Device.CPU, options["kernels"], 1)
    rows = [row for scene in comparison.scenes() for row in comparison.measured(scene)]
    Path(options["out"]).write_text(json.dumps(rows), encoding="utf-8")


def _write(options: dict[str, Any], positions: list[npt.NDArray[Any]], **found: Any) -> None:
    found["memory"] = processes.peak_memory()
    np.savez(
        options["out"],
        positions=np.array(positions, dtype=np.float32),
        found=json.dumps(found),
    )


if __name__ == "__main__":
    chosen = json.loads(sys.argv[-1])
    {"run": run, "reference": reference, "triad": triad, "paper": paper}[chosen["mode"]](chosen)
    runtime.stop()
