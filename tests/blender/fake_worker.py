# SPDX-License-Identifier: GPL-3.0-or-later
"""The worker process with a stand-in for the solver: quick, and fails when it is told to.

Environment: FAKE_PACKAGE the package's name; FAKE_SECONDS that a frame takes; FAKE_FAIL_AT a
frame index whose simulation fails; FAKE_DIE_AT one where the process dies; FAKE_STUBBORN set,
it does not leave when asked to.
"""

import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

PACKAGE = os.environ["FAKE_PACKAGE"]
worker = importlib.import_module(f"{PACKAGE}.worker")
solver = importlib.import_module(f"{PACKAGE}.engine.solver")
REPORT = solver.StepReport(solver.Integrator.EXPLICIT, 1, 0, 0.0, 0.0, 1.0)
model_types = importlib.import_module(f"{PACKAGE}.engine.model")

SECONDS = float(os.environ.get("FAKE_SECONDS") or 0.0)
FAIL_AT = int(os.environ.get("FAKE_FAIL_AT") or -1)
DIE_AT = int(os.environ.get("FAKE_DIE_AT") or -1)
STUBBORN = bool(os.environ.get("FAKE_STUBBORN"))


class CancelledError(Exception):
    pass


class BrokenError(Exception):
    pass


def start(*_arguments: Any) -> Any:
    return SimpleNamespace(description="Fake (1 thread)", messages=("Fake message",))


def build_model(parts: list[Any], on_phase: Callable[[str], None]) -> Any:
    on_phase("building")
    counts = [part.mesh.vertex_count for part in parts]
    ends = np.cumsum(counts)
    pins = [part.pin_vertices + end - n for part, n, end in zip(parts, counts, ends, strict=True)]
    return SimpleNamespace(
        positions=np.concatenate([part.positions for part in parts]),
        slices=tuple(slice(end - n, end) for n, end in zip(counts, ends, strict=True)),
        pin_vertices=np.concatenate(pins),
        warnings=(),
    )


def simulate(
    model: Any,
    inputs: Iterator[Any],
    _options: Any,
    frame_duration: float,
    *,
    start: Any = None,
    cancelled: Callable[[], bool],
    on_phase: Callable[[str], None],
    first_frame: int,
) -> Iterator[Any]:
    """Free vertices fall, pinned ones follow their targets; depends on the state alone."""
    state = start
    index = 0 if state is None else round(state.time / frame_duration)
    for frame, block in enumerate(inputs, index):
        if state is None:
            positions = model.positions.astype(np.float32)
            state = model_types.ClothState(positions, np.zeros_like(positions))
        elif frame == index and start is not None:
            continue
        else:
            on_phase("simulating")
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                if cancelled() and not STUBBORN:
                    raise CancelledError
                time.sleep(0.005)
            if frame == FAIL_AT:
                raise BrokenError("The fake solver broke on purpose.")
            if frame == DIE_AT:
                print("about to die", file=sys.stderr, flush=True)
                os.abort()
            sample = block.samples[-1]
            state.velocities += (sample.gravity * frame_duration).astype(np.float32)
            state.positions += state.velocities * np.float32(frame_duration)
            state.positions[model.pin_vertices] = sample.pin_targets
            state.time += frame_duration
        if cancelled() and not STUBBORN:
            raise CancelledError
        positions = state.positions.astype(np.float64)
        report = REPORT if frame else None
        yield SimpleNamespace(index=frame, positions=positions, state=state, report=report)


def load() -> Any:
    return worker.Engine(
        start=start,
        build_model=build_model,
        simulate=simulate,
        cancelled=CancelledError,
        known_errors=(BrokenError,),
    )


if __name__ == "__main__":
    sys.exit(worker.main(load=load))
