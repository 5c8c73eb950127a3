# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the files of a bake are.

    beside the .blend:  cache_taichi_cloth/<file>/<object uid>.pc2
    folder given:       <folder>/<file>/<object uid>.pc2 for one that begins with //, and
                        <folder>/<file>-<mark of the .blend's folder>/<object uid>.pc2
    file never saved:   <extension's user folder>/unsaved/<session>/<object uid>.pc2

``<file>`` keeps two files that share a folder apart, also after Save As, and the mark two of the
same name. A session has a
folder of its own, so no session ever plays what another one left.
"""

import hashlib
import os
import re
import sys
import uuid
from pathlib import Path

import bpy

from .properties import cloth_settings

FOLDER = "cache_taichi_cloth"
_SESSION = uuid.uuid4().hex[:12]
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")
_PACKAGE = __package__.rpartition(".")[0]


def user_folder() -> Path:
    """Folder of the extension's own that survives upgrades. It may not exist yet."""
    try:
        return Path(bpy.utils.extension_path_user(_PACKAGE))
    except ValueError:  # run from a checkout, not installed as an extension
        return Path(bpy.utils.user_resource("DATAFILES", path="taichi_cloth"))


def native(path: str) -> str:
    """A path stored on any system, as this system writes it; ``//`` stays in front."""
    path = path.strip()
    if sys.platform == "win32":
        return path
    return path.replace("\\", "/")


def absolute(path: str, blend: str | None = None) -> Path:
    """Absolute path of one that may begin with ``//`` (the folder of the .blend)."""
    start = os.path.dirname(blend) if blend else None
    return Path(os.path.normpath(bpy.path.abspath(native(path), start=start)))


def is_unsaved(path: Path) -> bool:
    """Whether the path lies where files that were never saved keep their bakes."""
    return path.parent.name.startswith("unsaved-") or path.parent.parent.name == "unsaved"


def relative_if_possible(path: Path) -> str:
    """The path as it is stored in the .blend: from the .blend's folder if it can be."""
    if not bpy.data.filepath:
        return str(path)
    try:
        return bpy.path.relpath(str(path))
    except ValueError:  # on another drive
        return str(path)


def cache_folder(ob: bpy.types.Object, blend: str | None = None) -> Path:
    """Folder for the object's files. It may not exist yet.

    Args:
        ob: the object.
        blend: path of the .blend, if it is about to get another one than it has.
    """
    blend = bpy.data.filepath if blend is None else blend
    chosen = native(cloth_settings(ob).cache_folder)
    name = Path(blend).stem if blend else ""
    if chosen and (blend or not chosen.startswith("//")):
        if blend and not chosen.startswith("//"):
            name = f"{name}-{_mark(blend)}"
        return absolute(chosen, blend) / (name or f"unsaved-{_SESSION}")
    if blend:
        return Path(blend).parent / FOLDER / name
    return user_folder() / "unsaved" / _SESSION


def _mark(blend: str) -> str:
    """Tells .blend files of one name apart by their folder."""
    folder = os.path.normcase(os.path.dirname(os.path.abspath(blend)))
    return hashlib.blake2b(folder.encode(), digest_size=4).hexdigest()


def is_of_this_file(path: Path) -> bool:
    """Whether a point cache lies where this .blend keeps its bakes, or kept them before.

    A .blend of the same name in another folder has other places.
    """
    blend = bpy.data.filepath
    if not blend:
        return False
    name = Path(blend).stem
    if path.parent.name == f"{name}-{_mark(blend)}":
        return True
    return path.parent.name == name and path.parent.parent.parent == Path(blend).parent


def folder_problem(ob: bpy.types.Object) -> str:
    """Why the object's files cannot be written, and the way out; empty if they can."""
    chosen = cloth_settings(ob).cache_folder
    if sys.platform != "win32" and _DRIVE.match(chosen):
        return f'The cache folder "{chosen}" is on a Windows drive. Choose a folder of this system.'
    folder = cache_folder(ob)
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        return f'The cache folder "{folder}" cannot be made: "{existing}" is no folder.'
    if not os.access(existing, os.W_OK):
        return f'The cache folder "{folder}" cannot be written. Choose another folder.'
    return ""


def cache_path(ob: bpy.types.Object, scene: bpy.types.Scene | None = None) -> Path:
    """Absolute path of the object's finished point cache.

    The scene has no say today: a cloth has one cache.
    """
    del scene
    uid = cloth_settings(ob).uid
    if not uid:
        raise ValueError(f'"{ob.name}" has no uid yet')
    return cache_folder(ob) / f"{uid}.pc2"
