# SPDX-License-Identifier: GPL-3.0-or-later
"""Places, running programs, and saying what happens."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
REQUIREMENTS = ROOT / "requirements"
ADDON = ROOT / "taichi_cloth_addon"
MANIFEST = ROOT / "blender_manifest.toml"
EXTENSION_ID = "taichi_cloth"

# Variables of the caller that would leak another Python or another Blender into ours.
FOREIGN_VARIABLES = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "VIRTUAL_ENV",
    "BLENDER_USER_RESOURCES",
    "BLENDER_USER_CONFIG",
    "BLENDER_USER_SCRIPTS",
    "BLENDER_USER_EXTENSIONS",
    "BLENDER_USER_DATAFILES",
    "BLENDER_SYSTEM_SCRIPTS",
    "BLENDER_SYSTEM_EXTENSIONS",
    "BLENDER_SYSTEM_RESOURCES",
)


class BuildError(Exception):
    """Something is missing or has failed; the message says what, and the way out."""


@dataclass(frozen=True)
class BlenderVersion:
    """A Blender that the extension is tested on, as its `bpy` wheel.

    Attributes:
        name: the Blender version, "5.3"; requirements/bpy-<name>.txt pins the rest.
        python: the only Python version that its wheel is made for.
        suites: which suites of tests run on it.
    """

    name: str
    python: str
    suites: tuple[str, ...]

    @property
    def abi(self) -> str:
        """The tag of its Python in the names of wheels, "cp313"."""
        return "cp" + self.python.replace(".", "")


BLENDERS = (
    BlenderVersion("5.3", "3.13", ("unit", "blender", "package")),
    BlenderVersion("4.2", "3.11", ("unit", "blender", "package")),
    BlenderVersion("4.5", "3.11", ("package",)),
)
LINT_PYTHON = "3.13"


def say(text: str) -> None:
    """Prints one line of progress at once."""
    print(text, flush=True)


def heading(text: str) -> None:
    """Prints the title of a step."""
    say(f"\n== {text}")


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment without what would disturb our Pythons, plus `extra`."""
    environment = {k: v for k, v in os.environ.items() if k not in FOREIGN_VARIABLES}
    environment["PYTHONNOUSERSITE"] = "1"
    environment["PYTHONUTF8"] = "1"
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    environment.update(extra or {})
    return environment


def run(
    command: Sequence[str | Path],
    *,
    what: str,
    environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
    quiet: bool = False,
) -> str:
    """Runs a program to its end.

    Args:
        command: the program and its arguments.
        what: what it does, for the message when it fails.
        environment: its whole environment; default clean_environment().
        folder: its working folder.
        quiet: collect its output and show it only when it fails.

    Returns:
        What it printed when `quiet`, else "".

    Raises:
        BuildError: it could not be started or its exit status is not 0.
    """
    arguments = [str(part) for part in command]
    try:
        done = subprocess.run(
            arguments,
            check=False,
            cwd=folder,
            env=dict(environment) if environment is not None else clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.STDOUT if quiet else None,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise BuildError(f"{what}: {arguments[0]} could not be started ({error}).") from error
    if done.returncode:
        output = f"\n{done.stdout.rstrip()}" if done.stdout else ""
        raise BuildError(
            f"{what} failed (exit status {done.returncode}): {shlex.join(arguments)}{output}"
        )
    return done.stdout or ""


def host_platform() -> str:
    """Blender's name of this machine's platform, for example "linux-x64"."""
    system = {"darwin": "macos"}.get(platform.system().lower(), platform.system().lower())
    machine = platform.machine().lower()
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(machine, machine)
    return f"{system}-{machine}"


def executable_in(folder: Path, name: str) -> Path:
    """The program `name` of the virtual environment in `folder`."""
    if sys.platform == "win32":
        return folder / "Scripts" / f"{name}.exe"
    return folder / "bin" / name
