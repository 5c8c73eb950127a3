# SPDX-License-Identifier: GPL-3.0-or-later
"""Undo and redo after every operator: the state is that of the step undone to."""

from typing import Any

import bpy
import pytest

from tests.blender import support

pytestmark = pytest.mark.usefixtures("fake_worker")


def run(operator: Any, **options: Any) -> None:
    """Run an operator as the interface does: with an undo step."""
    assert operator("EXEC_DEFAULT", True, **options) == {"FINISHED"}


def cloth() -> Any:
    return bpy.data.objects["Cloth"]


def start() -> Any:
    ob = support.grid()
    bpy.context.scene.frame_end = 4
    bpy.ops.ed.undo_push(message="Start")
    return ob


def test_add() -> None:
    start()
    run(bpy.ops.taichi_cloth.add)
    uid = cloth().taichi_cloth.uid
    bpy.ops.ed.undo()
    assert not cloth().taichi_cloth.enabled
    bpy.ops.ed.redo()
    assert cloth().taichi_cloth.enabled
    assert cloth().taichi_cloth.uid == uid


def test_preset() -> None:
    start()
    run(bpy.ops.taichi_cloth.add)
    before = cloth().taichi_cloth.density
    run(bpy.ops.taichi_cloth.apply_preset, preset="DENIM")
    denim = cloth().taichi_cloth.density
    assert denim != before
    bpy.ops.ed.undo()
    assert cloth().taichi_cloth.density == before
    bpy.ops.ed.redo()
    assert cloth().taichi_cloth.density == denim


def test_bake() -> None:
    start()
    run(bpy.ops.taichi_cloth.add)
    run(bpy.ops.taichi_cloth.bake)
    assert cloth().taichi_cloth_status.state == "BAKED"
    bpy.ops.ed.undo()
    assert cloth().taichi_cloth_status.state == "NONE"
    assert not cloth().modifiers
    assert cloth().vertex_groups["Pins"]
    assert cloth().taichi_cloth.pin_group == "Pins"
    bpy.ops.ed.redo()
    assert cloth().taichi_cloth_status.state == "BAKED"
    assert support.evaluated(cloth(), 4)[0, 2] < -0.01
    bpy.ops.ed.undo()
    bpy.ops.ed.undo()
    assert not cloth().taichi_cloth.enabled


def test_rebake_after_undo() -> None:
    start()
    run(bpy.ops.taichi_cloth.add)
    run(bpy.ops.taichi_cloth.bake)
    bpy.ops.ed.undo()
    run(bpy.ops.taichi_cloth.bake)
    assert cloth().taichi_cloth_status.state == "BAKED"


def test_delete_bake() -> None:
    start()
    run(bpy.ops.taichi_cloth.add)
    run(bpy.ops.taichi_cloth.bake)
    run(bpy.ops.taichi_cloth.delete_bake)
    assert cloth().taichi_cloth_status.state == "NONE"
    bpy.ops.ed.undo()
    # The modifier is back, the file is not: that is said.
    assert cloth().taichi_cloth_status.state == "ERROR"
    assert "missing" in cloth().taichi_cloth_status.message
    bpy.ops.ed.redo()
    assert cloth().taichi_cloth_status.state == "NONE"


def test_remove() -> None:
    start()
    run(bpy.ops.taichi_cloth.add)
    run(bpy.ops.taichi_cloth.remove)
    assert not cloth().taichi_cloth.enabled
    bpy.ops.ed.undo()
    assert cloth().taichi_cloth.enabled
    bpy.ops.ed.redo()
    assert not cloth().taichi_cloth.enabled


def test_to_shape_keys() -> None:
    start()
    run(bpy.ops.taichi_cloth.add)
    run(bpy.ops.taichi_cloth.bake)
    run(bpy.ops.taichi_cloth.to_shape_keys)
    assert cloth().data.shape_keys is not None
    bpy.ops.ed.undo()
    assert cloth().data.shape_keys is None
    assert cloth().taichi_cloth_status.state == "BAKED"
    bpy.ops.ed.redo()
    assert cloth().data.shape_keys is not None
    assert cloth().taichi_cloth_status.state == "BAKED"


def test_pins_and_subdivision() -> None:
    ob = start()
    ob.data.vertices.foreach_set("select", [v.co.y > 0.49 for v in ob.data.vertices])
    ob.taichi_cloth.pin_group = ""
    bpy.ops.ed.undo_push(message="Select")
    run(bpy.ops.taichi_cloth.pin_selected)
    assert cloth().taichi_cloth.pin_group == "Pin"
    run(bpy.ops.taichi_cloth.subdivide, cuts=1)
    assert len(cloth().data.vertices) == 225
    bpy.ops.ed.undo()
    assert len(cloth().data.vertices) == 64
    assert cloth().taichi_cloth.pin_group == "Pin"
    bpy.ops.ed.undo()
    assert cloth().taichi_cloth.pin_group == ""


def test_undo_while_baking(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.03)
    start()
    bpy.context.scene.frame_end = 30
    run(bpy.ops.taichi_cloth.add)
    cloth().taichi_cloth.density = 0.5
    bpy.ops.ed.undo_push(message="Density")
    session = support.ours("blender.bake").BakeSession(bpy.context.scene, [cloth()])
    session.start()
    support.pump(session, lambda: session.progress.done >= 3)
    bpy.ops.ed.undo()
    assert cloth().taichi_cloth_status.state == "BAKING"
    support.finish(session)
    assert session.outcome.value == "DONE"
    # Baked with the density that was undone.
    assert cloth().taichi_cloth_status.state == "OUTDATED"
    bpy.ops.ed.redo()
    assert cloth().taichi_cloth_status.state in {"BAKED", "NONE"}


def test_undo_of_the_object_while_baking(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.03)
    bpy.ops.ed.undo_push(message="Empty")
    start()
    bpy.context.scene.frame_end = 30
    session = support.ours("blender.bake").BakeSession(bpy.context.scene, [cloth()])
    session.start()
    support.pump(session, lambda: session.progress.done >= 3)
    bpy.ops.ed.undo()
    assert "Cloth" not in bpy.data.objects
    support.finish(session)
    assert session.outcome.value == "FAILED"
    bpy.ops.ed.redo()
    assert cloth().taichi_cloth_status.state in {"NONE", "ERROR"}
