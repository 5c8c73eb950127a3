# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts measurements in Blenders of their own, which have the extension from its zip."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CHILD = Path(__file__).with_name("blender_child.py")


def measure(mode: str, out: Path, **options: Any) -> Path:
    """Run one measurement; returns the file of its results.

    Raises:
        SystemExit: the extension is not installed, or the measurement failed.
    """
    if "BLENDER_USER_RESOURCES" not in os.environ:
        raise SystemExit("This benchmark needs the installed extension: python build.py bench")
    # What the extension brings along must be enough.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    text = json.dumps({"mode": mode, "out": str(out), **options})
    done = subprocess.run(
        [sys.executable, str(CHILD), text],
        check=False,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode:
        raise SystemExit(f"{mode} {options} failed:\n{done.stdout[-3000:]}")
    return out


def kernel_folder() -> Path:
    """Where the installed extension keeps its compiled kernels."""
    resources = Path(os.environ["BLENDER_USER_RESOURCES"])
    return resources / "extensions" / ".user" / "user_default" / "taichi_cloth" / "kernels"
