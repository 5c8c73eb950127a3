# SPDX-License-Identifier: GPL-3.0-or-later
"""Wind objects against Blender's own: what its particles feel, the cloth gets."""

from typing import Any

import bpy
import numpy as np
import pytest

from tests.blender import support

SPEED = 1e-3  # so that a particle does not move while it is measured


def points(count: int = 60) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, 3)) * 2.0


def blower(**values: Any) -> Any:
    bpy.ops.object.effector_add(
        type="WIND", location=(0.3, -0.2, 0.1), rotation=(0.4, 0.2, 0.3), scale=(1.0, 2.0, 0.5)
    )
    ob = bpy.context.object
    ob.field.strength = SPEED
    ob.field.flow = 0.0  # which would drag on what moves already
    for name, value in values.items():
        setattr(ob.field, name, value)
    return ob


def push_on_particles(where: np.ndarray) -> np.ndarray:
    """Velocities that Blender's effectors give in a frame to particles born at rest."""
    mesh = bpy.data.meshes.new("Points")
    mesh.from_pydata([tuple(p) for p in where], [], [])
    ob = bpy.data.objects.new("Points", mesh)
    bpy.context.collection.objects.link(ob)
    bpy.context.view_layer.objects.active = ob
    ob.modifiers.new("Particles", "PARTICLE_SYSTEM")
    settings = ob.particle_systems[0].settings
    settings.count, settings.emit_from, settings.use_emit_random = len(where), "VERT", False
    settings.frame_start = settings.frame_end = 1
    settings.lifetime = 100
    settings.normal_factor = settings.brownian_factor = 0.0
    settings.drag_factor = settings.damping = 0.0
    settings.effector_weights.gravity = 0.0
    bpy.context.scene.frame_set(1)
    bpy.context.scene.frame_set(2)
    seen = ob.evaluated_get(bpy.context.evaluated_depsgraph_get()).particle_systems[0].particles
    assert len(seen) == len(where)
    np.testing.assert_allclose([p.location[:] for p in seen], where, atol=1e-4)
    velocities = np.array([p.velocity[:] for p in seen])
    bpy.data.objects.remove(ob)
    return velocities


def air(ob: Any, where: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """Air velocities at points in Blender units, as a cloth gets them."""
    inputs, wind = support.ours("engine.inputs"), support.ours("engine.wind")
    seen = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
    field = support.ours("blender.effectors").wind_field(seen, scale)
    fields = () if field is None else (field,)
    still = np.zeros(3)
    sample = inputs.Sample(still, np.zeros((1, 3)), np.zeros((0, 3)), fields)
    return np.asarray(wind.air_velocity(where * scale, sample, still, 0.0, 0.0, use_fields=True))


RADIAL = {
    "use_radial_min": True,
    "use_radial_max": True,
    "radial_falloff": 0.7,
}


@pytest.mark.parametrize("shape", ["POINT", "LINE", "PLANE"])
@pytest.mark.parametrize("falloff", ["SPHERE", "TUBE", "CONE"])
@pytest.mark.parametrize("side", ["BOTH", "POSITIVE", "NEGATIVE"])
def test_shape_and_falloff_are_blenders(shape: str, falloff: str, side: str) -> None:
    """As many times the full strength as Blender's particles feel, at every point."""
    where = points()
    full = push_on_particles_of_plain_wind(where)
    options: dict[str, Any] = {
        "shape": shape,
        "falloff_type": falloff,
        "z_direction": side,
        "falloff_power": 1.5,
        "use_min_distance": True,
        "distance_min": 0.4,
        "use_max_distance": True,
        "distance_max": 3.5,
        **RADIAL,
        "radial_min": 20.0 if falloff == "CONE" else 0.3,
        "radial_max": 130.0 if falloff == "CONE" else 3.0,
    }
    ob = blower(**options)
    felt = push_on_particles(where) / full
    ours = air(ob, where)
    axis = np.array(ob.matrix_world)[:3, 2]
    wanted = felt * SPEED * axis / np.linalg.norm(axis)
    assert 10 < np.count_nonzero(felt[:, 0]) < len(where)
    np.testing.assert_allclose(ours, wanted, atol=2e-4 * SPEED)
    np.testing.assert_allclose(air(ob, where, 0.01), wanted, atol=2e-4 * SPEED)


def push_on_particles_of_plain_wind(where: np.ndarray) -> np.ndarray:
    """Of a wind that is the same everywhere."""
    plain = blower(falloff_power=0.0)
    full = push_on_particles(where)
    bpy.data.objects.remove(plain)
    return full


def test_no_falloff_at_all_is_the_same_everywhere() -> None:
    ob = blower(falloff_power=0.0)
    ours = air(ob, points())
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), SPEED)
    np.testing.assert_allclose(ours - ours[0], 0.0, atol=1e-12)


def test_a_wind_that_moves_nothing_does_not_blow() -> None:
    ob = blower(apply_to_location=False)
    np.testing.assert_array_equal(push_on_particles(points()), 0.0)
    np.testing.assert_array_equal(air(ob, points()), 0.0)


def test_noise_is_as_strong_as_blenders() -> None:
    """Root mean square of what it adds, in units of the strength; 25 % for chance.

    Over several seeds, since one seed's noise is the same for all particles near each other.
    """
    where = np.random.default_rng(1).normal(size=(400, 3)) * 30.0
    plain = push_on_particles_of_plain_wind(where)
    ob = blower(noise=0.1, falloff_power=0.0)
    axis = np.array(ob.matrix_world)[:3, 2]
    steady = SPEED * axis / np.linalg.norm(axis)
    theirs, ours = [], []
    for seed in range(1, 9):
        ob.field.seed = seed
        added = np.linalg.norm(push_on_particles(where) - plain, axis=1)
        theirs.append(((added / np.linalg.norm(plain[0]) * SPEED) ** 2).mean())
        ours.append(((air(ob, where) - steady) ** 2).sum(axis=1).mean())
    assert np.sqrt(np.mean(ours)) == pytest.approx(np.sqrt(np.mean(theirs)), rel=0.25)
