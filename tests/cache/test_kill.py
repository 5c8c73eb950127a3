# SPDX-License-Identifier: GPL-3.0-or-later
"""A kill at any instant leaves what plays, and what resumes to the uninterrupted result."""

import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from taichi_cloth_addon.cache import pc2, sidecar
from taichi_cloth_addon.cache.files import BakeFiles, Outcome, settle
from taichi_cloth_addon.cache.job import Job
from tests.cache.jobs import make_job, make_part, write_all
from tests.cache.recurrence import bake

LAST = 40
ROUNDS = 15

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")


def bake_and_kill(folder: Path, job: Job, seconds: float, *, resume: bool) -> bool:
    """Bake in a process of its own and kill it; returns whether it had finished."""
    pid = os.fork()
    if pid == 0:
        try:
            bake(folder, job, resume=resume)
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.WIFEXITED(status)


@pytest.mark.parametrize("rebake", [False, True])
def test_kills(tmp_path: Path, rebake: bool) -> None:
    cache = tmp_path / "new"
    cache.mkdir()
    part = make_part(10)
    job = make_job(cache, part, end=LAST)
    folder = write_all(job, cache)
    began = time.perf_counter()
    bake(folder, job)
    whole = time.perf_counter() - began
    files = BakeFiles(Path(job.cloths[0].pc2))
    reference = files.pc2.read_bytes()
    expected = np.array(pc2.read_frames(files.pc2))
    chance = random.Random(17)
    interrupted = 0
    for _ in range(ROUNDS):
        if not rebake:
            files.delete()
        write_all(job, cache, last=0)
        resume = False
        while not bake_and_kill(folder, job, chance.uniform(0.0, whole), resume=resume):
            interrupted += 1
            if rebake:
                # The old result plays at every moment.
                np.testing.assert_array_equal(pc2.read_frames(files.pc2), expected)
            outcome = settle(files.pc2)
            if outcome is not Outcome.NONE:
                known = sidecar.read(files.sidecar)
                header = pc2.read_header(files.pc2)
                assert header.stated_count == header.count == known.frame_last
                assert known.complete == (outcome is Outcome.COMPLETE) == (header.count == LAST)
                frames = pc2.read_frames(files.pc2)
                np.testing.assert_array_equal(frames, expected[: len(frames)])
            assert rebake <= (outcome is Outcome.COMPLETE)
            resume = True
        assert settle(files.pc2) is Outcome.COMPLETE
        assert files.pc2.read_bytes() == reference
        known = sidecar.read(files.sidecar)
        assert [entry.frame for entry in known.statistics] == list(range(1, LAST + 1))
        assert not files.part.pc2.exists()
        assert not files.part.sidecar.exists()
    assert interrupted > ROUNDS // 4
