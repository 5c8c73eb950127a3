# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds Python interpreters of a wanted version, and proves each by running it."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from .common import BuildError, clean_environment

# A Debian python3 without python3-venv has no ensurepip; 32-bit Pythons have no wheels.
PROBE = (
    "import sys, struct, venv, ensurepip, ssl;"
    "assert struct.calcsize('P') == 8;"
    "print('%d.%d' % sys.version_info[:2], sys.implementation.name)"
)


def _ancestor_folders() -> Iterator[Path]:
    """Folders that hold `pythonX.Y` or `python.exe`, in no version's particular order."""
    home = Path.home()
    pyenv_roots = [Path(os.environ[k]) for k in ("PYENV_ROOT", "PYENV") if os.environ.get(k)]
    pyenv_roots += [home / ".pyenv", home / ".pyenv" / "pyenv-win", Path("/opt/pyenv")]
    uv_roots = [Path(os.environ[k]) for k in ("UV_PYTHON_INSTALL_DIR",) if os.environ.get(k)]
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    uv_roots.append(data / "uv" / "python")
    if os.environ.get("APPDATA"):
        uv_roots.append(Path(os.environ["APPDATA"]) / "uv" / "python")
    versions = [root / "versions" for root in pyenv_roots] + uv_roots
    for root in versions:
        if root.is_dir():
            for version in sorted(root.iterdir(), reverse=True):
                yield version / "bin"
                yield version
    for name in ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"):
        yield Path(name)
    frameworks = Path("/Library/Frameworks/Python.framework/Versions")
    for root in (Path("/opt"), frameworks):
        if root.is_dir():
            for folder in sorted(root.iterdir()):
                yield folder / "bin"
    if os.environ.get("LOCALAPPDATA"):
        programs = Path(os.environ["LOCALAPPDATA"]) / "Programs" / "Python"
        if programs.is_dir():
            yield from sorted(programs.iterdir())


def _candidates(version: str) -> Iterator[list[str]]:
    """Commands that may start Python `version`, the likeliest first."""
    if sys.version_info[:2] == tuple(int(part) for part in version.split(".")):
        yield [getattr(sys, "_base_executable", None) or sys.executable]
    names = [f"python{version}"]
    if sys.platform == "win32":
        names = [f"python{version}.exe", "python.exe"]
        if shutil.which("py"):
            yield ["py", f"-{version}"]
    for name in [*names, "python3", "python"]:
        found = shutil.which(name)
        if found:
            yield [found]
    for folder in _ancestor_folders():
        for name in names:
            if (folder / name).is_file():
                yield [str(folder / name)]


def _probe(command: list[str], version: str) -> Path | None:
    """The interpreter behind `command` when it runs and is a CPython `version`."""
    script = f"{PROBE}; print(sys.executable)"
    try:
        done = subprocess.run(
            [*command, "-I", "-c", script],
            check=False,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.splitlines()
    if done.returncode or lines[:1] != [f"{version} cpython"]:
        return None
    return Path(lines[1])


@functools.cache
def find_interpreter(version: str) -> Path | None:
    """The first CPython of that version (such as "3.11") that runs here, or None."""
    tried: set[tuple[str, ...]] = set()
    for command in _candidates(version):
        if tuple(command) in tried:
            continue
        tried.add(tuple(command))
        found = _probe(command, version)
        if found is not None:
            return found
    return None


def require_interpreter(version: str, purpose: str) -> Path:
    """Like find_interpreter.

    Raises:
        BuildError: there is none.
    """
    found = find_interpreter(version)
    if found is None:
        raise BuildError(missing_interpreter(version, purpose))
    return found


def missing_interpreter(version: str, purpose: str) -> str:
    """What to tell when Python `version` was not found."""
    return (
        f"Python {version} was not found; it is needed for {purpose}. Looked on PATH, in pyenv's "
        f"and uv's folders and in the usual places for a 64-bit CPython {version} with the modules "
        f"venv, ensurepip and ssl. Install one, for example with `pyenv install {version}`, "
        f"`uv python install {version}`, the installer of python.org, or your system's packages "
        f"(Debian: python{version} and python{version}-venv)."
    )
