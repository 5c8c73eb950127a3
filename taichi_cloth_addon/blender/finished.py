# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done with a bake afterwards: delete it, convert it, move it beside the .blend."""

from pathlib import Path

import bpy

from ..cache.storage import CacheError
from . import attach, cache_paths, changes, results, status
from .properties import cloth_settings


def delete_bake(scene: bpy.types.Scene, ob: bpy.types.Object) -> str:
    """Take the bake off the object and delete its files.

    Returns:
        Why files stay, or nothing.

    Raises:
        CacheError: a file cannot be deleted.
    """
    kept = results.delete(ob)
    attach.detach(ob)
    status.remember_failure(ob.session_uid, "")
    attach.refresh(ob, scene)
    return kept


def shape_key_estimate(ob: bpy.types.Object) -> str:
    """What shape keys of the object's bake would take, for a question to the user."""
    seen = status.view(ob)
    frames = seen.frame_last - seen.frame_first + 1
    assert isinstance(ob.data, bpy.types.Mesh)
    size = attach.estimate_shape_keys(len(ob.data.vertices), frames)
    return f"{frames} shape keys take {size / 2**20:.1f} MiB in the .blend"


def to_shape_keys(scene: bpy.types.Scene, ob: bpy.types.Object) -> int:
    """Turn the bake that the object plays into shape keys; return their size in bytes.

    Raises:
        AttachError: it plays none.
    """
    path = results.playing_path(ob)
    if path is None or not path.exists():
        raise attach.AttachError(f"{ob.name} has no bake; press Bake Cloth")
    size = attach.to_shape_keys(ob, scene, path)
    changes.mark(ob.session_uid)
    return size


def move_unsaved(blend: str) -> list[str]:
    """Move what was baked before the file was first saved beside the .blend.

    Args:
        blend: path of the .blend, which may not be there yet.

    Returns:
        What could not be moved; it stays where it is and goes on playing.
    """
    problems: list[str] = []
    moved: dict[Path, Path] = {}
    playing = [
        (ob, path)
        for ob in bpy.data.objects
        if ob.library is None
        and (path := results.playing_path(ob)) is not None
        and cache_paths.is_unsaved(path)
    ]
    # A duplicated object plays the file of its original: move first, then point.
    for ob, path in playing:
        if path.stem != cloth_settings(ob).uid or path in moved or not path.exists():
            continue
        target = cache_paths.cache_folder(ob, blend) / path.name
        try:
            results.move(path, target)
        except CacheError as error:
            problems.append(str(error))
            continue
        moved[path] = target
    for ob, path in playing:
        if path in moved:
            attach.attach(ob, moved[path], results.read_sidecar(moved[path]).frame_first)
            changes.mark(ob.session_uid)
    return problems
