# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bake has to say about its scene before it starts. It stays with the result."""

import bpy
import numpy as np

from ..cache.job import Job
from . import effectors, evaluated
from .properties import cloth_settings

_FINE = 1e-4
"""m; coarser places are seen up close."""
_SMALL = 1e-5
"""Share of a cloth's size that nobody sees."""


def notes_on(scene: bpy.types.Scene, objects: list[bpy.types.Object], job: Job) -> tuple[str, ...]:
    """Sentences about the scene of a job; none in the usual case.

    Args:
        scene: the scene.
        objects: the cloths of the job, in its order.
        job: what is about to be simulated.
    """
    found = [_far_away(cloth.part.name, cloth.part.rest) for cloth in job.cloths]
    if any(cloth_settings(ob).use_force_fields for ob in objects):
        layer = evaluated.view_layer_of(scene, objects[0])
        names = [ob.name for ob in effectors.wind_objects(layer)]
        found += [_odd_shape(ob) for ob in effectors.visible(layer, names)]
    return tuple(text for text in found if text)


def _far_away(name: str, places: effectors.Array) -> str:
    """Blender has places as float32, so they are the coarser the farther they are away."""
    distance = float(np.abs(places).max(initial=0.0))
    size = float(np.ptp(places, axis=0).max())
    step = float(np.spacing(np.float32(distance)))
    if step <= max(_FINE, _SMALL * size):
        return ""
    return (
        f"{name} is {distance / 1000.0:.3g} km from the world's origin, where Blender rounds "
        f"places to {1000.0 * step:.2g} mm. Move the scene nearer to the origin"
    )


def _odd_shape(ob: bpy.types.Object) -> str:
    field = ob.field
    if field is None or field.shape not in {"SURFACE", "POINTS"}:
        return ""
    where = "surface" if field.shape == "SURFACE" else "points"
    return (
        f"The wind of {ob.name} comes from its {where}; it is taken to come from its origin, "
        "along its Z axis"
    )
