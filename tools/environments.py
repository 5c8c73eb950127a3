# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual environments in build/, made from the hashed requirements."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .common import (
    BLENDERS,
    BUILD,
    LINT_PYTHON,
    REQUIREMENTS,
    BlenderVersion,
    BuildError,
    clean_environment,
    executable_in,
    run,
    say,
)
from .interpreters import find_interpreter, missing_interpreter, require_interpreter

# Debian's package of each system library that the bpy wheels load.
DEBIAN_PACKAGES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libGLX.so.0": "libglx0",
    "libICE.so.6": "libice6",
    "libSM.so.6": "libsm6",
    "libX11.so.6": "libx11-6",
    "libXext.so.6": "libxext6",
    "libXfixes.so.3": "libxfixes3",
    "libXi.so.6": "libxi6",
    "libXrender.so.1": "libxrender1",
    "libXxf86vm.so.1": "libxxf86vm1",
    "libgomp.so.1": "libgomp1",
    "libstdc++.so.6": "libstdc++6",
    "libuuid.so.1": "libuuid1",
    "libvulkan.so.1": "libvulkan1",
    "libxcb.so.1": "libxcb1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libz.so.1": "zlib1g",
}


@dataclass(frozen=True)
class Environment:
    """A virtual environment that is ready.

    Attributes:
        name: "bpy-5.3" or "lint".
        folder: where it is.
        blender: which Blender it holds, if any.
    """

    name: str
    folder: Path
    blender: BlenderVersion | None = None

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return executable_in(self.folder, "python")

    def blender_scripts(self) -> Path:
        """The scripts folder inside its bpy wheel."""
        assert self.blender is not None
        pattern = f"**/site-packages/bpy/{self.blender.name}/scripts"
        for path in self.folder.glob(pattern):
            return path
        raise BuildError(f"No {pattern} in {self.folder}; delete that folder and try again.")


def _runs(folder: Path) -> bool:
    """Whether the interpreter behind a virtual environment is still there."""
    try:
        done = subprocess.run(
            [str(executable_in(folder, "python")), "-c", ""],
            check=False,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return False
    return done.returncode == 0


def _make(name: str, interpreter: Path) -> Path:
    """Makes the environment `name` unless it is there, complete and up to date."""
    lock = REQUIREMENTS / f"{name}.txt"
    folder = BUILD / "venv" / name
    stamp = folder / "complete.txt"
    contents = hashlib.sha256(lock.read_bytes()).hexdigest() + "\n"
    if stamp.is_file() and stamp.read_text("utf-8") == contents and _runs(folder):
        return folder
    say(f"Making {folder.relative_to(BUILD.parent)} with {interpreter}")
    if folder.exists():
        shutil.rmtree(folder)
    run([interpreter, "-m", "venv", folder], what=f"Making the environment {name}", quiet=True)
    run(
        [
            executable_in(folder, "python"),
            *("-m", "pip", "install", "--quiet", "--no-input", "--require-hashes"),
            *("--only-binary=:all:", "--no-deps", "--requirement", lock),
        ],
        what=f"Installing {lock.name}",
        quiet=True,
    )
    # Written last: an interrupted installation is started afresh.
    stamp.write_text(contents, encoding="utf-8")
    return folder


def _missing_libraries(environment: Environment) -> list[str]:
    """The system libraries that the wheel asks for and this machine lacks."""
    if not sys.platform.startswith("linux") or shutil.which("ldd") is None:
        return []
    module = next(environment.folder.glob("**/site-packages/bpy/__init__*.so"), None)
    if module is None:
        return []
    listing = subprocess.run(
        ["ldd", str(module)],
        check=False,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    ).stdout
    return sorted(set(re.findall(r"^\s*(\S+) => not found", listing, re.MULTILINE)))


def explain_import_error(environment: Environment, output: str) -> str:
    """What to install, from the output of a failed `import bpy`."""
    named = re.findall(r"(\S+\.so[.\d]*): cannot open shared object file", output)
    missing = sorted({*named, *_missing_libraries(environment)})
    if not missing:
        return f"`import bpy` failed in {environment.folder}:\n{output.rstrip()}"
    packages = [DEBIAN_PACKAGES.get(library) for library in missing]
    known = " ".join(sorted({package for package in packages if package}))
    hint = f" On Debian or Ubuntu: apt-get install {known}" if known else ""
    return (
        f"Blender's module in {environment.folder} needs system libraries that are missing: "
        f"{', '.join(missing)}.{hint}"
    )


def blender_environment(blender: BlenderVersion) -> Environment:
    """The environment of a Blender version, in which `import bpy` is known to work.

    Raises:
        BuildError: its Python or a system library is missing, or the installation failed.
    """
    name = f"bpy-{blender.name}"
    interpreter = require_interpreter(blender.python, f"Blender {blender.name}")
    environment = Environment(name, _make(name, interpreter), blender)
    done = subprocess.run(
        [str(environment.python), "-c", "import bpy; print(bpy.app.version_string)"],
        check=False,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode:
        raise BuildError(explain_import_error(environment, done.stdout))
    return environment


def with_folder(environment: Environment, name: str, folder: Path) -> Environment:
    """A light environment that sees another one's packages, and those in `folder` besides."""
    place = BUILD / "venv" / name
    packages = next(environment.folder.glob("**/site-packages"))
    paths = f"{packages}\n{folder}\n"
    stamp = place / "complete.txt"
    if not (stamp.is_file() and stamp.read_text("utf-8") == paths and _runs(place)):
        if place.exists():
            shutil.rmtree(place)
        assert environment.blender is not None
        interpreter = require_interpreter(environment.blender.python, name)
        run(
            [interpreter, "-m", "venv", "--without-pip", place],
            what=f"Making the environment {name}",
            quiet=True,
        )
        (next(place.glob("**/site-packages")) / "packages.pth").write_text(paths, encoding="utf-8")
        stamp.write_text(paths, encoding="utf-8")
    return Environment(name, place, environment.blender)


def any_blender_environment() -> Environment:
    """The environment of the newest Blender whose Python is on this machine.

    Raises:
        BuildError: there is none at all.
    """
    for blender in BLENDERS:
        if find_interpreter(blender.python) is not None:
            return blender_environment(blender)
        say(missing_interpreter(blender.python, f"Blender {blender.name}"))
    versions = " or ".join(sorted({blender.python for blender in BLENDERS}))
    raise BuildError(f"No Python {versions} on this machine, see above: one of them is needed.")


def lint_environment() -> Environment:
    """The environment of ruff and mypy."""
    interpreter = require_interpreter(LINT_PYTHON, "ruff and mypy")
    return Environment("lint", _make("lint", interpreter))


def plot_environment() -> Environment:
    """The environment of Matplotlib, apart from that of Blender's module."""
    interpreter = require_interpreter(LINT_PYTHON, "Matplotlib")
    return Environment("bench", _make("bench", interpreter))
