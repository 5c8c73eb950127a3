# SPDX-License-Identifier: GPL-3.0-or-later
"""What all tests share."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.bpy_script import leave

if TYPE_CHECKING:
    from taichi_cloth_addon.engine.runtime import Runtime

exit_status = 0


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder for compiled kernels; build.py names one that outlives the run."""
    folder = Path(os.environ.get("TAICHI_CLOTH_TEST_CACHE") or tmp_path_factory.mktemp("kernels"))
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


@pytest.fixture(scope="session")
def taichi_cpu(kernel_cache: str) -> "Iterator[Runtime]":
    """Taichi on the CPU, started once in a test process; no test stops it."""
    from taichi_cloth_addon.engine import runtime

    # One thread: meshes are small here, and the machine may be busy.
    yield runtime.start(runtime.Device.CPU, kernel_cache, threads=1)
    runtime.stop()


def pytest_sessionfinish(exitstatus: int) -> None:
    """Remember how the tests went."""
    global exit_status  # noqa: PLW0603 (pytest_unconfigure is not told)
    exit_status = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """End a process that has Blender in it, whose destructors may crash or hang."""
    if "bpy" in sys.modules:
        leave(exit_status)
