# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape that is simulated and what the pins follow: modifiers, keys, groups."""

from typing import Any

import bpy
import numpy as np
import pytest

from tests.blender import support


def begin(*objects: Any, start: int = 1, end: int = 4) -> Any:
    return support.ours("blender.capture").begin(bpy.context.scene, list(objects), start, end)


def targets(block: Any) -> Any:
    return block.inputs.samples[-1].pin_targets


def positions(captured: Any) -> Any:
    return captured.job.cloths[0].part.positions


def state_of(ob: Any) -> Any:
    """Everything about a stack that capture must leave as it found it."""
    scene = bpy.context.scene
    animation = support.ours("blender.animation")
    return (
        [(m.name, m.show_viewport, m.show_render) for m in ob.modifiers],
        [c.mute for c in (*animation.fcurves(ob), *animation.drivers(ob))],
        (scene.frame_current, scene.frame_subframe),
        (len(bpy.data.meshes), len(bpy.data.objects), len(bpy.data.actions)),
    )


def hook(ob: Any, travel: float = 1.0) -> Any:
    """An empty that moves the pinned vertices along x from frame 1 to 3."""
    empty = bpy.data.objects.new("Hook", None)
    bpy.context.collection.objects.link(empty)
    modifier = ob.modifiers.new("Hook", "HOOK")
    modifier.object = empty
    modifier.vertex_group = "Pins"
    for frame, x in ((1, 0.0), (3, travel)):
        empty.location.x = x
        empty.keyframe_insert("location", frame=frame)
    for curve in support.ours("blender.animation").fcurves(empty):
        for key in curve.keyframe_points:
            key.interpolation = "LINEAR"
    return modifier


def armature(ob: Any) -> Any:
    """An armature whose one bone holds the whole mesh, posed 1 m up."""
    data = bpy.data.armatures.new("Rig")
    rig = bpy.data.objects.new("Rig", data)
    bpy.context.collection.objects.link(rig)
    support.select(rig)
    bpy.ops.object.mode_set(mode="EDIT")
    bone = data.edit_bones.new("Bone")
    bone.tail = (0.0, 0.0, 1.0)
    bpy.ops.object.mode_set(mode="OBJECT")
    support.select(ob)
    group = ob.vertex_groups.new(name="Bone")
    group.add(list(range(len(ob.data.vertices))), 1.0, "REPLACE")
    modifier = ob.modifiers.new("Armature", "ARMATURE")
    modifier.object = rig
    rig.pose.bones["Bone"].location = (0.0, 1.0, 0.0)  # along the bone
    return modifier


def nodes(ob: Any, name: str, build: Any) -> Any:
    """A Geometry Nodes modifier; ``build`` links the input geometry to the output's."""
    tree = bpy.data.node_groups.new(name, "GeometryNodeTree")
    for way in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=way, socket_type="NodeSocketGeometry")
    source = tree.nodes.new("NodeGroupInput").outputs[0]
    sink = tree.nodes.new("NodeGroupOutput").inputs[0]
    tree.links.new(build(tree, source), sink)
    modifier = ob.modifiers.new(name, "NODES")
    modifier.node_group = tree
    return modifier


def lift(tree: Any, geometry: Any) -> Any:
    node = tree.nodes.new("GeometryNodeSetPosition")
    node.inputs["Offset"].default_value = (0.0, 0.0, 1.0)
    tree.links.new(geometry, node.inputs[0])
    return node.outputs[0]


def subdivide(tree: Any, geometry: Any) -> Any:
    node = tree.nodes.new("GeometryNodeSubdivideMesh")
    tree.links.new(geometry, node.inputs[0])
    return node.outputs[0]


def store(name: str, kind: str = "FLOAT") -> Any:
    def build(tree: Any, geometry: Any) -> Any:
        node = tree.nodes.new("GeometryNodeStoreNamedAttribute")
        node.data_type = kind
        node.domain = "POINT"
        node.inputs["Name"].default_value = name
        value = next(s for s in node.inputs if s.name == "Value" and s.enabled)
        value.default_value = 0.5 if kind == "FLOAT" else True
        tree.links.new(geometry, node.inputs[0])
        return node.outputs[0]

    return build


def test_starts_from_the_posed_shape() -> None:
    """Report 24: an armature posed once, without keys."""
    ob = support.cloth(side=4)
    armature(ob)
    found = positions(begin(ob))
    np.testing.assert_allclose(found[:, 2], 1.0, atol=1e-6)


def test_pins_follow_a_hook() -> None:
    """Report 26."""
    ob = support.cloth(side=4)
    hook(ob)
    captured = begin(ob)
    start = targets(captured.first)
    xs = [targets(captured.block(frame))[0, 0] - start[0, 0] for frame in (2, 3)]
    np.testing.assert_allclose(xs, [0.5, 1.0], atol=1e-4)
    halfway = captured.block(2).inputs.samples[0].pin_targets
    np.testing.assert_allclose(halfway[:, 0], start[:, 0] + 0.25, atol=1e-4)


def test_pins_follow_shape_keys_and_nodes() -> None:
    ob = support.cloth(side=4)
    ob.shape_key_add(name="Basis")
    key = ob.shape_key_add(name="Up")
    for point in key.data:
        point.co.z += 2.0
    for frame, value in ((1, 0.0), (3, 1.0)):
        key.value = value
        key.keyframe_insert("value", frame=frame)
    nodes(ob, "Lift", lift)
    captured = begin(ob)
    np.testing.assert_allclose(targets(captured.first)[:, 2], 1.0, atol=1e-6)
    np.testing.assert_allclose(targets(captured.block(3))[:, 2], 3.0, atol=1e-6)


@pytest.mark.parametrize(("kind", "weight"), [("FLOAT", 0.5), ("BOOLEAN", 1.0)])
def test_pins_from_an_attribute_of_nodes(kind: str, weight: float) -> None:
    """Report 27: the group exists on the evaluated mesh only."""
    ob = support.cloth(side=4)
    nodes(ob, "Store", store("held", kind))
    ob.taichi_cloth.pin_group = "held"
    assert "held" not in ob.vertex_groups
    part = begin(ob).job.cloths[0].part
    np.testing.assert_array_equal(part.pin_vertices, np.arange(16))
    np.testing.assert_allclose(part.pin_weights, weight)


def test_pins_from_a_group_that_a_modifier_writes() -> None:
    ob = support.cloth(side=4)
    edit = ob.modifiers.new("Edit", "VERTEX_WEIGHT_EDIT")
    edit.vertex_group = "Pins"
    edit.use_add = True
    edit.default_weight = 0.25
    edit.add_threshold = 0.0
    part = begin(ob).job.cloths[0].part
    assert len(part.pin_vertices) == 16
    assert part.pin_weights.min() == pytest.approx(0.25)


def test_weights_of_zero_are_no_pins_and_loose_vertices_follow() -> None:
    """Report 1."""
    ob = support.cloth(side=4)
    ob.vertex_groups["Pins"].add([0], 0.0, "REPLACE")
    ob.data.vertices.add(1)
    part = begin(ob).job.cloths[0].part
    assert 0 not in part.pin_vertices
    assert part.pin_vertices[-1] == 16
    assert part.pin_weights[-1] == 1.0


def test_generative_modifiers_after_the_cloth_are_left_out() -> None:
    ob = support.cloth(side=4)
    hook(ob)
    ob.modifiers.new("Subdivision", "SUBSURF")
    solid = ob.modifiers.new("Solidify", "SOLIDIFY")
    solid.show_viewport = False
    before = state_of(ob)
    with begin(ob) as captured:
        assert captured.job.cloths[0].part.mesh.vertex_count == 16
        captured.block(2)
    assert state_of(ob) == before
    scene, layer = bpy.context.scene, bpy.context.view_layer
    assert support.ours("blender.evaluated").place_of(ob, layer).index == 1
    support.ours("blender.capture").check(scene, [ob])
    assert state_of(ob) == before


def test_a_generative_modifier_with_animated_visibility_is_left_out() -> None:
    ob = support.cloth(side=4)
    hook(ob)
    subdivision = ob.modifiers.new('Sub "1"', "SUBSURF")
    for frame, on in ((1, False), (2, True)):
        subdivision.show_viewport = on
        subdivision.keyframe_insert("show_viewport", frame=frame)
    solid = ob.modifiers.new("Solidify", "SOLIDIFY")
    driver = solid.driver_add("show_viewport").driver
    driver.expression = "frame > 1"
    bpy.context.scene.frame_set(3)
    before = state_of(ob)
    with begin(ob) as captured:
        block = captured.block(3)
    np.testing.assert_allclose(targets(block)[:, 0], targets(captured.first)[:, 0] + 1.0, atol=1e-4)
    assert state_of(ob) == before


@pytest.mark.parametrize("kind", ["SUBSURF", "MIRROR", "SOLIDIFY"])
def test_generative_before_posing_is_refused_with_the_way_out(kind: str) -> None:
    """Report 25."""
    ob = support.cloth(side=4)
    ob.modifiers.new("First", kind)
    armature(ob)
    capture = support.ours("blender.capture")
    before = state_of(ob)
    with pytest.raises(capture.CaptureError, match=r'"Armature" above "First", or apply "First"'):
        begin(ob)
    assert state_of(ob) == before
    problems = [p for p in capture.check(bpy.context.scene, [ob]) if p.severity == "ERROR"]
    assert len(problems) == 1
    assert "First" in problems[0].message
    ob.modifiers["First"].show_viewport = ob.modifiers["First"].show_render = False
    begin(ob)


@pytest.mark.parametrize("deform", [True, False])
def test_nodes_are_told_apart_by_what_they_do(deform: bool) -> None:
    ob = support.cloth(side=4)
    nodes(ob, "Nodes", lift if deform else subdivide)
    ob.modifiers.new("Subdivision", "SUBSURF")
    layer = bpy.context.view_layer
    place = support.ours("blender.evaluated").place_of(ob, layer)
    assert (place.index, place.error) == (1 if deform else 0, "")
    assert positions(begin(ob))[0, 2] == pytest.approx(1.0 if deform else 0.0)


def test_nodes_that_are_on_in_renders_only_have_their_place_too() -> None:
    ob = support.cloth(side=4)
    modifier = nodes(ob, "Nodes", subdivide)
    modifier.show_viewport = False
    before = state_of(ob)
    place = support.ours("blender.evaluated").place_of(ob, bpy.context.view_layer)
    assert place.index == 0
    assert state_of(ob) == before


def test_edit_mode_keeps_the_place_that_was_found() -> None:
    ob = support.cloth(side=4)
    nodes(ob, "Nodes", subdivide)
    place_of = support.ours("blender.evaluated").place_of
    assert place_of(ob, bpy.context.view_layer).index == 0
    bpy.ops.object.mode_set(mode="EDIT")
    assert place_of(ob, bpy.context.view_layer).index == 0
    bpy.ops.object.mode_set(mode="OBJECT")


def test_smooth_by_angle_is_no_deformation() -> None:
    """Report 33."""
    ob = support.cloth(side=4)
    nodes(ob, "Smooth by Angle", lambda tree, geometry: geometry)
    place = support.ours("blender.evaluated").place_of(ob, bpy.context.view_layer)
    assert (place.index, place.deforming) == (0, ())


def test_a_bake_does_not_feed_on_an_earlier_one(tmp_path: Any) -> None:
    ob = support.cloth(side=4)
    hook(ob)
    plain = begin(ob)
    wanted = targets(plain.block(3))
    with support.ours("cache.pc2").Pc2Writer(tmp_path / "a.pc2", 16, 1) as writer:
        for _ in range(4):
            writer.append(np.full((16, 3), 9.0))
    attach = support.ours("blender.attach")
    attach.attach(ob, tmp_path / "a.pc2", 1)
    for _ in range(2):
        before = state_of(ob)
        keys = support.ours("blender.evaluated").own_keys(ob)
        with begin(ob) as captured:
            np.testing.assert_allclose(positions(captured), positions(plain), atol=1e-6)
            np.testing.assert_allclose(targets(captured.block(3)), wanted, atol=1e-6)
        assert state_of(ob) == before
        assert support.evaluated(ob, 3)[0, 0] == pytest.approx(9.0)
        if not keys:
            attach.to_shape_keys(ob, bpy.context.scene, tmp_path / "a.pc2")


def test_a_bake_does_not_feed_on_relative_keys_of_an_earlier_one(tmp_path: Any) -> None:
    ob = support.cloth(side=4)
    ob.shape_key_add(name="Basis")
    key = ob.shape_key_add(name="Up")
    for point in key.data:
        point.co.z += 2.0
    key.value = 1.0
    hook(ob)
    wanted = targets(begin(ob).block(3))
    with support.ours("cache.pc2").Pc2Writer(tmp_path / "a.pc2", 16, 1) as writer:
        for _ in range(4):
            writer.append(np.full((16, 3), 9.0))
    support.ours("blender.attach").to_shape_keys(ob, bpy.context.scene, tmp_path / "a.pc2")
    before = state_of(ob)
    with begin(ob) as captured:
        np.testing.assert_allclose(targets(captured.block(3)), wanted, atol=1e-6)
    assert state_of(ob) == before
    assert not key.mute or support.evaluated(ob, 3)[0, 0] == pytest.approx(9.0)
    assert support.evaluated(ob, 3)[0, 0] == pytest.approx(9.0, abs=1e-5)


def test_rival_simulations_are_ignored_and_switched_off() -> None:
    ob = support.cloth(side=4)
    rival = ob.modifiers.new("Cloth", "CLOTH")
    assert positions(begin(ob))[0, 2] == 0.0
    assert rival.show_viewport
    problems = support.ours("blender.capture").check(bpy.context.scene, [ob])
    assert any('"Cloth"' in p.message and p.severity == "WARNING" for p in problems)
    assert support.ours("blender.attach").disable_rival_modifiers(ob) == ["Cloth"]
    assert not rival.show_viewport
    assert not rival.show_render
    assert support.ours("blender.attach").disable_rival_modifiers(ob) == []


def test_the_users_frame_comes_back_with_its_subframe() -> None:
    ob = support.cloth(side=4)
    scene = bpy.context.scene
    scene.frame_set(17, subframe=0.25)
    with begin(ob) as captured:
        captured.block(2)
        captured.restore()
        assert (scene.frame_current, scene.frame_subframe) == (17, 0.25)
        captured.block(3)
        scene.frame_set(40)  # the user scrubs
        captured.block(4)
    assert (scene.frame_current, scene.frame_subframe) == (40, 0.0)


def test_slow_scenes_are_read_one_frame_change_at_a_time() -> None:
    ob = support.cloth(side=4)
    hook(ob)
    scene = bpy.context.scene
    scene.frame_set(9)
    captured = begin(ob)
    whole = captured.block(2)
    captured.restore()
    changes: list[int] = []
    bpy.app.handlers.frame_change_post.append(lambda *_: changes.append(scene.frame_current))
    parts = []
    for _ in range(2):
        changes.clear()
        captured._seconds = 1.0
        parts.append(captured.advance(2))
        captured._seconds = 1.0
        captured.restore(if_quick=True)
        assert len(changes) == 1
    bpy.app.handlers.frame_change_post.pop()
    assert parts[0] is None
    for one, other in zip(parts[1].inputs.samples, whole.inputs.samples, strict=True):
        np.testing.assert_array_equal(one.pin_targets, other.pin_targets)
    captured.restore()
    assert scene.frame_current == 9


def test_a_still_cloth_is_not_evaluated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing deforms it, so no modifier is switched and no mesh is read."""
    ob = support.cloth(side=4)
    ob.modifiers.new("Subdivision", "SUBSURF")
    captured = begin(ob)
    evaluated = support.ours("blender.evaluated")
    monkeypatch.setattr(evaluated, "unbaked", None)
    monkeypatch.setattr(evaluated, "evaluated_mesh", None)
    assert len(targets(captured.block(2))) == 4


def test_objects_are_found_by_uid_and_missed_by_name() -> None:
    ob = support.cloth(side=4, name="Flag")
    captured = begin(ob)
    ob.name = "Banner"
    captured.block(2)
    bpy.data.objects.remove(ob)
    error = support.ours("blender.capture").CaptureError
    with pytest.raises(error, match=r"Banner.*deleted"):
        captured.block(3)
    assert bpy.context.scene.frame_current == 2


def test_edit_mode_is_refused_with_the_way_out_and_checked_with_its_edits() -> None:
    capture = support.ours("blender.capture")
    ob = support.cloth(side=12)
    captured = begin(ob)
    hook(ob)
    deforming = begin(ob)
    bpy.ops.object.mode_set(mode="EDIT")
    captured.block(2)  # nothing deforms it: nothing to read from it
    for read in (lambda: begin(ob), lambda: deforming.block(3)):
        with pytest.raises(capture.CaptureError, match=r"Cloth.*Edit Mode.*Tab"):
            read()
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.mesh.delete(type="ONLY_FACE")
    problems = capture.check(bpy.context.scene, [ob])
    assert ob.mode == "EDIT"
    assert any("no faces" in p.message for p in problems)
    bpy.ops.object.mode_set(mode="OBJECT")


def test_sculpt_mode_reads_what_was_sculpted() -> None:
    ob = support.cloth(side=4)
    bpy.ops.object.mode_set(mode="SCULPT")
    ob.data.vertices[5].co.z = 0.5
    ob.data.update()
    found = positions(begin(ob))
    assert found[5, 2] == pytest.approx(0.5)
    bpy.ops.object.mode_set(mode="OBJECT")


def test_dynamic_topology_is_refused_with_the_way_out() -> None:
    ob = support.cloth(side=12)
    bpy.ops.object.mode_set(mode="SCULPT")
    bpy.ops.sculpt.dynamic_topology_toggle()
    if not ob.use_dynamic_topology_sculpting:
        pytest.skip("no dynamic topology without a window")
    problems = support.ours("blender.capture").check(bpy.context.scene, [ob])
    assert any("Leave Sculpt Mode" in p.message for p in problems)
    bpy.ops.sculpt.dynamic_topology_toggle()
    bpy.ops.object.mode_set(mode="OBJECT")


def test_a_mesh_of_several_users_is_read_through_its_object() -> None:
    ob = support.cloth(side=4)
    other = bpy.data.objects.new("Other", ob.data)
    bpy.context.collection.objects.link(other)
    hook(ob)
    captured = begin(ob)
    np.testing.assert_allclose(
        targets(captured.block(3))[:, 0], targets(captured.first)[:, 0] + 1.0, atol=1e-4
    )


def test_an_object_in_another_scene_is_read_there() -> None:
    ob = support.cloth(side=4)
    hook(ob, travel=0.0)
    other = bpy.data.scenes.new("Other")
    other.collection.objects.link(ob)
    other.gravity = (0.0, 0.0, -1.0)
    capture = support.ours("blender.capture")
    with capture.begin(other, [ob], 1, 3) as captured:
        assert captured.block(2).inputs.samples[0].gravity[2] == -1.0
    assert capture.check(other, [ob]) == capture.check(bpy.context.scene, [ob])


def test_reading_many_frames_leaves_nothing_behind() -> None:
    """Report 87, for cloth: evaluated meshes do not pile up."""
    ob = support.cloth(side=40)
    hook(ob)
    ob.modifiers.new("Subdivision", "SUBSURF")
    with begin(ob, end=100) as captured:
        captured.block(2)
        before = (state_of(ob)[0], state_of(ob)[3], resident())
        for frame in range(3, 100):
            captured.block(frame)
    after = (state_of(ob)[0], state_of(ob)[3], resident())
    assert after[:2] == before[:2]
    assert after[2] - before[2] < 20e6


def resident() -> int:
    """Bytes of memory in use."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        pytest.skip("no /proc")
