# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender profiles in build/ with the extension installed from its zip, as a user would have it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .common import BUILD, EXTENSION_ID, ROOT, clean_environment, run, say
from .environments import Environment

REPOSITORY = "user_default"
PACKAGE = f"bl_ext.{REPOSITORY}.{EXTENSION_ID}"

INSTALL_SCRIPT = f"""
import sys
import bpy
bpy.ops.extensions.package_install_files(
    filepath=sys.argv[-1], repo={REPOSITORY!r}, enable_on_install=True)
if {PACKAGE!r} not in bpy.context.preferences.addons.keys() or {PACKAGE!r} not in sys.modules:
    sys.exit("The extension was installed but is not enabled.")
if not hasattr(bpy.types.Object, {EXTENSION_ID!r}):
    sys.exit("The extension is enabled but has registered nothing.")
bpy.ops.wm.save_userpref()
"""
RUNNER = ROOT / "tools" / "bpy_script.py"


def profile_environment(folder: Path, zip_file: Path) -> dict[str, str]:
    """The environment of a process that uses the profile in `folder`.

    TAICHI_CLOTH_PACKAGE is the package's name as installed, TAICHI_CLOTH_ZIP its zip.
    """
    return clean_environment(
        {
            "BLENDER_USER_RESOURCES": str(folder),
            "TAICHI_CLOTH_PACKAGE": PACKAGE,
            "TAICHI_CLOTH_ZIP": str(zip_file),
        }
    )


def make_profile(name: str, zip_file: Path, environment: Environment) -> dict[str, str]:
    """Makes a clean profile, installs the zip and enables it.

    Only the kernels that the extension has compiled are carried over from the profile of the same
    name before, as they survive when an extension is updated.

    Returns:
        The environment of a process that uses the profile.

    Raises:
        BuildError: Blender did not install or enable it.
    """
    folder = BUILD / "profile" / name
    kept = BUILD / "profile" / f"{name}.kernels"
    kernels = folder / "extensions" / ".user" / REPOSITORY / EXTENSION_ID / "kernels"
    if kernels.is_dir() and not kept.exists():
        os.replace(kernels, kept)
    if folder.exists():
        shutil.rmtree(folder)
    kernels.parent.mkdir(parents=True)
    if kept.is_dir():
        os.replace(kept, kernels)
    variables = profile_environment(folder, zip_file)
    script = folder / "install.py"
    script.write_text(INSTALL_SCRIPT, encoding="utf-8")
    run(
        [environment.python, RUNNER, script, zip_file],
        what=f"Installing {zip_file.name} into a clean profile of {environment.name}",
        environment=variables,
        quiet=True,
    )
    say(f"Installed {zip_file.name} into {folder.relative_to(ROOT)} ({environment.name})")
    return variables
