# SPDX-License-Identifier: GPL-3.0-or-later
"""The worker on one job, and what it held: `memory_child.py '{"job": ..., "out": ...}'`."""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from benchmarks import processes  # noqa: E402
from taichi_cloth_addon import worker  # noqa: E402


def bake(options: dict[str, Any]) -> int:
    """Bake the job as the worker does; returns its exit code."""
    found: dict[str, Any] = {"frames": []}

    def load() -> worker.Engine:
        engine = worker.load_engine()
        from taichi_cloth_addon.engine import simulate

        class Solver(simulate.HybridSolver):
            """The solver, which can be asked when it is ready."""

            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments)
                solvers.append(self)

        solvers: list[Solver] = []
        simulate.HybridSolver = Solver  # type: ignore[misc]

        def build_model(*arguments: Any, **words: Any) -> Any:
            begin = time.perf_counter()
            model = engine.build_model(*arguments, **words)
            found["build"] = time.perf_counter() - begin
            found["build_peak"] = processes.peak_memory()
            return model

        def frames(*arguments: Any, **words: Any) -> Iterator[Any]:
            begin = time.perf_counter()
            for frame in engine.simulate(*arguments, **words):
                found["frames"].append(time.perf_counter() - begin)
                # While the generator waits, it holds all that it holds.
                if frame.index == 1:
                    from tests.footprint import held_bytes

                    held = held_bytes(*solvers)
                    found["host"], found["device"] = held
                    found["iterations"] = frame.report.iterations
                yield frame
                begin = time.perf_counter()

        return replace(engine, build_model=build_model, simulate=frames)

    code = worker.main([options["job"]], load)
    found["peak"] = processes.peak_memory()
    Path(options["out"]).write_text(json.dumps(found), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(bake(json.loads(sys.argv[-1])))
