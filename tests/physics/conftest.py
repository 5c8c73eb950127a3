# SPDX-License-Identifier: GPL-3.0-or-later
"""Every test of this folder simulates on the CPU."""

import pytest


@pytest.fixture(autouse=True)
def _started(taichi_cpu: object) -> None:
    """Start Taichi before the first test."""
