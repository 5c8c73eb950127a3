# SPDX-License-Identifier: GPL-3.0-or-later
"""What all tests share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder for compiled kernels; build.py names one that outlives the run."""
    folder = Path(os.environ.get("TAICHI_CLOTH_TEST_CACHE") or tmp_path_factory.mktemp("kernels"))
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)
