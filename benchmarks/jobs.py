# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the measurements of `bench speed`: each in its own process, repeated by turns."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from . import children
from .children import MeasurementError
from .cloths import FRAMES, Cloth
from .records import Record
from .scenes import Array
from .stretch import rms, stretch

ENGINE = Path(__file__).resolve().parent.parent / "taichi_cloth_addon" / "engine"
# What the reference comes from; a change makes the kept ones void.
_SOURCES = ("*.py", "hybrid/explicit*.py", "hybrid/*_kernels.py", "hybrid/criterion.py")
# A measurement that takes longer is not repeated, s.
_LONG = 60.0


@dataclass
class Job:
    """One solver on one cloth, measured on one thread and on all.

    Attributes:
        record: what is filled in.
        cloth: for stretch.
        truth: converged positions at 0.5 s, if any.
        child: the script.
        mode: of the script.
        words: its options.
        cpu: ms per frame of each run on one thread.
        wall: ms per frame of each run on all threads.
        seconds: time of all runs.
    """

    record: Record
    cloth: Cloth
    truth: Array | None
    child: Path
    mode: str
    words: dict[str, Any]
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    seconds: float = 0.0
    failed: bool = False

    def run(self, folder: Path) -> None:
        """Measure once more."""
        if self.failed or (self.cpu and self.seconds > _LONG):
            return
        first = not self.cpu
        for alone in (True, False):
            out = folder / f"{'alone' if alone else 'all'}.npz"
            out.unlink(missing_ok=True)
            try:
                children.start(self.child, self.mode, out, alone=alone, **self.words)
            except MeasurementError as error:
                self.failed = True
                self.record.note = "failed"
                print(error, flush=True)
                return
            with np.load(out) as data:
                found = json.loads(str(data["found"]))
                if first and alone:
                    self._read(found, data["positions"])
            self.seconds += sum(found["wall"])
            times = self.cpu if alone else self.wall
            times.append(1e3 * sum(found["cpu" if alone else "wall"]) / len(found["wall"]))
        self.record.cpu, self.record.wall = median(self.cpu), median(self.wall)
        self.record.runs = len(self.cpu)

    def _read(self, found: dict[str, Any], positions: Any) -> None:
        record = self.record
        record.frames = len(found["wall"])
        record.vertices = positions.shape[1]
        record.memory = found["memory"]
        for name in ("springs", "substeps", "iterations", "setup"):
            if name in found:
                setattr(record, name, found[name])
        for name in ("residual", "explicit_share", "integrator", "device", "build"):
            if name in found:
                record.more[name] = found[name]
        record.more["frame_cpu_ms"] = [round(1e3 * value, 3) for value in found["cpu"]]
        if not np.isfinite(positions).all():
            record.note = "not finite"
            return
        seen = stretch(self.cloth, positions)
        record.worst, record.mean, record.p99 = seen.worst, seen.mean, seen.p99
        if record.frames < self.words["frames"]:
            record.note = f"{record.frames} frames only"
        if self.truth is not None and len(positions) > FRAMES:
            record.error = rms(positions[FRAMES], self.truth)


def by_turns(jobs: Sequence[Job], repeats: int, folder: Path) -> list[Record]:
    """Run all jobs, then all again; what takes long only once."""
    for number in range(repeats):
        for job in jobs:
            before = len(job.cpu)
            job.run(folder)
            if len(job.cpu) > before:
                r = job.record
                found = [] if r.error is None else [f"error {1e3 * r.error:.3g} mm"]
                found += [] if r.p99 is None else [f"p99 {r.p99:.2%}"]
                print(
                    f"  {r.mesh}, {r.group}: {r.solver}: {job.cpu[-1]:.3g} ms CPU, "
                    f"{job.wall[-1]:.3g} ms, {', '.join(found)} ({number + 1})",
                    flush=True,
                )
    return [job.record for job in jobs]


def reference(cloth: Cloth, folder: Path, kernels: str, limit: float) -> Array | None:
    """Converged positions at 0.5 s, kept between runs; None where they take too long."""
    key = hashlib.sha256()
    for pattern in _SOURCES:
        for source in sorted(ENGINE.glob(pattern)):
            key.update(source.read_bytes())
    words = cloth.words()
    if cloth.path:
        key.update(Path(words.pop("path")).read_bytes())
    key.update(json.dumps(words, sort_keys=True).encode())
    path = folder / f"{key.hexdigest()[:24]}.npz"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npz")
        children.start(
            children.ENGINE_CHILD,
            "reference",
            part,
            cloth=cloth.words(),
            kernels=kernels,
            limit=limit,
        )
        part.replace(path)
    with np.load(path) as data:
        found = json.loads(str(data["found"]))
        kind = "Blender's network" if cloth.uniform else "engine's network"
        if len(data["positions"]) <= FRAMES:
            path.unlink()
            print(f"  {cloth.name}: no reference, it takes too long", flush=True)
            return None
        print(
            f"  {cloth.name}: reference ({kind}, {cloth.stiffness:g} N/m), {found['steps']} steps "
            f"a frame, {found['seconds']:.0f} s",
            flush=True,
        )
        return np.asarray(data["positions"][FRAMES], dtype=np.float64)
