# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that a bake of an object left on disk, and which of them are the object's own."""

import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import bpy

from ..cache import files, resume, sidecar, storage
from ..cache import job as jobs
from ..cache.files import BakeFiles
from ..cache.storage import CacheError
from . import attach, cache_paths
from .properties import cloth_settings

_JOB = "job.json"
UNSAVED_SECONDS = 30 * 24 * 3600.0
"""A bake of a file that was never saved is kept that long for a recovered session."""


def own_path(ob: bpy.types.Object) -> Path | None:
    """Where the object's next bake goes; None if it never was prepared for one."""
    return cache_paths.cache_path(ob) if cloth_settings(ob).uid else None


def playing_path(ob: bpy.types.Object) -> Path | None:
    """The point cache that the object plays, whether or not the file is there."""
    modifier = attach.modifier_of(ob)
    if modifier is None or not modifier.filepath:
        return None
    return cache_paths.absolute(modifier.filepath)


def find_job(ob: bpy.types.Object) -> Path | None:
    """The job folder that the object has a part in."""
    own = own_path(ob)
    return None if own is None else _job_in(own.parent, cloth_settings(ob).uid)


def _job_in(folder: Path, uid: str) -> Path | None:
    first = jobs.job_folder(folder, uid)
    if (first / _JOB).exists():
        return first
    for path in sorted(folder.glob(f"*.job/{_JOB}")):
        with suppress(CacheError, FileNotFoundError):
            cloths: Any = storage.read_json(path).get("cloths", ())
            if any(isinstance(c, dict) and c.get("uid") == uid for c in cloths):
                return path.parent
    return None


def unfinished_job(ob: bpy.types.Object) -> Path | None:
    """The job folder of a cancelled bake that can go on. No worker may be writing it.

    After Save As, or with another cache folder, it may be where the file that plays is; it is
    not the object's own then, see ``is_carried``.
    """
    folder = find_job(ob)
    if folder is not None and resume.resume_frame(folder) is not None:
        return folder
    own, playing = own_path(ob), playing_path(ob)
    if own is None or playing is None or playing == own or playing.name != own.name:
        return None
    folder = _job_in(playing.parent, cloth_settings(ob).uid)
    return folder if folder is not None and resume.is_interrupted(folder) else None


def is_carried(ob: bpy.types.Object, folder: Path) -> bool:
    """Whether a job folder has to be copied before the object's bake can go on in it."""
    own = own_path(ob)
    return own is not None and folder.parent != own.parent


def is_own(ob: bpy.types.Object, path: Path) -> bool:
    """Whether a point cache belongs to this object in this .blend, so that it may delete it.

    After Save As the object still plays the file of the .blend it came from, and so does a
    duplicated object that of its original.
    """
    own = own_path(ob)
    if own is None or path.name != own.name:
        return False
    return path == own or cache_paths.is_of_this_file(path)


def delete(ob: bpy.types.Object) -> str:
    """Delete the object's files.

    Returns:
        Why files that it plays stay, or nothing.

    Raises:
        CacheError: a file cannot be deleted.
    """
    playing, own = playing_path(ob), own_path(ob)
    for path in (own, playing):
        other = path and _other_player(ob, path)
        if other:
            return f'"{path}" stays, because "{other}" plays it too'
    folder = find_job(ob)
    if own is not None:
        files.remove(own, folder)
        _remove_empty(own.parent)
    if playing is None or playing == own:
        return ""
    if is_own(ob, playing):
        files.remove(playing)
        _remove_empty(playing.parent)
        return ""
    return f'"{playing}" stays, because it belongs to another file or object'


def _other_player(ob: bpy.types.Object, path: Path) -> str:
    """Name of another object that plays the file, as a duplicate does; or nothing."""
    for other in bpy.data.objects:
        if other.type == "MESH" and other != ob.original and playing_path(other) == path:
            return other.name
    return ""


def _remove_empty(folder: Path) -> None:
    for path in (folder, folder.parent):
        if path.name and (path == folder or path.name == cache_paths.FOLDER):
            with suppress(OSError):
                path.rmdir()


def prune_unsaved(folder: Path) -> None:
    """Delete what sessions that never saved their file left long ago beside this one's folder."""
    if folder.parent.name != "unsaved":
        return
    long_ago = time.time() - UNSAVED_SECONDS
    for old in folder.parent.iterdir():
        with suppress(OSError):
            if old != folder and old.stat().st_mtime < long_ago:
                shutil.rmtree(old, ignore_errors=True)


def end_job(folder: Path) -> None:
    """Delete a job that is done."""
    shutil.rmtree(folder, ignore_errors=True)


def move(source: Path, target: Path) -> None:
    """Move the files of a finished or cancelled bake to another folder.

    Raises:
        CacheError: the disk refuses; what was moved already stays moved.
    """
    storage.make_folder(target.parent)
    pairs = []
    for old, new in (
        (BakeFiles(source), BakeFiles(target)),
        (BakeFiles(source).part, BakeFiles(target).part),
    ):
        pairs += [(old.pc2, new.pc2), (old.sidecar, new.sidecar), (old.log, new.log)]
    pairs += [
        (jobs.job_folder(source.parent, source.stem), jobs.job_folder(target.parent, target.stem))
    ]
    for old_path, new_path in pairs:
        if not old_path.exists():
            continue
        try:
            if new_path.is_dir():
                shutil.rmtree(new_path)
            shutil.move(old_path, new_path)
        except OSError as error:
            raise CacheError(storage.explain(error, "moved", old_path)) from error


def read_sidecar(path: Path) -> sidecar.Sidecar:
    """What is known of a point cache.

    Raises:
        CacheError: missing or damaged.
    """
    return sidecar.read(BakeFiles(path).sidecar)
