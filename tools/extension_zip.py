# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the zips that Blender installs: fetches wheels, stages a flat tree, builds, validates."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .common import (
    ADDON,
    BUILD,
    EXTENSION_ID,
    MANIFEST,
    REQUIREMENTS,
    ROOT,
    BuildError,
    host_platform,
    run,
    say,
)
from .environments import Environment, with_folder

PLATFORMS = ("linux-x64", "windows-x64", "macos-arm64")
# How the platform tags of wheels begin (and, after the version, end).
WHEEL_TAGS = {
    "linux-x64": r"manylinux_\w+_x86_64",
    "windows-x64": r"win_amd64",
    "macos-arm64": r"macosx_\w+_arm64",
}
ROOT_FILES = ("LICENSE", "README.md")
# Every file in a zip carries this time, so that the same sources give the same bytes.
TIMESTAMP = (2026, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Wheel:
    """A line of requirements/wheels.lock."""

    file_name: str
    sha256: str

    @property
    def tags(self) -> list[str]:
        """Project, version, Python, ABI and platform."""
        return self.file_name[: -len(".whl")].split("-")

    def fits(self, platform: str) -> bool:
        """Whether it belongs in the zip of that Blender platform."""
        tag = self.tags[-1]
        return tag == "any" or re.fullmatch(WHEEL_TAGS[platform], tag) is not None


def locked_wheels() -> list[Wheel]:
    """What requirements/wheels.lock lists."""
    wheels = []
    for line in (REQUIREMENTS / "wheels.lock").read_text("utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            sha256, file_name = line.split()
            wheels.append(Wheel(file_name, sha256))
    return wheels


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        digest = hashlib.sha256()
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def fetch_wheel(wheel: Wheel, environment: Environment) -> Path:
    """The wheel in build/wheels, downloaded when it is not there, its SHA-256 checked.

    Raises:
        BuildError: the download failed or is not what the lock file says.
    """
    folder = BUILD / "wheels"
    path = folder / wheel.file_name
    if path.is_file() and _sha256(path) == wheel.sha256:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    project, version, python, abi, platform = wheel.tags
    targets = [] if platform == "any" else ["--platform", platform, "--abi", abi]
    if python.startswith("cp"):
        targets += ["--python-version", python[2:], "--implementation", "cp"]
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        say(f"Downloading {wheel.file_name}")
        run(
            [
                environment.python,
                *("-m", "pip", "download", "--quiet", "--no-input", "--no-deps"),
                *("--only-binary=:all:", "--dest", scratch, *targets, f"{project}=={version}"),
            ],
            what=f"Downloading {wheel.file_name}",
            quiet=True,
        )
        downloaded = Path(scratch) / wheel.file_name
        if not downloaded.is_file():
            names = ", ".join(sorted(os.listdir(scratch)))
            raise BuildError(f"{wheel.file_name} was asked for, {names} was downloaded.")
        found = _sha256(downloaded)
        if found != wheel.sha256:
            raise BuildError(
                f"{wheel.file_name} has SHA-256 {found}, requirements/wheels.lock says "
                f"{wheel.sha256}. Do not use it; find out why it changed."
            )
        os.replace(downloaded, path)
    return path


def platform_manifest(text: str, platform: str, wheels: Sequence[str]) -> str:
    """The manifest of one platform's zip.

    Args:
        text: the manifest of the repository.
        platform: the only platform it keeps.
        wheels: file names of the wheels, added as `wheels`.
    """
    quoted = ",\n".join(f'  "./wheels/{name}"' for name in wheels)
    replacement = f'platforms = ["{platform}"]\nwheels = [\n{quoted},\n]'
    staged, count = re.subn(r"(?m)^platforms = \[.*\]$", lambda _: replacement, text)
    if count != 1 or re.search(r"(?m)^(wheels|\[build\])", text):
        raise BuildError(
            "blender_manifest.toml must have `platforms = [...]` on one line, and neither wheels "
            "nor a [build] table: packaging adds the wheels."
        )
    lines = [line for line in staged.splitlines() if not line.startswith("# `python build.py")]
    return "\n".join(lines) + "\n"


def _source_files() -> dict[str, Path]:
    """Path in the zip -> file, of everything but the manifest and the wheels."""
    files = {}
    for path in ADDON.rglob("*"):
        relative = path.relative_to(ADDON)
        hidden = any(part.startswith(".") or part == "__pycache__" for part in relative.parts)
        if path.is_file() and not hidden and path.suffix != ".pyc":
            files[relative.as_posix()] = path
    for name in ROOT_FILES:
        if (ROOT / name).is_file():
            files[name] = ROOT / name
    if "__init__.py" not in files:
        raise BuildError(f"{ADDON.name}/__init__.py is missing: there is nothing to package.")
    return files


def _stage(platform: str, environment: Environment, folder: Path) -> None:
    """Fills `folder` with the flat tree that Blender's tool expects."""
    files = _source_files()
    wheels = [wheel for wheel in locked_wheels() if wheel.fits(platform)]
    for name, source in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    (folder / "wheels").mkdir()
    for wheel in wheels:
        source = fetch_wheel(wheel, environment)
        target = folder / "wheels" / wheel.file_name
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
    manifest = platform_manifest(
        MANIFEST.read_text("utf-8"),
        platform,
        [wheel.file_name for wheel in wheels],
    )
    (folder / MANIFEST.name).write_bytes(manifest.encode("utf-8"))


def _normalize(built: Path, result: Path) -> None:
    """Copies a zip so that the same sources give the same bytes, whatever tool built it."""
    with zipfile.ZipFile(built) as source, zipfile.ZipFile(result, "w") as target:
        for entry in sorted(source.infolist(), key=lambda entry: entry.filename):
            plain = zipfile.ZipInfo(entry.filename, TIMESTAMP)
            plain.compress_type = entry.compress_type
            plain.create_system = 3
            plain.external_attr = 0o100644 << 16
            target.writestr(plain, source.read(entry), compresslevel=9)


def manifest_version() -> str:
    """The extension's version."""
    match = re.search(r'(?m)^version = "(.+)"$', MANIFEST.read_text("utf-8"))
    if match is None:
        raise BuildError("blender_manifest.toml has no version.")
    return match.group(1)


def build_zip(platform: str, environment: Environment) -> Path:
    """Builds and validates one platform's zip with the extension tool of a bpy wheel.

    Raises:
        BuildError: a wheel is not to be had, or Blender's tool refuses the tree or the zip.
    """
    scripts = environment.blender_scripts()
    tool = [
        environment.python,
        scripts / "addons_core" / "bl_pkg" / "cli" / "blender_ext.py",
    ]
    tags = scripts / "modules" / "_bpy_internal" / "extensions" / "tags.py"
    BUILD.mkdir(exist_ok=True)
    dist = BUILD / "dist"
    dist.mkdir(exist_ok=True)
    result = dist / f"{EXTENSION_ID}-{manifest_version()}-{platform.replace('-', '_')}.zip"
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="stage-") as scratch:
        folder = Path(scratch) / EXTENSION_ID
        folder.mkdir()
        _stage(platform, environment, folder)
        built, normal = Path(scratch) / "built.zip", Path(scratch) / result.name
        run(
            [
                *tool,
                *("build", "--source-dir", folder, "--output-filepath", built),
                *("--valid-tags", tags),
            ],
            what=f"Building {result.name}",
            quiet=True,
        )
        _normalize(built, normal)
        run(
            [*tool, "validate", "--valid-tags", tags, normal],
            what=f"Validating {result.name}",
            quiet=True,
        )
        os.replace(normal, result)
    size = result.stat().st_size / 1e6
    say(f"Built {result.relative_to(ROOT)} ({size:.0f} MB), valid for Blender's extension tool")
    return result


def taichi_environment(environment: Environment) -> Environment:
    """The environment with Taichi added, for what runs outside the installed extension."""
    assert environment.blender is not None
    name = f"taichi-{environment.blender.name}"
    return with_folder(environment, name, _unpacked_wheels(environment))


def _unpacked_wheels(environment: Environment) -> Path:
    """A folder with the packages of the wheels that go into the zip."""
    assert environment.blender is not None
    abi = environment.blender.abi
    folder = BUILD / "site" / abi
    wheels = [
        wheel
        for wheel in locked_wheels()
        if wheel.fits(host_platform()) and wheel.tags[2] in {abi, "py3", "py2.py3"}
    ]
    stamp = folder / "complete.txt"
    contents = "".join(f"{wheel.sha256}\n" for wheel in wheels)
    if stamp.is_file() and stamp.read_text("utf-8") == contents:
        return folder
    if folder.exists():
        shutil.rmtree(folder)
    run(
        [
            environment.python,
            *("-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "--no-index"),
            *("--target", folder),
            *(fetch_wheel(wheel, environment) for wheel in wheels),
        ],
        what="Unpacking Taichi's wheels",
        quiet=True,
    )
    stamp.write_text(contents, encoding="utf-8")
    return folder
