# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts a bake on an object and takes it off: the only writer of modifiers and shape keys.

A point cache is played by a Mesh Cache modifier right after the deforming modifiers (``stack``
has the rule). Its factor is driven by ``frame >= start``, so before the bake the artist's own
animation shows; the visibility switches of the modifier stay the artist's.
"""

from pathlib import Path

import bpy

from ..cache import pc2, sidecar
from ..cache.files import BakeFiles
from ..cache.storage import CacheError
from . import animation, cache_paths, effectors, evaluated, hashes, shape_keys, stack
from .shape_keys import AttachError as AttachError
from .shape_keys import estimate_shape_keys as estimate_shape_keys
from .stack import MODIFIER_NAME as MODIFIER_NAME


def modifier_of(ob: bpy.types.Object) -> bpy.types.MeshCacheModifier | None:
    """The modifier that plays the object's bake, or None."""
    return stack.find_cache(ob)


def is_attached(ob: bpy.types.Object) -> bool:
    """Whether the object plays a bake, from a point cache or from shape keys."""
    return modifier_of(ob) is not None or shape_keys.has_keys(ob)


def attach(
    ob: bpy.types.Object,
    path: Path,
    frame_start: int,
    scene: bpy.types.Scene | None = None,
) -> None:
    """Let the object play a point cache; an earlier bake comes off.

    Args:
        ob: the object.
        path: the PC2 file.
        frame_start: frame of its first sample.
        scene: whose time remapping counts; by default the context's.

    Raises:
        AttachError: the object cannot get a modifier.
    """
    _check_writable(ob)
    scene = scene or bpy.context.scene or bpy.data.scenes[0]
    shape_keys.remove(ob)
    place = evaluated.place_of(ob, evaluated.view_layer_of(scene, ob))
    if place.error:
        raise AttachError(place.error)
    modifier = modifier_of(ob)
    if modifier is None:
        new = ob.modifiers.new(MODIFIER_NAME, "MESH_CACHE")
        if not isinstance(new, bpy.types.MeshCacheModifier):
            raise AttachError(f'"{ob.name}" takes no modifier.')
        modifier = new
        modifier.show_expanded = False
    _move(ob, modifier, place.index)
    length = effectors.frame_length(scene)
    modifier.cache_format = "PC2"
    modifier.time_mode = "FRAME"
    modifier.play_mode = "SCENE"
    modifier.interpolation = "LINEAR"
    modifier.deform_mode = "OVERWRITE"
    modifier.forward_axis = "POS_Y"
    modifier.up_axis = "POS_Z"
    modifier.vertex_group = ""
    # Index of the sample = frame_scale * animation time - frame_start.
    modifier.frame_scale = 1.0 / length
    modifier.frame_start = float(frame_start)
    modifier.filepath = cache_paths.relative_if_possible(path)
    modifier.factor = 1.0
    # Whoever bakes wants to see it, also where an earlier bake was switched off.
    modifier.show_viewport = modifier.show_render = True
    animation.add_switch(ob, _factor_path(modifier), frame_start * length, before=False)


def _factor_path(modifier: bpy.types.Modifier) -> str:
    return animation.property_path("modifiers", modifier.name, "factor")


def _move(ob: bpy.types.Object, modifier: bpy.types.Modifier, index: int) -> None:
    here = list(ob.modifiers).index(modifier)
    if here != index:
        ob.modifiers.move(here, index)
    if ob.modifiers[index] != modifier:
        ob.modifiers.remove(modifier)
        raise AttachError(
            f'"{ob.name}" is a library override whose modifiers cannot be reordered, so the bake '
            "has no place in front of them. Make the object local."
        )


def _check_writable(ob: bpy.types.Object) -> None:
    if ob.library is not None:
        raise AttachError(f'"{ob.name}" is linked. Make it local (Object > Relations).')
    if not isinstance(ob.data, bpy.types.Mesh):
        raise AttachError(f'"{ob.name}" is no mesh.')


def detach(ob: bpy.types.Object) -> None:
    """Take the bake off the object: modifier, shape keys and drivers. Files stay."""
    modifier = modifier_of(ob)
    if modifier is not None:
        ob.driver_remove(_factor_path(modifier))
        ob.modifiers.remove(modifier)
        animation.tidy(ob)
    shape_keys.remove(ob)


def refresh(ob: bpy.types.Object, scene: bpy.types.Scene) -> None:
    """Let the viewport read the file anew."""
    ob.update_tag(refresh={"OBJECT", "DATA"})
    for layer in scene.view_layers:
        if layer.depsgraph is not None and ob.name in layer.objects:
            layer.update()


def verify(ob: bpy.types.Object) -> str:
    """Why what the object plays does not fit it, and the way out; empty if it fits."""
    modifier = modifier_of(ob)
    if modifier is None or not isinstance(ob.data, bpy.types.Mesh):
        return ""
    path = cache_paths.absolute(modifier.filepath)
    try:
        header = pc2.read_header(path)
        known = sidecar.read(BakeFiles(path).sidecar)
    except (CacheError, FileNotFoundError) as error:
        return str(error)
    if header.vertex_count != len(ob.data.vertices):
        return (
            f"The bake has {header.vertex_count} vertices, the mesh {len(ob.data.vertices)}: "
            "it was edited since. Bake again, or undo the edit."
        )
    if known.topology_hash and known.topology_hash != hashes.topology_hash(ob):
        return "The mesh was edited since the bake. Bake again, or undo the edit."
    return _order_problem(ob, modifier)


def _order_problem(ob: bpy.types.Object, cache: bpy.types.Modifier) -> str:
    for modifier in ob.modifiers:
        if modifier == cache:
            return ""
        on = modifier.show_viewport or modifier.show_render
        if on and stack.role(modifier) is stack.Role.GENERATE:
            return (
                f'The modifier "{modifier.name}" changes the mesh in front of '
                f'"{cache.name}". Move "{cache.name}" above it, or bake again.'
            )
    return ""


def disable_rival_modifiers(ob: bpy.types.Object) -> list[str]:
    """Switch off the object's Cloth and Soft Body modifiers; their names."""
    names = []
    for modifier in stack.rivals(ob):
        modifier.show_viewport = False
        modifier.show_render = False
        names.append(modifier.name)
    return names


def to_shape_keys(ob: bpy.types.Object, scene: bpy.types.Scene, path: Path) -> int:
    """Turn a point cache into shape keys; the modifier that played it comes off.

    Args:
        ob: the object.
        scene: whose time remapping counts.
        path: the PC2 file.

    Returns:
        Bytes that the keys take.

    Raises:
        AttachError: the object cannot get such keys.
        CacheError: the file cannot be read or does not fit.
    """
    _check_writable(ob)
    size = shape_keys.make(ob, scene, path)
    modifier = modifier_of(ob)
    if modifier is not None:
        ob.driver_remove(_factor_path(modifier))
        ob.modifiers.remove(modifier)
        animation.tidy(ob)
    refresh(ob, scene)
    return size
