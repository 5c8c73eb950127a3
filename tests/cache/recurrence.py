# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the solver: a motion that only goes on right from the exact state."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from taichi_cloth_addon.cache.job import Job, clear_state, write_state
from taichi_cloth_addon.cache.recorder import Recorder
from taichi_cloth_addon.cache.resume import plan_resume
from taichi_cloth_addon.cache.sidecar import FrameStatistics
from taichi_cloth_addon.engine.model import ClothState
from tests.cache.jobs import make_sidecar


def advance(state: ClothState) -> None:
    state.velocities = np.cos(state.positions * np.float32(3.1) + state.velocities)
    state.positions = np.sin(state.positions * np.float32(2.7) + state.velocities)
    state.time += 1.0 / 24.0


def first_state(positions: npt.NDArray[np.float64]) -> ClothState:
    start = positions.astype(np.float32)
    return ClothState(start, np.zeros_like(start))


def bake(
    folder: Path,
    job: Job,
    *,
    resume: bool = False,
    stop_after: int | None = None,
    before_frame: Callable[[int], None] = lambda _: None,
) -> None:
    """Write the bake of a job of one cloth as the worker does.

    Args:
        folder: of the job.
        job: of one cloth.
        resume: go on from the checkpoint.
        stop_after: close the files after this frame, as a cancelled bake does.
        before_frame: called before each frame.
    """
    cloth = job.cloths[0]
    count = cloth.part.mesh.vertex_count
    head = make_sidecar(job.frame_start, job.frame_end, count)
    plan = plan_resume(folder, job) if resume else None
    if plan is None:
        clear_state(folder)
        state, first = first_state(cloth.part.positions), job.frame_start
        recorder = Recorder.begin(cloth.pc2, head)
    else:
        state, first = plan.state, plan.frame + 1
        recorder = Recorder.resume(plan.files[0], head, first - job.frame_start)
    for frame in range(first, job.frame_end + 1):
        before_frame(frame)
        if frame > job.frame_start:
            advance(state)
        recorder.append(state.positions.astype(np.float64), np.eye(4), FrameStatistics(frame, 0.25))
        write_state(folder, frame, state)
        recorder.publish([f"Warning {frame % 3}."])
        if frame == stop_after:
            recorder.close()
            return
    recorder.finish(cloth.pc2)
