# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators that set a cloth up, and why a button is greyed."""

from typing import Any

import bmesh
import bpy
import pytest

from tests.blender import support


def poll_reason(operator: Any) -> str:
    with pytest.raises(RuntimeError) as caught:
        operator()
    return str(caught.value)


def test_add_and_remove() -> None:
    ob = support.grid()
    assert bpy.ops.taichi_cloth.add() == {"FINISHED"}
    assert ob.taichi_cloth.enabled
    assert len(ob.taichi_cloth.uid) == 32
    ob.taichi_cloth.density = 1.0
    assert bpy.ops.taichi_cloth.remove() == {"FINISHED"}
    assert not ob.taichi_cloth.enabled
    assert not ob.taichi_cloth.uid
    default = ob.taichi_cloth.bl_rna.properties["density"].default
    assert ob.taichi_cloth.density == default


def test_add_takes_all_selected_meshes() -> None:
    one = support.grid(name="One")
    two = support.grid(name="Two")
    bpy.ops.object.empty_add()
    empty = bpy.context.object
    support.select(two, one, empty)
    bpy.ops.taichi_cloth.add()
    assert one.taichi_cloth.enabled
    assert two.taichi_cloth.enabled
    assert not empty.taichi_cloth.enabled


def test_greyed_buttons_say_why() -> None:
    assert "Select a mesh object" in poll_reason(bpy.ops.taichi_cloth.bake)
    bpy.ops.object.empty_add()
    assert "Select a mesh object" in poll_reason(bpy.ops.taichi_cloth.add)
    support.grid()
    assert "Select a cloth" in poll_reason(bpy.ops.taichi_cloth.remove)
    assert "no cloth yet" in poll_reason(bpy.ops.taichi_cloth.apply_preset)
    bpy.ops.taichi_cloth.add()
    assert "no bake to delete" in poll_reason(bpy.ops.taichi_cloth.delete_bake)
    assert "no cancelled bake" in poll_reason(bpy.ops.taichi_cloth.resume)
    assert "has no bake" in poll_reason(bpy.ops.taichi_cloth.to_shape_keys)
    assert "No bake is running" in poll_reason(bpy.ops.taichi_cloth.cancel)
    bpy.ops.object.mode_set(mode="EDIT")
    assert "press Tab" in poll_reason(bpy.ops.taichi_cloth.bake)


def test_rival_modifiers_are_switched_off_with_notice(capfd: Any) -> None:
    ob = support.grid()
    rival = ob.modifiers.new("Old Cloth", "CLOTH")
    soft = ob.modifiers.new("Jelly", "SOFT_BODY")
    bpy.ops.taichi_cloth.add()
    assert not rival.show_viewport
    assert not rival.show_render
    assert not soft.show_viewport
    assert "Old Cloth" in capfd.readouterr().out


def test_subdivide_keeps_groups_keys_and_uvs() -> None:
    bpy.ops.mesh.primitive_plane_add()
    ob = bpy.context.object
    group = ob.vertex_groups.new(name="Top")
    group.add([2, 3], 1.0, "REPLACE")
    ob.shape_key_add(name="Basis")
    key = ob.shape_key_add(name="Up")
    for point in key.data:
        point.co.z += 1.0
    assert bpy.ops.taichi_cloth.subdivide() == {"FINISHED"}
    assert 900 <= len(ob.data.polygons) <= 1100
    assert len(ob.data.uv_layers) == 1
    assert ob.data.shape_keys.key_blocks["Up"].data[-1].co.z == pytest.approx(1.0)
    top = [v for v in ob.data.vertices if any(g.group == group.index for g in v.groups)]
    assert len(top) >= 32
    assert not any(len(p.vertices) != 4 for p in ob.data.polygons)


def test_subdivide_a_shared_mesh_leaves_the_other_object() -> None:
    bpy.ops.mesh.primitive_cube_add()
    one = bpy.context.object
    bpy.ops.object.duplicate(linked=True)
    two = bpy.context.object
    bpy.ops.taichi_cloth.subdivide(cuts=3)
    assert len(one.data.vertices) == 8
    assert len(two.data.polygons) == 96


def test_pin_selected_in_edit_mode() -> None:
    ob = support.grid(pinned=False)
    bpy.ops.taichi_cloth.add()
    bpy.ops.object.mode_set(mode="EDIT")
    edited = bmesh.from_edit_mesh(ob.data)
    for vertex in edited.verts:
        vertex.select_set(vertex.co.y > 0.49)
    assert bpy.ops.taichi_cloth.pin_selected() == {"FINISHED"}
    assert ob.mode == "EDIT"
    bpy.ops.object.mode_set(mode="OBJECT")
    assert ob.taichi_cloth.pin_group == "Pin"
    pinned = {v.index for v in ob.data.vertices if v.groups and v.groups[0].weight == 1.0}
    assert pinned == {v.index for v in ob.data.vertices if v.co.y > 0.49}


def test_pin_selected_in_object_mode() -> None:
    ob = support.grid(pinned=False)
    bpy.ops.taichi_cloth.add()
    with pytest.raises(RuntimeError, match="All vertices are selected"):
        bpy.ops.taichi_cloth.pin_selected()
    ob.data.vertices.foreach_set("select", [v.co.y > 0.49 for v in ob.data.vertices])
    bpy.ops.taichi_cloth.pin_selected()
    assert sum(bool(v.groups) for v in ob.data.vertices) == 8


def test_check_mesh_lists_every_problem() -> None:
    ob = support.cloth(4, pinned=False)
    bpy.ops.taichi_cloth.check_mesh()
    fixes = {p.fix for p in support.ours("blender.status").problems(ob)}
    assert {"PIN", "SUBDIVIDE"} <= fixes


def test_check_mesh_fails_on_errors() -> None:
    ob = support.cloth()
    ob.taichi_cloth.pin_group = "Gone"
    with pytest.raises(RuntimeError, match="Gone"):
        bpy.ops.taichi_cloth.check_mesh()


def test_cancelled_confirmation_is_not_needed_by_scripts() -> None:
    support.cloth()
    assert bpy.ops.taichi_cloth.remove("EXEC_DEFAULT") == {"FINISHED"}
