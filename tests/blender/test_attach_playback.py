# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender shows exactly what was simulated, and before that what the artist animated."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from tests.blender import support

FRAMES = 4


def plain(ob: Any) -> None:
    del ob


def rotated(ob: Any) -> None:
    ob.location = (3.0, -2.0, 1.0)
    ob.rotation_euler = (0.3, 1.1, -0.7)
    ob.scale = (2.0, 2.0, 2.0)


def mirrored(ob: Any) -> None:
    ob.rotation_euler = (0.3, 1.1, -0.7)
    ob.scale = (-1.5, 1.0, 0.5)


def parented(ob: Any) -> None:
    parent = bpy.data.objects.new("Parent", None)
    bpy.context.collection.objects.link(parent)
    parent.scale = (0.5, 0.5, 0.5)
    parent.rotation_euler = (0.0, 0.4, 0.0)
    ob.parent = parent
    ob.scale = (-2.0, 1.0, 1.0)
    for frame, x in ((-100, 0.0), (2000, 210.0)):
        parent.location.x = x
        parent.keyframe_insert("location", frame=frame)
    for curve in support.ours("blender.animation").fcurves(parent):
        for key in curve.keyframe_points:
            key.interpolation = "LINEAR"


def simulated(ob: Any, start: int, frames: int = FRAMES) -> tuple[Any, Any]:
    """Capture, and world positions as if simulated: (first world matrix, (F, V, 3))."""
    capture = support.ours("blender.capture")
    ob.taichi_cloth.use_scene_range = False
    ob.taichi_cloth.frame_start, ob.taichi_cloth.frame_end = start, start + frames - 1
    with capture.begin(bpy.context.scene, [ob], start, start + frames - 1) as captured:
        blocks = [captured.first, *(captured.block(start + i) for i in range(1, frames))]
    rest = captured.job.cloths[0].part.positions
    noise = np.random.default_rng(7).normal(size=(frames, *rest.shape))
    noise[0] = 0.0
    return np.array([block.matrices[0] for block in blocks]), rest + 0.3 * noise


def write_pc2(path: Path, start: int, matrices: Any, world: Any) -> Path:
    """Write world positions as the worker does."""
    with support.ours("cache.pc2").Pc2Writer(path, world.shape[1], start) as writer:
        for matrix, positions in zip(matrices, world, strict=True):
            inverse = np.linalg.inv(matrix)
            writer.append(positions @ inverse[:3, :3].T + inverse[:3, 3])
    return path


def put_on(ob: Any, path: Path, start: int, output: str) -> None:
    attach = support.ours("blender.attach")
    attach.attach(ob, path, start)
    if output == "SHAPE_KEYS":
        attach.to_shape_keys(ob, bpy.context.scene, path)


@pytest.mark.parametrize("output", ["POINT_CACHE", "SHAPE_KEYS"])
@pytest.mark.parametrize("start", [1, 1001, -20])
@pytest.mark.parametrize("transform", [plain, rotated, mirrored, parented])
def test_shown_is_simulated(
    transform: Callable[[Any], None], start: int, output: str, tmp_path: Path
) -> None:
    ob = support.cloth(side=5)
    transform(ob)
    matrices, world = simulated(ob, start)
    put_on(ob, write_pc2(tmp_path / "a.pc2", start, matrices, world), start, output)
    for index in range(FRAMES):
        shown = support.evaluated(ob, start + index)
        np.testing.assert_allclose(shown, world[index], atol=3e-5)
    for subframe in (0.25, 0.5):
        between = (1.0 - subframe) * world[1] + subframe * world[2]
        shown = support.evaluated(ob, start + 1, subframe)
        np.testing.assert_allclose(shown, between, atol=6e-5)
    # After its end the bake stays as it is.
    local_end = support.evaluated(ob, start + FRAMES - 1)
    moved = support.evaluated(ob, start + FRAMES + 3)
    assert transform is parented or np.allclose(moved, local_end, atol=1e-5)


@pytest.mark.parametrize("output", ["POINT_CACHE", "SHAPE_KEYS"])
def test_before_the_bake_the_artists_animation_shows(output: str, tmp_path: Path) -> None:
    ob = support.cloth(side=5)
    ob.shape_key_add(name="Basis")
    lift = ob.shape_key_add(name="Lift")
    for point in lift.data:
        point.co.z += 1.0
    for frame, value in ((1, 0.0), (51, 1.0)):
        lift.value = value
        lift.keyframe_insert("value", frame=frame)
    ob.modifiers.new("Cast", "CAST").factor = 0.3
    moments = ((1, 0.0), (20, 0.5), (50, 0.0), (50, 0.96))
    before = [support.evaluated(ob, *moment) for moment in moments]
    assert np.ptp([shape[:, 2].mean() for shape in before]) > 0.5
    matrices, world = simulated(ob, 51)
    put_on(ob, write_pc2(tmp_path / "a.pc2", 51, matrices, world), 51, output)
    for moment, shape in zip(moments, before, strict=True):
        np.testing.assert_allclose(support.evaluated(ob, *moment), shape, atol=1e-6)
    for index in range(FRAMES):
        np.testing.assert_allclose(support.evaluated(ob, 51 + index), world[index], atol=3e-5)
    shown = support.evaluated(ob, 52, 0.5)
    np.testing.assert_allclose(shown, 0.5 * (world[1] + world[2]), atol=3e-5)


@pytest.mark.parametrize("output", ["POINT_CACHE", "SHAPE_KEYS"])
def test_taking_it_off_leaves_what_was_there(output: str, tmp_path: Path) -> None:
    ob = support.cloth(side=5)
    ob.shape_key_add(name="Basis")
    smile = ob.shape_key_add(name="Smile")
    for point in smile.data:
        point.co.z += 1.0
    driver = smile.driver_add("value").driver
    driver.type = "SCRIPTED"
    driver.expression = "frame / 100"
    ob.modifiers.new("Bend", "CAST")
    ob.modifiers.new("Subdivision", "SUBSURF").show_viewport = False
    ob.location.x = 1.0
    ob.keyframe_insert("location", frame=1)
    before = support.evaluated(ob, 2)
    matrices, world = simulated(ob, 1)
    put_on(ob, write_pc2(tmp_path / "a.pc2", 1, matrices, world), 1, output)
    np.testing.assert_allclose(support.evaluated(ob, 2), world[1], atol=3e-5)
    # The artist's key is driven on while the bake plays.
    assert smile.value == pytest.approx(0.02)
    support.ours("blender.attach").detach(ob)
    np.testing.assert_allclose(support.evaluated(ob, 2), before, atol=1e-6)
    assert [key.name for key in ob.data.shape_keys.key_blocks] == ["Basis", "Smile"]
    assert [curve.data_path for curve in ob.data.shape_keys.animation_data.drivers] == [
        'key_blocks["Smile"].value'
    ]
    assert [m.name for m in ob.modifiers] == ["Bend", "Subdivision"]
    assert ob.modifiers["Bend"].show_viewport
    assert ob.modifiers["Bend"].show_render
    assert len(ob.animation_data.drivers) == 0
    assert ob.animation_data.action is not None
    assert not smile.mute
    assert len(bpy.data.actions) == 1


@pytest.mark.parametrize("output", ["POINT_CACHE", "SHAPE_KEYS"])
def test_nothing_stays_on_a_bare_object(output: str, tmp_path: Path) -> None:
    ob = support.cloth(side=5)
    matrices, world = simulated(ob, 1)
    put_on(ob, write_pc2(tmp_path / "a.pc2", 1, matrices, world), 1, output)
    assert support.ours("blender.attach").is_attached(ob)
    support.ours("blender.attach").detach(ob)
    assert not support.ours("blender.attach").is_attached(ob)
    assert ob.animation_data is None
    assert ob.data.shape_keys is None
    assert not len(ob.modifiers)
    assert not len(bpy.data.actions)


@pytest.mark.parametrize("output", ["POINT_CACHE", "SHAPE_KEYS"])
def test_time_remapping_plays_every_sample_on_its_frame(output: str, tmp_path: Path) -> None:
    ob = support.cloth(side=5)
    render = bpy.context.scene.render
    render.frame_map_old, render.frame_map_new = 100, 250
    matrices, world = simulated(ob, 11)
    put_on(ob, write_pc2(tmp_path / "a.pc2", 11, matrices, world), 11, output)
    rest = support.evaluated(ob, 10)
    np.testing.assert_allclose(rest, world[0], atol=1e-5)  # the mesh itself
    for index in range(FRAMES):
        np.testing.assert_allclose(support.evaluated(ob, 11 + index), world[index], atol=3e-4)


@pytest.mark.parametrize("output", ["POINT_CACHE", "SHAPE_KEYS"])
def test_undo_takes_it_off_and_redo_puts_it_back(output: str, tmp_path: Path) -> None:
    bpy.context.preferences.edit.use_global_undo = True
    ob = support.cloth(side=5)
    name = ob.name
    matrices, world = simulated(ob, 1)
    path = write_pc2(tmp_path / "a.pc2", 1, matrices, world)
    bpy.ops.ed.undo_push(message="before")
    put_on(ob, path, 1, output)
    bpy.ops.ed.undo_push(message="bake")
    attach = support.ours("blender.attach")
    bpy.ops.ed.undo()
    ob = bpy.data.objects[name]
    assert not attach.is_attached(ob)
    assert "Pins" in ob.vertex_groups
    bpy.ops.ed.redo()
    ob = bpy.data.objects[name]
    assert attach.is_attached(ob)
    np.testing.assert_allclose(support.evaluated(ob, 3), world[2], atol=3e-5)


def test_renders_without_the_extension(tmp_path: Path) -> None:
    """What a saved file plays depends on nothing of ours: a driver, no handler, no script."""
    support.save(tmp_path / "布.blend")
    ob = support.cloth(side=5)
    matrices, world = simulated(ob, 2)
    (tmp_path / "cache").mkdir()
    put_on(ob, write_pc2(tmp_path / "cache" / "a.pc2", 2, matrices, world), 2, "POINT_CACHE")
    modifier = support.ours("blender.attach").modifier_of(ob)
    assert modifier.filepath.replace("\\", "/") == "//cache/a.pc2"
    driver = ob.animation_data.drivers[0].driver
    assert driver.is_simple_expression  # evaluated without Python
    name = ob.name
    support.save(tmp_path / "布.blend")
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "布.blend"), use_scripts=False)
    ob = bpy.data.objects[name]
    np.testing.assert_allclose(support.evaluated(ob, 3), world[1], atol=3e-5)
    np.testing.assert_allclose(support.evaluated(ob, 1), world[0], atol=3e-5)


def test_new_file_contents_show_after_refresh(tmp_path: Path) -> None:
    ob = support.cloth(side=5)
    scene = bpy.context.scene
    matrices, world = simulated(ob, 1)
    path = write_pc2(tmp_path / "a.pc2", 1, matrices, world)
    put_on(ob, path, 1, "POINT_CACHE")
    scene.frame_set(3)
    write_pc2(path, 1, matrices, world + 1.0)
    support.ours("blender.attach").refresh(ob, scene)
    seen = ob.evaluated_get(bpy.context.view_layer.depsgraph).data
    assert seen.vertices[0].co.x == pytest.approx(world[2][0, 0] + 1.0, abs=1e-5)


def test_a_duplicate_plays_on_by_itself(tmp_path: Path) -> None:
    ob = support.cloth(side=5)
    matrices, world = simulated(ob, 1)
    put_on(ob, write_pc2(tmp_path / "a.pc2", 1, matrices, world), 1, "POINT_CACHE")
    support.select(ob)
    bpy.ops.object.duplicate()
    copy = bpy.context.object
    assert copy != ob
    support.ours("blender.attach").detach(ob)
    np.testing.assert_allclose(support.evaluated(copy, 3), world[2], atol=3e-5)


@pytest.mark.parametrize("output", ["POINT_CACHE", "SHAPE_KEYS"])
def test_another_user_of_the_mesh_stays_as_it_is(output: str, tmp_path: Path) -> None:
    ob = support.cloth(side=5)
    other = bpy.data.objects.new("Other", ob.data)
    bpy.context.collection.objects.link(other)
    other_before = support.evaluated(other, 3)
    matrices, world = simulated(ob, 1)
    put_on(ob, write_pc2(tmp_path / "a.pc2", 1, matrices, world), 1, output)
    np.testing.assert_allclose(support.evaluated(ob, 3), world[2], atol=3e-5)
    np.testing.assert_allclose(support.evaluated(other, 3), other_before, atol=1e-6)


def test_renamed_modifier_is_found_and_reused(tmp_path: Path) -> None:
    attach = support.ours("blender.attach")
    ob = support.cloth(side=5)
    matrices, world = simulated(ob, 1)
    path = write_pc2(tmp_path / f"{ob.taichi_cloth.uid}.pc2", 1, matrices, world)
    attach.attach(ob, path, 1)
    attach.modifier_of(ob).name = 'My "cloth"'
    attach.attach(ob, path, 2)
    assert [m.name for m in ob.modifiers] == ['My "cloth"']
    np.testing.assert_allclose(support.evaluated(ob, 3), world[1], atol=3e-5)
    attach.detach(ob)
    assert ob.animation_data is None


def test_a_basis_of_the_artists_stays(tmp_path: Path) -> None:
    ob = support.cloth(side=5)
    ob.shape_key_add(name="Mine")
    matrices, world = simulated(ob, 1)
    put_on(ob, write_pc2(tmp_path / "a.pc2", 1, matrices, world), 1, "SHAPE_KEYS")
    np.testing.assert_allclose(support.evaluated(ob, 3), world[2], atol=3e-5)
    support.ours("blender.attach").detach(ob)
    assert [key.name for key in ob.data.shape_keys.key_blocks] == ["Mine"]
    assert ob.data.shape_keys.use_relative


def test_absolute_keys_of_the_artists_are_refused_with_the_way_out(tmp_path: Path) -> None:
    ob = support.cloth(side=5)
    for name in ("One", "Two"):
        ob.shape_key_add(name=name)
    ob.data.shape_keys.use_relative = False
    matrices, world = simulated(ob, 1)
    path = write_pc2(tmp_path / "a.pc2", 1, matrices, world)
    attach = support.ours("blender.attach")
    attach.attach(ob, path, 1)
    with pytest.raises(attach.AttachError, match=r"Cloth.*absolute.*point cache"):
        attach.to_shape_keys(ob, bpy.context.scene, path)
    assert attach.modifier_of(ob) is not None
    assert [key.name for key in ob.data.shape_keys.key_blocks] == ["One", "Two"]


def test_a_failed_conversion_leaves_the_point_cache_playing(tmp_path: Path) -> None:
    ob = support.cloth(side=5)
    cast = ob.modifiers.new("Cast", "CAST")
    cast.keyframe_insert("show_render", frame=1)
    matrices, world = simulated(ob, 1)
    path = write_pc2(tmp_path / "a.pc2", 1, matrices, world)
    attach = support.ours("blender.attach")
    attach.attach(ob, path, 1)
    with pytest.raises(attach.AttachError, match=r"Cast.*animated"):
        attach.to_shape_keys(ob, bpy.context.scene, path)
    assert ob.data.shape_keys is None
    np.testing.assert_allclose(support.evaluated(ob, 3), world[2], atol=3e-5)
    with pytest.raises(support.ours("cache.storage").CacheError, match="missing"):
        attach.to_shape_keys(ob, bpy.context.scene, tmp_path / "none.pc2")


def test_the_size_is_told_before(tmp_path: Path) -> None:
    ob = support.cloth(side=5)
    attach = support.ours("blender.attach")
    matrices, world = simulated(ob, 1)
    path = write_pc2(tmp_path / "a.pc2", 1, matrices, world)
    told = attach.estimate_shape_keys(25, FRAMES)
    assert attach.to_shape_keys(ob, bpy.context.scene, path) == told
    assert told == len(ob.data.shape_keys.key_blocks) * 25 * 12


def test_verify_names_what_does_not_fit(tmp_path: Path) -> None:
    attach = support.ours("blender.attach")
    ob = support.cloth(side=5)
    matrices, world = simulated(ob, 1)
    path = tmp_path / "a.pc2"
    attach.attach(ob, path, 1)
    assert "missing" in attach.verify(ob)
    write_pc2(path, 1, matrices, world)
    sidecar = support.ours("cache.sidecar")
    known = sidecar.Sidecar(
        extension_version="1.0.0",
        uid="u",
        object_name=ob.name,
        topology_hash=support.ours("blender.capture").topology_hash(ob),
        settings_hash="s",
        frame_first=1,
        frame_last=FRAMES,
        frame_end_wanted=FRAMES,
        fps=24.0,
        vertex_count=len(ob.data.vertices),
        complete=True,
    )
    sidecar.write(path.with_suffix(".json"), known)
    assert attach.verify(ob) == ""
    subdivision = ob.modifiers.new("Subdivision", "SUBSURF")
    ob.modifiers.move(1, 0)
    assert '"Subdivision"' in attach.verify(ob)
    ob.modifiers.remove(subdivision)
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.mesh.quads_convert_to_tris()
    bpy.ops.object.mode_set(mode="OBJECT")
    assert "edited" in attach.verify(ob)  # as many vertices as before
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.subdivide()
    bpy.ops.object.mode_set(mode="OBJECT")
    assert "vertices" in attach.verify(ob)
