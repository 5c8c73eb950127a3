# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingerprints that tell whether a bake still fits the object.

They do not depend on the current frame: a value that is animated counts by its name only.

The fingerprint of the settings is two, joined by a dot: of what is simulated, and of how. A bake
may go on with other steps, but what it shows is of one kind only if what is simulated stays.
"""

import hashlib

import bpy
import numpy as np

from ..engine.mesh import topology_hash as mesh_hash
from . import animation, effectors, evaluated
from .properties import DISPLAY_ONLY, cloth_settings, takes_quality

# The end of the range is not among what decides: a longer range has the same frames in front.
_NOT_SIMULATED = DISPLAY_ONLY | {
    "rna_type",
    "name",
    "enabled",
    "uid",
    "output",
    "cache_folder",
    "frame_end",
}


# How it is simulated.
_METHOD = frozenset(("integrator", "quality", "substeps", "motion_samples"))


def _digest(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def topology_hash(ob: bpy.types.Object) -> str:
    """Fingerprint of the mesh without positions: a bake fits every mesh that has the same."""
    return mesh_hash(evaluated.read_mesh(evaluated.base_mesh(ob)))


def settings_hash(
    ob: bpy.types.Object,
    scene: bpy.types.Scene | None = None,
    known: evaluated.KnownWeights | None = None,
) -> str:
    """Fingerprint of all that decides the result and is the object's or the scene's own.

    The settings, the pins, the shape of the mesh with its shape keys; of the scene gravity,
    frame rate, units and, if the object follows it, the first frame.

    Args:
        ob: the object.
        scene: its scene.
        known: pin groups that were read already.
    """
    scene = scene or bpy.context.scene or bpy.data.scenes[0]
    values = _settings(ob, scene)
    method = [f"{name}={value}".encode() for name, value in values if name in _METHOD]
    parts = [f"{name}={value}".encode() for name, value in values if name not in _METHOD]
    mesh = evaluated.base_mesh(ob)
    parts.append(evaluated.read_positions(mesh).tobytes())
    for key in evaluated.user_keys(ob)[1:]:
        shape = np.empty(3 * len(mesh.vertices), np.float32)
        key.data.foreach_get("co", shape)
        parts.append(shape.tobytes())
    group = cloth_settings(ob).pin_group
    read = known.of(ob) if known is not None else None
    weights = evaluated.group_weights(ob, mesh, group, read) if group else None
    if weights is not None:
        parts.append(weights.astype(np.float32).tobytes())
    return f"{_digest(*parts)}.{_digest(*method)}"


def _settings(ob: bpy.types.Object, scene: bpy.types.Scene) -> list[tuple[str, object]]:
    settings = cloth_settings(ob)
    values: list[tuple[str, object]] = []
    for prop in settings.bl_rna.properties:
        name = prop.identifier
        if name in _NOT_SIMULATED:
            continue
        if name == "frame_start" and settings.use_scene_range:
            continue
        if name in ("wind_velocity", "wind_gusts") and not settings.use_wind:
            continue
        if name == "quality" and not takes_quality(settings):
            continue
        animated = animation.is_animated(ob, f"taichi_cloth.{name}")
        values.append((name, "animated" if animated else _text(getattr(settings, name))))
    if settings.use_scene_range:
        values.append(("start", scene_range(scene)[0]))
    for name in ("gravity", "use_gravity"):
        animated = animation.is_animated(scene, name)
        values.append((name, "animated" if animated else _text(getattr(scene, name))))
    values.append(("fps", f"{effectors.frames_per_second(scene):.9g}"))
    values.append(("unit", f"{effectors.unit_scale(scene):.9g}"))
    return values


def scene_range(scene: bpy.types.Scene) -> tuple[int, int]:
    """The scene's simulation range or, if it has none of its own, its frame range."""
    if scene.use_custom_simulation_range:
        return scene.simulation_frame_start, scene.simulation_frame_end
    return scene.frame_start, scene.frame_end


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, str | bool | int):
        return str(value)
    return " ".join(f"{number:.9g}" for number in value)  # type: ignore[attr-defined]
