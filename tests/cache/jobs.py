# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs for tests of cache and worker."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from taichi_cloth_addon.cache.job import (
    VERSION,
    FrameBlock,
    Job,
    JobCloth,
    job_folder,
    write_frame,
    write_job,
)
from taichi_cloth_addon.cache.sidecar import Sidecar
from taichi_cloth_addon.engine.inputs import FrameInputs, Sample
from taichi_cloth_addon.engine.material import Fabric
from taichi_cloth_addon.engine.mesh import Mesh
from taichi_cloth_addon.engine.model import ClothPart
from taichi_cloth_addon.engine.solver import Device, SolverOptions
from tests.shapes import grid_mesh

Array = npt.NDArray[np.float64]

GRAVITY = np.array([0.0, 0.0, -9.81])


def make_part(size: int = 3, name: str = "Ткань", pins: tuple[int, ...] = (0, 2)) -> ClothPart:
    mesh, positions = grid_mesh(size, size)
    return ClothPart(
        name=name,
        mesh=mesh,
        rest=positions,
        positions=positions + np.array([0.1, 0.2, 1.0 / 3.0]),
        fabric=Fabric(density=0.1, tension_stiffness=1234.5),
        pin_vertices=np.array(pins, np.int32),
        pin_weights=np.linspace(1.0, 0.5, len(pins)),
        pin_stiffness=321.0,
        use_fields=False,
        strain_limit=0.02,
    )


def make_job(
    cache: Path, *parts: ClothPart, start: int = 1, end: int = 6, fps: float = 24.0
) -> Job:
    parts = parts or (make_part(),)
    return Job(
        version=VERSION,
        fps=fps,
        frame_start=start,
        frame_end=end,
        options=SolverOptions(),
        device=Device.CPU,
        kernel_cache="",
        settings_hash="settings",
        cloths=tuple(
            JobCloth(part, f"a{index}", str(cache / f"a{index}.pc2"), f"topology {index}")
            for index, part in enumerate(parts)
        ),
    )


def make_block(job: Job, frame: int, samples: int = 1) -> FrameBlock:
    """Pins stay where they are; the objects are at the origin."""
    targets = np.concatenate([c.part.positions[c.part.pin_vertices] for c in job.cloths])
    count = len(job.cloths)
    sample = Sample(GRAVITY, np.zeros((count, 3)), targets)
    inputs = FrameInputs(
        (sample,) * samples, tuple(c.part.fabric for c in job.cloths), np.zeros(count)
    )
    return FrameBlock(frame, inputs, np.tile(np.eye(4), (count, 1, 1)))


def write_all(job: Job, cache: Path, *, last: int | None = None) -> Path:
    """Write a job with the inputs of its frames up to ``last``."""
    folder = job_folder(cache, job.cloths[0].uid)
    write_job(folder, job)
    for frame in range(job.frame_start, (job.frame_end if last is None else last) + 1):
        write_frame(folder, make_block(job, frame))
    return folder


def make_sidecar(first: int = 1, end: int = 6, vertices: int = 9) -> Sidecar:
    return Sidecar(
        extension_version="1.2.3",
        uid="a0",
        object_name="Ткань",
        topology_hash="topology 0",
        settings_hash="settings",
        frame_first=first,
        frame_last=None,
        frame_end_wanted=end,
        fps=30 / 1.001,
        vertex_count=vertices,
        device="CPU",
    )


def with_mesh(part: ClothPart, **changes: object) -> ClothPart:
    """The part with other mesh fields."""
    values = {**vars(part.mesh), **changes}
    return replace(part, mesh=Mesh(**values))
