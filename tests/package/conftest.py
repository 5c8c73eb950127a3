# SPDX-License-Identifier: GPL-3.0-or-later
"""The zip under test: build.py names it; without build.py, the one that it built last."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def zip_file() -> Path:
    """The extension's zip for this platform."""
    named = os.environ.get("TAICHI_CLOTH_ZIP")
    if named:
        return Path(named)
    built = sorted((ROOT / "build" / "dist").glob("*.zip"), key=lambda path: path.stat().st_mtime)
    if not built:
        pytest.skip("no zip: run `python build.py test --only package` or `build.py package`")
    return built[-1]
