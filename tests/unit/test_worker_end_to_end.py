# SPDX-License-Identifier: GPL-3.0-or-later
"""The real worker on real jobs, with Taichi on the CPU."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taichi_cloth_addon.cache import pc2, sidecar
from taichi_cloth_addon.cache.files import BakeFiles
from taichi_cloth_addon.cache.job import Job
from taichi_cloth_addon.engine.material import Fabric
from taichi_cloth_addon.engine.model import ClothPart
from tests.cache.jobs import make_job, make_part, write_all

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


def worker(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "taichi_cloth_addon.worker", str(folder), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        encoding="utf-8",
    )


def run(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """Run to the end; returns the events."""
    process = worker(folder, *arguments)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    return [json.loads(line) for line in out.splitlines()]


def job_of(cache: Path, kernel_cache: str, *parts: ClothPart, end: int) -> Job:
    cache.mkdir()
    return replace(make_job(cache, *parts, end=end), kernel_cache=kernel_cache)


def test_free_fall(tmp_path: Path, kernel_cache: str) -> None:
    part = replace(make_part(8, "Sheet", pins=()), fabric=Fabric(air_drag=0.0))
    part = replace(part, positions=part.rest)
    job = job_of(tmp_path / "布", kernel_cache, part, end=13)
    events = run(write_all(job, tmp_path / "布"))
    assert [e["frame"] for e in events if e["event"] == "frame"] == list(range(1, 14))
    assert events[-1] == {"event": "end", "state": "done", "frame_last": 13, "message": ""}
    # Kernels may be in the cache already.
    assert {"compiling", "loading the solver"} & {e.get("phase") for e in events}
    files = BakeFiles(Path(job.cloths[0].pc2))
    frames = pc2.read_frames(files.pc2)
    assert frames.shape == (13, 64, 3)
    seconds = np.arange(13) / 24.0
    drop = part.rest[:, 2].mean() - frames[:, :, 2].mean(axis=1)
    np.testing.assert_allclose(drop, 0.5 * 9.81 * seconds**2, rtol=0.05, atol=2e-3)
    np.testing.assert_allclose(frames[:, :, :2] - frames[:1, :, :2], 0.0, atol=1e-4)
    assert sidecar.read(files.sidecar).complete


def test_cancel_and_resume_equal_the_uninterrupted_bake(tmp_path: Path, kernel_cache: str) -> None:
    parts = (make_part(24, "Flag", pins=(0, 23)), make_part(6, "Ribbon", pins=(0,)))
    whole = job_of(tmp_path / "whole", kernel_cache, *parts, end=30)
    run(write_all(whole, tmp_path / "whole"))
    job = job_of(tmp_path / "cut", kernel_cache, *parts, end=30)
    folder = write_all(job, tmp_path / "cut")
    process = worker(folder, "--attended")
    assert process.stdin is not None
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("frame") == 5:
            break
    process.stdin.write("cancel\n")
    process.stdin.flush()
    began = time.perf_counter()
    end = json.loads(process.stdout.readlines()[-1])
    assert time.perf_counter() - began < 2.0
    process.communicate(timeout=30)
    assert process.returncode == 3
    assert end["state"] == "cancelled"
    assert 5 <= end["frame_last"] < 30
    for cloth in job.cloths:
        assert pc2.read_header(cloth.pc2).count == end["frame_last"]
    events = run(folder, "--resume")
    frames = [e["frame"] for e in events if e["event"] == "frame"]
    assert frames == list(range(end["frame_last"] + 1, 31))
    for one, other in zip(whole.cloths, job.cloths, strict=True):
        assert Path(one.pc2).read_bytes() == Path(other.pc2).read_bytes()
