# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts measurements in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CHILD = Path(__file__).with_name("blender_child.py")
BLENDER_CHILD = Path(__file__).with_name("blender_speed_child.py")
ENGINE_CHILD = Path(__file__).with_name("speed_child.py")


class MeasurementError(Exception):
    """A measuring process failed; the message has its last words."""


def start(child: Path, mode: str, out: Path, **options: Any) -> Path:
    """Run one measurement to its end; returns the file of its results.

    Raises:
        MeasurementError: it failed.
    """
    # What the extension brings along must be enough.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    text = json.dumps({"mode": mode, "out": str(out), **options})
    done = subprocess.run(
        [sys.executable, str(child), text],
        check=False,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    # Blender's module may crash after its work, at the end of the process.
    if done.returncode and not (done.returncode < 0 and out.is_file()):
        raise MeasurementError(f"{mode} {options} failed:\n{done.stdout[-3000:]}")
    return out


def measure(mode: str, out: Path, **options: Any) -> Path:
    """Run one measurement in a Blender that has the extension from its zip.

    Raises:
        SystemExit: the extension is not installed, or the measurement failed.
    """
    if "BLENDER_USER_RESOURCES" not in os.environ:
        raise SystemExit("This benchmark needs the installed extension: python build.py bench")
    try:
        return start(CHILD, mode, out, **options)
    except MeasurementError as error:
        raise SystemExit(str(error)) from error


def kernel_folder() -> Path:
    """Where the installed extension keeps its compiled kernels."""
    resources = Path(os.environ["BLENDER_USER_RESOURCES"])
    return resources / "extensions" / ".user" / "user_default" / "taichi_cloth" / "kernels"
