# SPDX-License-Identifier: GPL-3.0-or-later
"""The check finds everything at once and says what to do; fingerprints; places of files."""

import os
import sys
from pathlib import Path
from typing import Any

import bpy
import pytest

from tests.blender import support


def check(*objects: Any) -> list[Any]:
    return list(support.ours("blender.capture").check(bpy.context.scene, list(objects)))


def errors(*objects: Any) -> str:
    return "\n".join(p.message for p in check(*objects) if p.severity == "ERROR")


def warnings(*objects: Any) -> str:
    return "\n".join(p.message for p in check(*objects) if p.severity == "WARNING")


def mesh_object(name: str, vertices: Any, faces: Any, edges: Any = ()) -> Any:
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(vertices, edges, faces)
    ob = bpy.data.objects.new(name, mesh)
    bpy.context.collection.objects.link(ob)
    return ob


def test_a_sound_cloth_has_no_problems() -> None:
    assert check(support.cloth(side=12)) == []


@pytest.mark.parametrize("make", ["plane", "cube"])
def test_coarse_meshes_get_a_subdivide_button(make: str) -> None:
    getattr(bpy.ops.mesh, f"primitive_{make}_add")()
    problems = check(bpy.context.object)
    assert {(p.severity, p.fix) for p in problems} == {("WARNING", "SUBDIVIDE"), ("WARNING", "PIN")}


def test_pins_missing_empty_or_gone() -> None:
    ob = support.cloth(side=12, pinned=False)
    assert [(p.severity, p.fix) for p in check(ob)] == [("WARNING", "PIN")]
    ob.vertex_groups.new(name="Empty")
    ob.taichi_cloth.pin_group = "Empty"
    assert [(p.severity, p.fix) for p in check(ob)] == [("WARNING", "PIN")]
    ob.taichi_cloth.pin_group = "Gone"
    assert [(p.severity, p.fix) for p in check(ob)] == [("ERROR", "PIN")]
    with pytest.raises(support.ours("blender.capture").CaptureError, match="Gone"):
        support.ours("blender.capture").begin(bpy.context.scene, [ob], 1, 2)


def test_one_pass_lists_every_fault_of_every_object() -> None:
    """Reports 1, 2, 3, 6 and 7."""
    square = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)]
    first = mesh_object(
        "First", [*square, (5, 5, 5)], [(0, 1, 2, 3), (0, 1, 2, 3)]
    )  # a loose vertex, a copied face
    second = mesh_object(
        "Second", [*square, (2, 0, 0), (3, 0, 0), (9, 9, 9)], [(0, 1, 2, 3), (1, 4, 5)], [(2, 6)]
    )  # a face of zero area, a loose edge
    third = mesh_object("Third", [*square, (float("nan"), 0, 0)], [(0, 1, 2, 3), (0, 1, 4)])
    problems = check(first, second, third)
    of = {
        ob.name: "\n".join(p.message for p in problems if p.object_name == ob.name)
        for ob in (first, second, third)
    }
    assert "vertices in no face: 1 (4)" in of["First"]
    assert "faces on the vertices of another face: 1" in of["First"]
    assert "without area" in of["Second"]
    assert "edges in no face: 1 (2–6)" in of["Second"]
    assert [p.severity for p in problems if "not finite" in p.message] == ["ERROR"]
    assert all(name in of[name] for name in of)


def test_what_is_no_cloth() -> None:
    """Report 11 among others."""
    curve = bpy.data.objects.new("Curve", bpy.data.curves.new("Curve", "CURVE"))
    bpy.context.collection.objects.link(curve)
    line = mesh_object("Line", [(0, 0, 0), (1, 0, 0)], [], [(0, 1)])
    text = errors(curve, line)
    assert '"Curve" is no mesh. Convert' in text
    assert '"Line" has no faces' in text


def test_objects_that_are_not_evaluated() -> None:
    """Report 42: hidden, excluded, elsewhere."""
    ob = support.cloth(side=12)
    ob.hide_set(True)
    assert "hidden" in errors(ob)
    ob.hide_set(False)
    ob.hide_viewport = True
    assert "hidden" in errors(ob)
    with pytest.raises(support.ours("blender.capture").CaptureError, match="hidden"):
        support.ours("blender.capture").begin(bpy.context.scene, [ob], 1, 2)
    ob.hide_viewport = False
    collection = bpy.data.collections.new("Set")
    bpy.context.scene.collection.children.link(collection)
    collection.objects.link(ob)
    bpy.context.scene.collection.objects.unlink(ob)
    layer = bpy.context.view_layer.layer_collection.children["Set"]
    assert errors(ob) == ""
    layer.exclude = True
    assert "excludes" in errors(ob)
    collection.objects.unlink(ob)
    assert "not in the scene" in errors(ob)


def test_another_view_layer_that_shows_the_object_is_read() -> None:
    ob = support.cloth(side=12)
    scene = bpy.context.scene
    collection = bpy.data.collections.new("Set")
    scene.collection.children.link(collection)
    collection.objects.link(ob)
    scene.collection.objects.unlink(ob)
    scene.view_layers.new("Second")
    bpy.context.view_layer.layer_collection.children["Set"].exclude = True
    assert errors(ob) == ""
    assert support.ours("blender.capture").begin(scene, [ob], 1, 2).block(2).frame == 2


def test_settings_that_cannot_work(tmp_path: Path) -> None:
    ob = support.cloth(side=12)
    settings = ob.taichi_cloth
    settings.use_scene_range = False
    settings.frame_start, settings.frame_end = 10, 10
    assert "10 to 10" in errors(ob)
    settings.frame_end = 11
    ob.scale.y = 0.0
    bpy.context.view_layer.update()
    assert "scale of zero" in errors(ob)
    with pytest.raises(support.ours("blender.capture").CaptureError, match="scale"):
        support.ours("blender.capture").begin(bpy.context.scene, [ob], 1, 2)
    ob.scale.y = 1e-3  # millimetres in metres
    bpy.context.view_layer.update()
    assert errors(ob) == ""


def test_gravity_in_an_odd_unit_is_named() -> None:
    ob = support.cloth(side=12)
    scene = bpy.context.scene
    scene.unit_settings.scale_length = 0.001
    assert warnings(ob) == ""
    scene.gravity = (0.0, 0.0, -9810.0)
    assert "9810" in warnings(ob)


def linked(tmp_path: Path, subdivided: bool = False) -> Any:
    """A cloth linked from another file."""
    support.save(tmp_path / "library.blend")
    ob = support.cloth(side=12, name="Flag")
    if subdivided:
        ob.modifiers.new("Subdivision", "SUBSURF")
    name = ob.name
    bpy.ops.wm.save_mainfile()
    support.new_file()
    with bpy.data.libraries.load(str(tmp_path / "library.blend"), link=True) as (_, wanted):
        wanted.objects = [name]
    ob = wanted.objects[0]
    bpy.context.collection.objects.link(ob)
    return ob


def test_linked_objects_are_refused_with_the_way_out(tmp_path: Path) -> None:
    ob = linked(tmp_path)
    text = errors(ob)
    assert "linked from library.blend" in text
    assert "Make Local" in text
    attach = support.ours("blender.attach")
    with pytest.raises(attach.AttachError, match="linked"):
        attach.attach(ob, tmp_path / "a.pc2", 1)


@pytest.mark.parametrize("subdivided", [False, True])
def test_library_overrides_can_be_baked(subdivided: bool, tmp_path: Path) -> None:
    override = linked(tmp_path, subdivided).override_create(remap_local_usages=True)
    assert errors(override) == ""
    capture, attach = support.ours("blender.capture"), support.ours("blender.attach")
    uid = support.ours("blender.properties").ensure_uid(override)
    captured = capture.begin(bpy.context.scene, [override], 1, 3)
    with support.ours("cache.pc2").Pc2Writer(tmp_path / "a.pc2", 144, 1) as writer:
        writer.append(captured.job.cloths[0].part.positions + 1.0)
    support.save(tmp_path / "shot.blend")
    attach.attach(override, tmp_path / "a.pc2", 1)
    name = override.name
    order = [m.name for m in override.modifiers]
    assert order == ["Taichi Cloth", "Subdivision"][: len(order)]
    support.save(tmp_path / "shot.blend")
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    override = bpy.data.objects[name]
    assert [m.name for m in override.modifiers] == order
    # Its cache is found again: the uid is its own, not the library's.
    assert override.taichi_cloth.uid == uid
    assert override.override_library.reference.taichi_cloth.uid != uid
    assert support.evaluated(override, 2)[:, 2].min() == pytest.approx(1.0)
    assert support.evaluated(override, 0)[:, 2].max() == pytest.approx(0.0)
    attach.detach(override)
    assert support.evaluated(override, 2)[:, 2].max() == pytest.approx(0.0)


def test_a_linked_mesh_on_a_local_object_can_be_baked(tmp_path: Path) -> None:
    mesh = linked(tmp_path).data
    ob = bpy.data.objects.new("Here", mesh)
    bpy.context.collection.objects.link(ob)
    assert errors(ob) == ""
    positions = support.evaluated(ob, 1)
    with support.ours("cache.pc2").Pc2Writer(tmp_path / "a.pc2", 144, 1) as writer:
        writer.append(positions + 1.0)
    attach = support.ours("blender.attach")
    attach.attach(ob, tmp_path / "a.pc2", 1)
    assert support.evaluated(ob, 2)[0, 2] == pytest.approx(1.0)
    attach.to_shape_keys(ob, bpy.context.scene, tmp_path / "a.pc2")
    assert support.evaluated(ob, 2)[0, 2] == pytest.approx(1.0)
    assert ob.data.library is None
    assert mesh.shape_keys is None


# ---------------------------------------------------------------------- fingerprints


def settings_hash(ob: Any) -> str:
    return str(support.ours("blender.capture").settings_hash(ob))


def test_whatever_decides_the_result_changes_the_fingerprint() -> None:
    """Report 66."""
    ob = support.cloth(side=4)
    scene = bpy.context.scene
    settings = ob.taichi_cloth
    seen = [settings_hash(ob)]

    def changed() -> bool:
        seen.append(settings_hash(ob))
        return len(set(seen)) == len(seen)

    settings.tension_stiffness *= 1.01
    assert changed()
    settings.use_wind = True
    assert changed()
    settings.wind_velocity.x += 0.5
    assert changed()
    settings.pin_group = ""
    assert changed()
    ob.data.vertices[0].co.z += 0.01
    assert changed()
    scene.gravity.z = -1.0
    assert changed()
    scene.render.fps = 60
    assert changed()
    scene.frame_start = 2
    assert changed()
    settings.motion_samples = 5
    assert changed()
    ob.shape_key_add(name="Basis")
    ob.shape_key_add(name="Up").data[0].co.z = 3.0
    assert changed()


def test_pin_weights_change_the_fingerprint() -> None:
    ob = support.cloth(side=4)
    before = settings_hash(ob)
    ob.vertex_groups["Pins"].add([0], 0.5, "REPLACE")
    assert settings_hash(ob) != before


def test_what_does_not_matter_leaves_the_fingerprint() -> None:
    ob = support.cloth(side=4)
    settings = ob.taichi_cloth
    for frame, density in ((1, 0.1), (9, 0.3)):
        settings.density = density
        ob.keyframe_insert("taichi_cloth.density", frame=frame)
    for frame, z in ((1, -9.81), (9, 0.0)):
        bpy.context.scene.gravity.z = z
        bpy.context.scene.keyframe_insert("gravity", frame=frame)
    before = settings_hash(ob)
    for frame in (1, 5):
        bpy.context.scene.frame_set(frame)
        assert settings_hash(ob) == before
    ob.location.x = 3.0
    ob.name = "Other"
    settings.cache_folder = "/tmp"
    settings.output = "SHAPE_KEYS"
    bpy.context.scene.frame_end += 100
    assert settings_hash(ob) == before
    settings.use_wind = False
    settings.wind_velocity.x = 9.0
    assert settings_hash(ob) == before


def test_topology_hash_sees_connections_not_positions() -> None:
    ob = support.cloth(side=4)
    topology_hash = support.ours("blender.capture").topology_hash
    before = topology_hash(ob)
    ob.data.vertices[0].co.z += 1.0
    assert topology_hash(ob) == before
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.quads_convert_to_tris()
    bpy.ops.object.mode_set(mode="OBJECT")
    assert topology_hash(ob) != before


# ---------------------------------------------------------------------- places of files


def cache_path(ob: Any) -> Path:
    return Path(support.ours("blender.capture").cache_path(ob, bpy.context.scene))


def test_files_lie_beside_the_blend_in_a_folder_of_its_name(tmp_path: Path) -> None:
    """Report 58: names outside ASCII."""
    folder = tmp_path / "тест"
    folder.mkdir()
    support.save(folder / "布.blend")
    ob = support.cloth(side=4)
    uid = support.ours("blender.properties").ensure_uid(ob)
    assert cache_path(ob) == folder / "cache_taichi_cloth" / "布" / f"{uid}.pc2"


def test_an_unsaved_file_has_a_folder_of_its_session(user_folder: Path) -> None:
    """Report 55."""
    ob = support.cloth(side=4)
    uid = support.ours("blender.properties").ensure_uid(ob)
    path = cache_path(ob)
    assert path.is_relative_to(user_folder)
    assert path.name == f"{uid}.pc2"
    session = support.ours("blender.cache_paths")._SESSION
    assert session in path.parts
    assert len(session) >= 12
    ob.taichi_cloth.cache_folder = "//cache"  # means nothing yet
    assert cache_path(ob).is_relative_to(user_folder)


@pytest.mark.skipif(sys.platform == "win32", reason="backslashes are at home there")
@pytest.mark.parametrize("stored", ["//cache\\", "//cache", "//cache/", "//sub\\..\\cache\\"])
def test_a_path_stored_on_another_system_works(stored: str, tmp_path: Path) -> None:
    """Report 60."""
    support.save(tmp_path / "a.blend")
    ob = support.cloth(side=12)
    support.ours("blender.properties").ensure_uid(ob)
    ob.taichi_cloth.cache_folder = stored
    assert cache_path(ob).parent == tmp_path / "cache" / "a"
    assert errors(ob) == ""


def test_a_folder_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    """Report 57."""
    support.save(tmp_path / "a.blend")
    ob = support.cloth(side=12)
    (tmp_path / "file").write_text("")
    ob.taichi_cloth.cache_folder = str(tmp_path / "file" / "nope")
    assert "no folder" in errors(ob)
    if sys.platform != "win32":
        ob.taichi_cloth.cache_folder = "Z:\\nope"
        assert "Windows drive" in errors(ob)
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if not os.access(locked, os.W_OK):
        ob.taichi_cloth.cache_folder = str(locked / "deeper")
        assert "cannot be written" in errors(ob)


def test_the_range_is_the_scenes_simulation_range() -> None:
    """Reports 44 and 50."""
    ob = support.cloth(side=4, frames=(3, 400))
    scene = bpy.context.scene
    frame_range = support.ours("blender.capture").frame_range
    assert frame_range(scene, ob) == (3, 400)
    scene.use_custom_simulation_range = True
    scene.simulation_frame_start, scene.simulation_frame_end = 1001, 1100
    assert frame_range(scene, ob) == (1001, 1100)
    ob.taichi_cloth.use_scene_range = False
    ob.taichi_cloth.frame_start, ob.taichi_cloth.frame_end = -20, 50
    assert frame_range(scene, ob) == (-20, 50)
