# SPDX-License-Identifier: GPL-3.0-or-later
"""Space, units, time, gravity and wind as the engine gets them."""

from typing import Any

import bpy
import numpy as np
import pytest

from tests.blender import support


def begin(*objects: Any, start: int = 1, end: int = 4, **options: Any) -> Any:
    return support.ours("blender.capture").begin(
        bpy.context.scene, list(objects), start, end, **options
    )


def linear(owner: Any) -> None:
    for curve in support.ours("blender.animation").fcurves(owner):
        for key in curve.keyframe_points:
            key.interpolation = "LINEAR"


def empty(name: str = "Empty") -> Any:
    ob = bpy.data.objects.new(name, None)
    bpy.context.collection.objects.link(ob)
    return ob


def positions(captured: Any) -> Any:
    return captured.job.cloths[0].part.positions


def test_scale_rotation_and_parent_give_the_world_shape() -> None:
    """Reports 17 and 19: unapplied scale, a parent with scale."""
    ob = support.cloth(side=4, size=1.0)
    plain = positions(begin(ob))
    ob.scale = (0.5, 0.5, 0.5)
    parent = empty()
    parent.scale = (2.0, 2.0, 2.0)
    ob.parent = parent
    np.testing.assert_allclose(positions(begin(ob)), plain, atol=1e-6)
    ob.rotation_euler.z = np.pi / 2
    turned = positions(begin(ob))
    np.testing.assert_allclose(turned[:, :2], plain[:, [1, 0]] * (-1.0, 1.0), atol=1e-6)
    ob.scale.x = -0.5
    assert np.linalg.det(begin(ob).first.matrices[0]) < 0.0


def test_pins_follow_a_moving_parent_at_every_sample() -> None:
    """Report 18."""
    ob = support.cloth(side=4)
    ob.taichi_cloth.motion_samples = 4
    parent = empty()
    ob.parent = parent
    for frame, x in ((1, 0.0), (3, 2.0)):
        parent.location.x = x
        parent.keyframe_insert("location", frame=frame)
    linear(parent)
    captured = begin(ob)
    rest = captured.first.inputs.samples
    assert len(rest) == 1
    block = captured.block(2)
    xs = [s.pin_targets[0, 0] - rest[0].pin_targets[0, 0] for s in block.inputs.samples]
    np.testing.assert_allclose(xs, [0.25, 0.5, 0.75, 1.0], atol=1e-6)
    assert block.matrices[0][0, 3] == pytest.approx(1.0)


@pytest.mark.parametrize("scale", [1.0, 0.001, 0.0254])
def test_unit_scale_changes_nothing_in_metres(scale: float) -> None:
    """Report 21: the same bench in scenes of other units."""
    ob = support.cloth(side=4, size=1.0)
    wanted = begin(ob)
    scene = bpy.context.scene
    scene.unit_settings.scale_length = scale
    ob.scale = (1.0 / scale,) * 3
    ob.location.x = 2.0 / scale
    found = begin(ob)
    np.testing.assert_allclose(positions(found) - (2.0, 0.0, 0.0), positions(wanted), atol=1e-5)
    np.testing.assert_allclose(found.first.inputs.samples[0].gravity, (0.0, 0.0, -9.81), atol=1e-5)
    inverse = np.linalg.inv(found.first.matrices[0])
    local = positions(found) @ inverse[:3, :3].T + inverse[:3, 3]
    base = np.array([v.co for v in ob.data.vertices])
    np.testing.assert_allclose(local, base, atol=1e-5)
    scene.unit_settings.system = "NONE"
    np.testing.assert_allclose(
        positions(begin(ob))[:, 1], positions(wanted)[:, 1] / scale, rtol=1e-5, atol=1e-5
    )


def test_gravity_off_custom_and_keyed() -> None:
    """Report 43."""
    ob = support.cloth(side=4)
    scene = bpy.context.scene
    scene.use_gravity = False
    np.testing.assert_array_equal(begin(ob).first.inputs.samples[0].gravity, np.zeros(3))
    scene.use_gravity = True
    scene.gravity = (0.0, 0.0, 5.0)
    np.testing.assert_array_equal(begin(ob).first.inputs.samples[0].gravity, (0.0, 0.0, 5.0))
    for frame, x in ((1, 0.0), (3, 4.0)):
        scene.gravity = (x, 0.0, 0.0)
        scene.keyframe_insert("gravity", frame=frame)
    linear(scene)
    samples = begin(ob).block(2).inputs.samples
    np.testing.assert_allclose([s.gravity[0] for s in samples], [1.0, 2.0], atol=1e-6)


def test_frame_rate_is_exact_and_remapping_slows_the_fall() -> None:
    """Report 46."""
    ob = support.cloth(side=4)
    render = bpy.context.scene.render
    render.fps, render.fps_base = 30, 1.001
    assert begin(ob).job.fps == pytest.approx(30.0 / 1.001, rel=1e-6)
    render.frame_map_old, render.frame_map_new = 100, 200  # half speed
    assert begin(ob).job.fps == pytest.approx(60.0 / 1.001, rel=1e-6)


def test_negative_frames_have_their_samples_between_frames() -> None:
    """Report 51."""
    ob = support.cloth(side=4)
    ob.keyframe_insert("location", frame=-20)
    ob.location.x = 20.0
    ob.keyframe_insert("location", frame=0)
    linear(ob)
    captured = begin(ob, start=-20, end=2)
    x = captured.first.inputs.samples[0].pin_targets[0, 0]
    xs = [s.pin_targets[0, 0] - x for s in captured.block(-19).inputs.samples]
    np.testing.assert_allclose(xs, [0.5, 1.0], atol=1e-5)


def test_keyed_fabric_and_wind_are_read_at_their_frames() -> None:
    ob = support.cloth(side=4)
    settings = ob.taichi_cloth
    settings.use_wind = True
    settings.wind_gusts = 0.25
    for frame, density, wind in ((1, 0.1, 0.0), (3, 0.3, 8.0)):
        settings.density = density
        settings.wind_velocity = (wind, 0.0, 0.0)
        ob.keyframe_insert("taichi_cloth.density", frame=frame)
        ob.keyframe_insert("taichi_cloth.wind_velocity", frame=frame)
    linear(ob)
    inputs = begin(ob).block(2).inputs
    assert inputs.fabrics[0].density == pytest.approx(0.2)
    np.testing.assert_allclose([s.wind[0, 0] for s in inputs.samples], [2.0, 4.0], atol=1e-6)
    np.testing.assert_allclose(inputs.gusts, [0.25])
    settings.use_wind = False
    np.testing.assert_array_equal(begin(ob).block(2).inputs.samples[0].wind, np.zeros((1, 3)))


def wind(strength: float = 3.0) -> Any:
    bpy.ops.object.effector_add(type="WIND")
    ob = bpy.context.object
    ob.field.strength = strength
    return ob


def test_wind_objects_blow_along_their_axis() -> None:
    ob = support.cloth(side=4)
    blower = wind()
    blower.location = (1.0, 2.0, 3.0)
    blower.rotation_euler = (0.0, np.pi / 2, 0.0)
    blower.scale = (2.0, 2.0, 2.0)
    field = blower.field
    field.falloff_power = 2.0
    field.use_min_distance, field.distance_min = True, 0.5
    field.use_max_distance, field.distance_max = True, 9.0
    field.z_direction = "NEGATIVE"
    field.noise, field.seed = 0.5, 7
    bpy.context.scene.unit_settings.scale_length = 0.1
    (found,) = begin(ob).first.inputs.samples[0].fields
    np.testing.assert_allclose(found.origin, (0.1, 0.2, 0.3), atol=1e-6)
    np.testing.assert_allclose(found.axis, (1.0, 0.0, 0.0), atol=1e-6)
    assert (found.speed, found.seed, found.power, found.unit) == (3.0, 7, 2.0, pytest.approx(0.1))
    assert found.noise == pytest.approx(0.5 / 6.0**0.5 / 3.0)
    assert found.minimum_distance == pytest.approx(0.05)
    assert found.maximum_distance == pytest.approx(0.9)
    assert found.one_sided == -1


def test_keyed_wind_and_hidden_wind() -> None:
    ob = support.cloth(side=4)
    blower, still = wind(), wind(9.0)
    for frame, strength in ((1, 0.0), (3, 4.0)):
        blower.field.strength = strength
        blower.keyframe_insert("field.strength", frame=frame)
    linear(blower)
    still.hide_viewport = True
    samples = begin(ob).block(2).inputs.samples
    np.testing.assert_allclose([[f.speed for f in s.fields] for s in samples], [[1.0], [2.0]])
    problems = support.ours("blender.capture").check(bpy.context.scene, [ob])
    assert any("Hidden wind" in p.message and still.name in p.message for p in problems)


def test_several_cloths_make_one_model() -> None:
    one = support.cloth(side=4, name="One")
    two = support.cloth(side=5, name="Two")
    two.location.x = 5.0
    captured = begin(one, two)
    assert [cloth.part.name for cloth in captured.job.cloths] == ["One", "Two"]
    block = captured.block(2)
    assert block.matrices.shape == (2, 4, 4)
    assert len(block.inputs.samples[-1].pin_targets) == 4 + 5
    assert block.inputs.samples[-1].pin_targets[4:, 0].min() > 4.0
    assert captured.job.settings_hash.split() == [
        support.ours("blender.capture").settings_hash(ob) for ob in (one, two)
    ]


def test_the_job_can_be_written(tmp_path: Any) -> None:
    """Cloth, group and folder with names outside ASCII (report 58)."""
    ob = support.cloth(side=4, name="Ткань")
    ob.vertex_groups[0].name = "固定"
    ob.taichi_cloth.pin_group = "固定"
    captured = begin(ob)
    job = support.ours("cache.job")
    job.write_job(tmp_path / "布.job", captured.job)
    job.write_frame(tmp_path / "布.job", captured.first)
    job.write_frame(tmp_path / "布.job", captured.block(2))
    assert job.read_job(tmp_path / "布.job").cloths[0].part.name == "Ткань"
    assert job.read_frame(tmp_path / "布.job", 2).frame == 2
