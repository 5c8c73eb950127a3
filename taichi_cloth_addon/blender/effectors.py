# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads gravity, units and the Wind force fields of a scene.

Reads the depsgraph; part of ``capture``.

Rules:

* A length in metres is a length in Blender units times the scene's unit scale (unless its unit
  system is None).
* Gravity is taken as the number that is stored, in m/s²: Blender leaves it at 9.81 when the unit
  scale changes, so a scene in millimetres falls like one in metres.
* A Wind field blows with its strength in m/s along the object's local Z axis, whatever its
  shape; shape and falloff say how distance weakens it, as for Blender's own physics. Its noise is
  in m/s too.
* A Wind field on the surface or the vertices of a mesh is read as one at the object's origin.
"""

import bpy
import numpy as np
import numpy.typing as npt

from ..engine.inputs import FieldFalloff, FieldShape, WindField

Array = npt.NDArray[np.float64]


_SHAPES = {shape.value: shape for shape in FieldShape}
_NOISE = 6.0**-0.5
"""Root mean square of what Blender adds to a strength for each unit of noise."""


def unit_scale(scene: bpy.types.Scene) -> float:
    """Metres per Blender unit."""
    units = scene.unit_settings
    return 1.0 if units.system == "NONE" else float(units.scale_length)


def frame_length(scene: bpy.types.Scene) -> float:
    """How much the animation advances in a frame: 1, unless time is remapped.

    Time remapping slows animation down or speeds it up; the fall of cloth with it.
    """
    render = scene.render
    return float(render.frame_map_old / render.frame_map_new)


def frames_per_second(scene: bpy.types.Scene) -> float:
    """Frames per second of physical time: the frame rate, with time remapping."""
    render = scene.render
    return render.fps / render.fps_base / frame_length(scene)


def gravity(scene: bpy.types.Scene) -> Array:
    """Gravity in m/s² of the (evaluated) scene."""
    if not scene.use_gravity:
        return np.zeros(3)
    return np.array(scene.gravity, np.float64)


def world_matrix(ob: bpy.types.Object, scale: float) -> Array:
    """(4, 4) from the space of the (evaluated) object to world space in metres."""
    matrix = np.array(ob.matrix_world, np.float64)
    matrix[:3] *= scale
    return matrix


def wind_objects(view_layer: bpy.types.ViewLayer) -> list[bpy.types.Object]:
    """Objects with a Wind force field, visible or not."""
    return [ob for ob in view_layer.objects if ob.field is not None and ob.field.type == "WIND"]


def visible(view_layer: bpy.types.ViewLayer, names: list[str]) -> list[bpy.types.Object]:
    """Objects of these names that the view layer shows."""
    there = [view_layer.objects[name] for name in names if name in view_layer.objects]
    return [ob for ob in there if ob.visible_get(view_layer=view_layer)]


def wind_field(ob: bpy.types.Object, scale: float) -> WindField | None:
    """The wind of an evaluated object, or None if it does not blow now.

    Args:
        ob: the evaluated object.
        scale: metres per Blender unit.
    """
    field = ob.field
    if field is None or field.type != "WIND" or not field.apply_to_location:
        return None
    matrix = np.array(ob.matrix_world, np.float64)
    axis = matrix[:3, 2]
    length = float(np.linalg.norm(axis))
    if not length:
        return None
    falloff, speed = FieldFalloff(field.falloff_type), float(field.strength)
    radial_unit = 1.0 if falloff is FieldFalloff.CONE else scale  # degrees or lengths
    endless = float("inf")
    return WindField(
        origin=matrix[:3, 3] * scale,
        axis=axis / length,
        speed=speed,
        shape=_SHAPES.get(field.shape, FieldShape.POINT),
        falloff=falloff,
        noise=_NOISE * float(field.noise) / abs(speed) if speed else 0.0,
        seed=int(field.seed),
        power=float(field.falloff_power),
        minimum_distance=float(field.distance_min) * scale if field.use_min_distance else 0.0,
        maximum_distance=float(field.distance_max) * scale if field.use_max_distance else endless,
        radial_power=float(field.radial_falloff),
        radial_minimum=float(field.radial_min) * radial_unit if field.use_radial_min else 0.0,
        radial_maximum=float(field.radial_max) * radial_unit if field.use_radial_max else endless,
        unit=scale,
        one_sided={"POSITIVE": 1, "NEGATIVE": -1}.get(field.z_direction, 0),
    )
