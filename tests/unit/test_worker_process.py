# SPDX-License-Identifier: GPL-3.0-or-later
"""The worker as a process: usage, streams, cancelling by stdin; with an engine of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from taichi_cloth_addon.cache import pc2
from tests.cache.jobs import make_job, write_all

ROOT = Path(__file__).resolve().parents[2]
LAST = 500

# Prints where nothing else may appear, in Python and in C.
FAKE = """
import ctypes, os, sys
from taichi_cloth_addon import worker
from tests.unit.fake_engine import FakeEngine

def talk(index):
    print("python talks")
    os.write(1, b"c talks\\n")

engine = FakeEngine(step_seconds=0.01, on_frame=talk)
sys.exit(worker.main(sys.argv[1:], engine.load))
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@contextmanager
def fake_worker(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", FAKE, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
        encoding="utf-8",
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], event: str) -> list[dict[str, Any]]:
    assert process.stdout is not None
    events = []
    for line in process.stdout:
        events.append(json.loads(line))
        if events[-1]["event"] == event:
            return events
    raise AssertionError(f"no {event} in {events}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_all(make_job(tmp_path, end=LAST), tmp_path)


def module(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "taichi_cloth_addon.worker", *arguments],
        capture_output=True,
        env=environment(),
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_wrong_usage() -> None:
    for arguments in ((), ("a", "b"), ("--what", "a")):
        run = module(*arguments)
        assert run.returncode == 2
        assert run.stdout == ""
        assert "usage: worker" in run.stderr


def test_no_job(tmp_path: Path) -> None:
    run = module(str(tmp_path / "布.job"))
    assert run.returncode == 1
    (line,) = run.stdout.splitlines()
    event = json.loads(line)
    assert event["state"] == "failed"
    assert "布.job" in event["message"]


def ask(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("what?\ncancel\n")
    process.stdin.flush()


def leave(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None


def interrupt(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)


ways = [ask, leave]
if os.name != "nt":
    ways.append(interrupt)


@pytest.mark.parametrize("way", ways)
def test_cancel(folder: Path, way: Any) -> None:
    with fake_worker(str(folder), "--attended") as process:
        read_until(process, "frame")  # the first one is not simulated
        read_until(process, "frame")
        began = time.perf_counter()
        way(process)
        end = read_until(process, "end")[-1]
        assert time.perf_counter() - began < 0.3
        out, err = process.communicate(timeout=5)
        assert out == ""
        assert "python talks" in err
        assert "c talks" in err
        assert process.returncode == 3, err
    assert end["state"] == "cancelled"
    assert pc2.read_header(folder.with_name("a0.pc2")).count == end["frame_last"]


def test_unattended_does_not_care_for_stdin(tmp_path: Path) -> None:
    folder = write_all(make_job(tmp_path, end=5), tmp_path)
    with fake_worker(str(folder)) as process:
        leave(process)
        assert read_until(process, "end")[-1]["state"] == "done"
        assert process.wait(5) == 0


def test_a_kill_and_a_resume(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for cache in (whole, killed):
        cache.mkdir()
        write_all(make_job(cache, end=20), cache)
    with fake_worker(str(whole / "a0.job")) as process:
        read_until(process, "end")
    with fake_worker(str(killed / "a0.job")) as process:
        read_until(process, "frame")
        time.sleep(0.05)
        process.kill()
        process.wait()
    with fake_worker(str(killed / "a0.job"), "--resume") as process:
        assert read_until(process, "end")[-1]["state"] == "done"
    assert (killed / "a0.pc2").read_bytes() == (whole / "a0.pc2").read_bytes()
