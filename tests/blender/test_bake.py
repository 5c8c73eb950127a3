# SPDX-License-Identifier: GPL-3.0-or-later
"""A bake's life, with a stand-in for the solver: finish, cancel, resume, fail, be disturbed."""

import os
import time
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from tests.blender import support

pytestmark = pytest.mark.usefixtures("fake_worker")


def session_for(*objects: Any, **options: Any) -> Any:
    """A started session on these objects."""
    session = support.ours("blender.bake").BakeSession(bpy.context.scene, list(objects), **options)
    session.start()
    return session


def settings_of_user() -> tuple[Any, ...]:
    context = bpy.context
    return (
        context.scene.frame_current,
        context.scene.frame_subframe,
        context.object,
        tuple(ob.name for ob in context.selected_objects),
        context.mode,
    )


def test_bake_finishes_and_plays(tmp_path: Path) -> None:
    support.save(tmp_path / "布.blend")
    ob = support.cloth(frames=(1, 6))
    support.grid(name="Other")
    support.select(ob)
    bpy.context.scene.frame_set(3)
    before = settings_of_user()
    assert bpy.ops.taichi_cloth.bake() == {"FINISHED"}
    assert settings_of_user() == before
    status = ob.taichi_cloth_status
    assert (status.state, status.message) == ("BAKED", "")
    assert (status.frame_first, status.frame_last) == (1, 6)
    first, last = support.evaluated(ob, 1), support.evaluated(ob, 6)
    pinned = first[:, 1] > 0.49
    np.testing.assert_allclose(first[pinned], last[pinned], atol=1e-6)
    assert (last[~pinned, 2] < -0.01).all()
    folder = tmp_path / "cache_taichi_cloth" / "布"
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".pc2"]


def test_bake_on_a_plain_mesh_makes_it_cloth() -> None:
    ob = support.grid()
    bpy.context.scene.frame_end = 3
    bpy.ops.taichi_cloth.bake()
    assert ob.taichi_cloth.enabled
    assert ob.taichi_cloth_status.state == "BAKED"


def test_unsaved_file_bakes_into_the_users_folder_and_moves(
    tmp_path: Path, user_folder: Path
) -> None:
    ob = support.cloth(frames=(1, 4))
    bpy.ops.taichi_cloth.bake()
    assert list(user_folder.rglob("*.pc2"))
    shown = support.evaluated(ob, 4)
    support.save(tmp_path / "new.blend")
    assert not list(user_folder.rglob("*.pc2"))
    moved = tmp_path / "cache_taichi_cloth" / "new" / f"{ob.taichi_cloth.uid}.pc2"
    assert moved.exists()
    assert ob.taichi_cloth_status.state == "BAKED"
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "new.blend"))
    ob = bpy.data.objects["Cloth"]
    assert ob.taichi_cloth_status.state == "BAKED"
    assert ob.modifiers[0].filepath.startswith("//")
    np.testing.assert_array_equal(support.evaluated(ob, 4), shown)


@pytest.mark.parametrize("integrator", ["EXPLICIT", "SOR"])
def test_a_quality_that_does_nothing_is_no_change(integrator: str) -> None:
    """Unless a strain limit makes explicit steps implicit."""
    ob = support.cloth()
    settings = ob.taichi_cloth
    settings.integrator = integrator
    bpy.ops.taichi_cloth.bake()
    settings.quality = "FINAL"
    assert ob.taichi_cloth_status.state == "BAKED"
    settings.quality = "NORMAL"
    settings.strain_limit = 1.0
    bpy.ops.taichi_cloth.bake()
    settings.quality = "FINAL"
    changed = integrator == "EXPLICIT"
    assert ob.taichi_cloth_status.state == ("OUTDATED" if changed else "BAKED")


def test_changes_are_noticed() -> None:
    ob = support.cloth()
    bpy.ops.taichi_cloth.bake()
    status, settings, scene = ob.taichi_cloth_status, ob.taichi_cloth, bpy.context.scene
    assert status.state == "BAKED"
    settings.density = 0.5
    assert status.state == "OUTDATED"
    settings.density = settings.bl_rna.properties["density"].default
    assert status.state == "BAKED"
    settings.quality = "FINAL"
    assert status.state == "OUTDATED"
    settings.quality = "NORMAL"
    assert status.state == "BAKED"
    scene.frame_end += 1
    bpy.context.view_layer.update()
    assert status.state == "OUTDATED"
    assert "range" in status.message
    scene.frame_end -= 1
    bpy.context.view_layer.update()
    assert status.state == "BAKED"
    ob.data.vertices[0].co.x += 0.1
    ob.data.update()
    bpy.context.view_layer.update()
    assert status.state == "OUTDATED"
    bpy.ops.taichi_cloth.bake()
    assert status.state == "BAKED"
    bpy.context.scene.frame_set(5)
    assert status.state == "BAKED"


def test_a_topology_edit_is_noticed() -> None:
    ob = support.cloth()
    bpy.ops.taichi_cloth.bake()
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.mesh.quads_convert_to_tris()
    bpy.ops.object.mode_set(mode="OBJECT")
    assert ob.taichi_cloth_status.state == "OUTDATED"


def test_cancelled_first_bake_is_partial_and_resumes_exactly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ob = support.cloth(frames=(1, 12))
    reference = support.cloth(frames=(1, 12), name="Reference")
    support.select(reference)
    bpy.ops.taichi_cloth.bake()
    expected = support.ours("blender.results").playing_path(reference).read_bytes()
    support.select(ob)
    support.fake_command(monkeypatch, 0.05)
    session = session_for(ob)
    support.pump(session, lambda: session.progress.done >= 4)
    assert ob.taichi_cloth_status.state == "BAKING"
    session.cancel()
    began = time.monotonic()
    support.finish(session)
    assert time.monotonic() - began < 1.2
    status = ob.taichi_cloth_status
    assert status.state == "PARTIAL"
    assert 4 <= status.frame_last < 12
    assert support.evaluated(ob, 4)[0, 2] < -1e-3
    support.fake_command(monkeypatch)
    assert bpy.ops.taichi_cloth.resume() == {"FINISHED"}
    assert (status.state, status.frame_last) == ("BAKED", 12)
    assert support.ours("blender.results").playing_path(ob).read_bytes() == expected
    with pytest.raises(RuntimeError, match="no cancelled bake"):
        bpy.ops.taichi_cloth.resume()


def test_cancelled_rebake_keeps_the_old_result(monkeypatch: pytest.MonkeyPatch) -> None:
    ob = support.cloth(frames=(1, 12))
    bpy.ops.taichi_cloth.bake()
    path = support.ours("blender.results").playing_path(ob)
    old = path.read_bytes()
    bpy.context.scene.gravity = (0.0, 0.0, -3.0)
    support.fake_command(monkeypatch, 0.05)
    session = session_for(ob)
    support.pump(session, lambda: session.progress.done >= 4)
    session.cancel()
    support.finish(session)
    assert path.read_bytes() == old
    assert ob.taichi_cloth_status.state == "OUTDATED"
    support.fake_command(monkeypatch)
    bpy.ops.taichi_cloth.resume()
    assert ob.taichi_cloth_status.state == "BAKED"
    assert path.read_bytes() != old
    assert len(path.read_bytes()) == len(old)


def test_cancel_before_the_first_tick_is_honoured() -> None:
    ob = support.cloth(frames=(1, 200))
    session = session_for(ob)
    session.cancel()
    support.finish(session, 2.0)
    assert session.outcome.value == "CANCELLED"
    assert ob.taichi_cloth_status.state == "NONE"


def test_cancel_right_after_the_start_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.5)
    ob = support.cloth(frames=(1, 200))
    session = session_for(ob)
    session.pump(0.01)
    session.cancel()
    began = time.monotonic()
    support.finish(session, 3.0)
    assert time.monotonic() - began < 1.2
    assert session.outcome.value == "CANCELLED"
    assert support.ours("blender.bake").current() is None


def test_a_stubborn_worker_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.05, stubborn="yes")
    ob = support.cloth(frames=(1, 200))
    session = session_for(ob)
    support.pump(session, lambda: session.progress.done >= 3)
    session.cancel()
    began = time.monotonic()
    support.finish(session, 3.0)
    assert time.monotonic() - began < 1.4
    assert ob.taichi_cloth_status.state == "PARTIAL"
    assert ob.taichi_cloth_status.frame_last >= 3


def test_a_failing_solver_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, fail_at=3)
    ob = support.cloth(frames=(1, 8))
    with pytest.raises(RuntimeError, match="broke on purpose"):
        bpy.ops.taichi_cloth.bake()
    status = ob.taichi_cloth_status
    assert status.state == "ERROR"
    assert "broke on purpose" in status.message
    support.fake_command(monkeypatch)
    bpy.ops.taichi_cloth.bake()
    assert status.state == "BAKED"


def test_a_crashing_worker_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, die_at=3)
    ob = support.cloth(frames=(1, 8))
    with pytest.raises(RuntimeError, match="ended unexpectedly"):
        bpy.ops.taichi_cloth.bake()
    assert ob.taichi_cloth_status.state == "ERROR"


def test_problems_stop_the_bake_before_it_starts() -> None:
    ob = support.cloth()
    ob.taichi_cloth.pin_group = "Gone"
    with pytest.raises(RuntimeError, match="Gone"):
        bpy.ops.taichi_cloth.bake()
    assert ob.taichi_cloth_status.state == "ERROR"
    assert not ob.modifiers


@pytest.mark.parametrize("folder", ["file", "missing/ok"])
def test_cache_folders(tmp_path: Path, folder: str) -> None:
    support.save(tmp_path / "a.blend")
    (tmp_path / "file").write_text("no folder")
    ob = support.cloth()
    ob.taichi_cloth.cache_folder = str(tmp_path / folder) + os.sep
    if folder == "file":
        with pytest.raises(RuntimeError, match="cache folder"):
            bpy.ops.taichi_cloth.bake()
        assert ob.taichi_cloth_status.state == "ERROR"
        assert support.ours("blender.bake").current() is None
    else:
        bpy.ops.taichi_cloth.bake()
        assert list((tmp_path / folder).rglob("*.pc2"))


def test_the_job_folder_may_vanish(monkeypatch: pytest.MonkeyPatch, user_folder: Path) -> None:
    import shutil

    support.fake_command(monkeypatch, 0.05)
    ob = support.cloth(frames=(1, 100))
    session = session_for(ob)
    support.pump(session, lambda: session.progress.done >= 2)
    shutil.rmtree(user_folder / "unsaved")
    support.finish(session, 5.0)
    assert session.outcome.value == "FAILED"
    assert ob.taichi_cloth_status.state == "ERROR"
    support.fake_command(monkeypatch)
    bpy.context.scene.frame_end = 3
    bpy.ops.taichi_cloth.bake()
    assert ob.taichi_cloth_status.state == "BAKED"


def test_different_ranges_are_baked_one_after_the_other(capfd: Any) -> None:
    one = support.cloth(frames=(1, 5), name="One")
    two = support.cloth(frames=(1, 5), name="Two")
    two.taichi_cloth.use_scene_range = False
    two.taichi_cloth.frame_start, two.taichi_cloth.frame_end = -20, -15
    support.select(one, two)
    bpy.ops.taichi_cloth.bake()
    printed = capfd.readouterr().out
    assert "do not meet" in printed
    assert "Two (-20 to -15)" in printed
    assert one.taichi_cloth_status.frame_last == 5
    assert two.taichi_cloth_status.frame_first == -20
    assert two.taichi_cloth_status.state == "BAKED"


def test_cloths_of_one_range_share_a_job() -> None:
    one = support.cloth(frames=(1, 5), name="One")
    two = support.cloth(6, frames=(1, 5), name="Two")
    support.select(one, two)
    session = session_for(one, two)
    assert len(session._groups) == 1
    support.finish(session)
    for ob in (one, two):
        assert ob.taichi_cloth_status.state == "BAKED"
    one.taichi_cloth.density = 0.9
    assert one.taichi_cloth_status.state == "OUTDATED"
    assert two.taichi_cloth_status.state == "BAKED"


def test_one_bake_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.05)
    ob = support.cloth(frames=(1, 100))
    session = session_for(ob)
    with pytest.raises(RuntimeError, match="A bake is running"):
        bpy.ops.taichi_cloth.bake()
    with pytest.raises(RuntimeError, match="A bake is running"):
        bpy.ops.taichi_cloth.remove()
    bpy.ops.taichi_cloth.cancel()
    support.finish(session)
    assert ob.taichi_cloth_status.state in {"NONE", "PARTIAL"}


def test_deleting_the_object_ends_the_bake(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.03)
    ob = support.cloth(frames=(1, 100))
    session = session_for(ob)
    support.pump(session, lambda: session.progress.done >= 2)
    bpy.data.objects.remove(ob)
    support.finish(session)
    assert session.outcome.value == "FAILED"
    assert "deleted" in session.summary()


def test_deleting_the_object_after_its_capture_ends_the_bake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker does not run on for nobody, and its frames are there when undo brings it back."""
    support.fake_command(monkeypatch, 0.2)
    ob = support.cloth(frames=(1, 12))
    session = session_for(ob)
    support.pump(session, lambda: session._next_frame > 12 and session.progress.done >= 2)
    bpy.data.objects.remove(ob)
    support.finish(session)
    assert session.outcome.value == "FAILED"
    assert session.summary() == "Cloth was deleted while it was baking"
    assert 2 <= session.progress.done < 12


def test_renaming_and_scrubbing_while_baking(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.03)
    ob = support.cloth(frames=(1, 30))
    session = session_for(ob)
    session.live = True
    support.pump(session, lambda: session.progress.done >= 2)
    ob.name = "Renamed"
    bpy.context.scene.frame_set(17)
    support.pump(session, lambda: session.progress.done >= 10)
    assert bpy.context.scene.frame_current == 17
    support.finish(session)
    assert session.outcome.value == "DONE"
    assert bpy.context.scene.frame_current == 17
    assert bpy.data.objects["Renamed"].taichi_cloth_status.state == "BAKED"


def test_edit_mode_while_baking_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.01)
    ob = support.cloth(frames=(1, 80))
    session = session_for(ob)
    support.pump(session, lambda: session.progress.done >= 2)
    bpy.ops.object.mode_set(mode="EDIT")
    done = "Waiting until Cloth leaves Edit Mode…"
    support.pump(session, lambda: session.progress.text() == done)
    # The frames captured ahead are simulated first, and the panel goes on telling where it is.
    assert session.progress.frame == session._next_frame - 1
    assert session.progress.timing() == f"Frame {session.progress.frame}  (" + (
        f"{session.progress.done} of 80)"
    )
    assert ob.taichi_cloth_status.message == done
    bpy.ops.object.mode_set(mode="OBJECT")
    support.pump(session, lambda: session.progress.text().startswith("Frame "))
    assert "s per frame" in session.progress.timing()
    support.finish(session)
    assert session.outcome.value == "DONE"
    assert ob.taichi_cloth_status.state == "BAKED"


def test_edit_mode_before_the_first_frame_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.01)
    monkeypatch.setattr(support.ours("blender.bake"), "AHEAD", 1)
    ob = support.cloth(frames=(1, 6))
    session = session_for(ob)
    while session._worker is None:
        session.pump(0.0)
    bpy.ops.object.mode_set(mode="EDIT")
    support.pump(session, lambda: session.progress.text().startswith("Waiting until Cloth"))
    bpy.ops.object.mode_set(mode="OBJECT")
    support.finish(session)
    assert session.outcome.value == "DONE"


def test_the_pace_and_the_time_left_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.02)
    session = session_for(support.cloth(frames=(1, 40)))
    progress = session.progress
    while session.running:
        session.pump(0.02)
        progress = session.progress
        if progress.seconds_left:
            wanted = progress.seconds_per_frame * (progress.total - progress.done)
            assert progress.seconds_left == pytest.approx(wanted)
    assert progress.done == 40


def subdivide() -> None:
    bpy.ops.mesh.subdivide()


def triangulate() -> None:
    """Vertices stay, polygons do not."""
    bpy.ops.mesh.quads_convert_to_tris()


def swap_polygons() -> None:
    """No number changes; only the order of the polygons does."""
    bpy.ops.mesh.sort_elements(type="REVERSE", elements={"FACE"})


def dissolve() -> None:
    """Fewer vertices than there are pins."""
    bpy.ops.mesh.dissolve_limited(angle_limit=1.0)


@pytest.mark.parametrize("edit", [subdivide, triangulate, swap_polygons, dissolve])
@pytest.mark.parametrize("deformed", [False, True])
def test_another_mesh_ends_the_bake(
    monkeypatch: pytest.MonkeyPatch, edit: Any, deformed: bool
) -> None:
    support.fake_command(monkeypatch, 0.02)
    ob = support.cloth(frames=(1, 200))
    if deformed:
        ob.modifiers.new("Wave", "WAVE")
    session = session_for(ob)
    support.pump(session, lambda: session.progress.done >= 2)
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    edit()
    bpy.ops.object.mode_set(mode="OBJECT")
    support.finish(session, 5.0)
    assert session.outcome.value == "FAILED"
    status = ob.taichi_cloth_status
    assert status.state == "ERROR"
    assert "The mesh of Cloth changed while it was baking" in status.message
    assert status.frame_last >= 2
    support.evaluated(ob, 2)
    with pytest.raises(RuntimeError, match="changed since the bake was cancelled"):
        bpy.ops.taichi_cloth.resume()
    bpy.context.scene.frame_end = 3
    support.fake_command(monkeypatch)
    if edit is not dissolve:
        bpy.ops.taichi_cloth.bake()
        assert status.state == "BAKED"


def test_a_mesh_written_by_a_script_ends_the_bake(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.02)
    ob = support.cloth(frames=(1, 200))
    ob.modifiers.new("Wave", "WAVE")
    session = session_for(ob)
    support.pump(session, lambda: session.progress.done >= 2)
    ob.data.clear_geometry()
    ob.data.from_pydata([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [], [(0, 1, 2)])
    support.finish(session, 5.0)
    assert "changed while it was baking" in ob.taichi_cloth_status.message


def test_frames_done_go_on_when_the_edit_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.02)
    ob = support.cloth(frames=(1, 60))
    before = ob.data.copy()
    session = session_for(ob)
    support.pump(session, lambda: session.progress.done >= 2)
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.mesh.subdivide()
    bpy.ops.object.mode_set(mode="OBJECT")
    support.finish(session, 5.0)
    ob.data = before
    support.fake_command(monkeypatch)
    bpy.ops.taichi_cloth.resume()
    status = ob.taichi_cloth_status
    assert (status.state, status.frame_last) == ("BAKED", 60)


def test_a_mesh_that_is_edited_at_the_end_is_outdated(monkeypatch: pytest.MonkeyPatch) -> None:
    """In Edit Mode nobody knows yet what becomes of the mesh."""
    support.fake_command(monkeypatch, 0.02)
    ob = support.cloth(frames=(1, 20))
    session = session_for(ob)
    support.pump(session, lambda: session._next_frame == 21)
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.mesh.subdivide()
    support.finish(session)
    bpy.ops.object.mode_set(mode="OBJECT")
    assert ob.taichi_cloth_status.state == "OUTDATED"


def test_moving_vertices_while_baking_keeps_the_bake(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.02)
    ob = support.cloth(frames=(1, 40))
    session = session_for(ob)
    support.pump(session, lambda: session.progress.done >= 2)
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.transform.translate(value=(0.0, 0.0, 0.1))
    bpy.ops.object.mode_set(mode="OBJECT")
    support.finish(session)
    assert session.outcome.value == "DONE"
    assert ob.taichi_cloth_status.state == "OUTDATED"
    assert ob.taichi_cloth_status.frame_last == 40


def test_saving_while_baking(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    support.fake_command(monkeypatch, 0.02)
    ob = support.cloth(frames=(1, 40))
    session = session_for(ob)
    support.pump(session, lambda: session.progress.done >= 2)
    bpy.context.scene.frame_set(7)
    support.save(tmp_path / "during.blend")
    assert ob.taichi_cloth_status.state == "BAKING"
    support.finish(session)
    assert ob.taichi_cloth_status.state == "BAKED"
    assert (tmp_path / "cache_taichi_cloth" / "during").is_dir()
    # The file saved in the middle opens as one without a bake, at the user's frame.
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "during.blend"))
    ob = bpy.data.objects["Cloth"]
    assert ob.taichi_cloth_status.state != "BAKING"
    assert bpy.context.scene.frame_current == 7


def test_loading_another_file_ends_the_bake(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.05)
    session = session_for(support.cloth(frames=(1, 100)))
    support.pump(session, lambda: session.progress.done >= 2)
    worker = session._worker._process
    support.new_file()
    assert worker.poll() is not None
    assert support.ours("blender.bake").current() is None
    assert session.outcome.value == "CANCELLED"


def test_a_killed_bake_heals_on_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    support.save(tmp_path / "crash.blend")
    ob = support.cloth(frames=(1, 30))
    bpy.ops.wm.save_mainfile()
    support.fake_command(monkeypatch, 0.03)
    session = session_for(ob)
    support.pump(session, lambda: session.progress.done >= 5)
    session._worker.kill()
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "crash.blend"))
    ob = bpy.data.objects["Cloth"]
    status = ob.taichi_cloth_status
    assert status.state == "NONE"
    support.select(ob)
    support.fake_command(monkeypatch)
    bpy.ops.taichi_cloth.resume()
    assert (status.state, status.frame_last) == ("BAKED", 30)


def test_missing_file_is_an_error_that_says_so() -> None:
    ob = support.cloth()
    bpy.ops.taichi_cloth.bake()
    path = support.ours("blender.results").playing_path(ob)
    path.unlink()
    support.ours("blender.changes").mark_all()
    assert ob.taichi_cloth_status.state == "ERROR"
    assert path.name in ob.taichi_cloth_status.message


def test_delete_bake_removes_files_and_modifier(user_folder: Path) -> None:
    ob = support.cloth()
    bpy.ops.taichi_cloth.bake()
    assert bpy.ops.taichi_cloth.delete_bake() == {"FINISHED"}
    assert ob.taichi_cloth_status.state == "NONE"
    assert not ob.modifiers
    assert not [p for p in (user_folder / "unsaved").rglob("*") if p.is_file()]


def test_save_as_keeps_both_files_working(tmp_path: Path) -> None:
    support.save(tmp_path / "one.blend")
    ob = support.cloth()
    bpy.ops.taichi_cloth.bake()
    bpy.ops.wm.save_mainfile()
    (tmp_path / "sub").mkdir()
    support.save(tmp_path / "sub" / "two.blend")
    assert ob.taichi_cloth_status.state == "BAKED"
    bpy.ops.taichi_cloth.delete_bake()
    bpy.ops.taichi_cloth.bake()
    assert ob.taichi_cloth_status.state == "BAKED"
    assert list((tmp_path / "sub").rglob("*.pc2"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "one.blend"))
    assert bpy.data.objects["Cloth"].taichi_cloth_status.state == "BAKED"


@pytest.mark.parametrize("folder", ["", "shared"])
def test_files_of_one_name_in_two_folders_stay_apart(tmp_path: Path, folder: str) -> None:
    """Beside the .blend, and in one folder given for both: neither overwrites nor deletes."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    support.save(tmp_path / "a" / "shot.blend")
    ob = support.cloth()
    if folder:
        ob.taichi_cloth.cache_folder = str(tmp_path / folder)
    bpy.ops.taichi_cloth.bake()
    results = support.ours("blender.results")
    first = results.playing_path(ob)
    bpy.ops.wm.save_mainfile()
    support.save(tmp_path / "b" / "shot.blend")
    bpy.ops.taichi_cloth.delete_bake()
    assert first.exists()
    bpy.ops.taichi_cloth.bake()
    assert results.playing_path(ob) != first
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "a" / "shot.blend"))
    again = bpy.data.objects["Cloth"]
    assert results.playing_path(again) == first
    assert again.taichi_cloth_status.state == "BAKED"
    bpy.ops.taichi_cloth.delete_bake()
    assert not first.exists()


def test_duplicate_bakes_into_its_own_file() -> None:
    one = support.cloth()
    bpy.ops.taichi_cloth.bake()
    bpy.ops.object.duplicate()
    two = bpy.context.object
    bpy.ops.taichi_cloth.bake()
    results = support.ours("blender.results")
    assert results.playing_path(one) != results.playing_path(two)
    bpy.ops.taichi_cloth.delete_bake()
    assert one.taichi_cloth_status.state == "BAKED"


def test_deleting_a_duplicates_bake_keeps_the_originals() -> None:
    one = support.cloth()
    bpy.ops.taichi_cloth.bake()
    bpy.ops.object.duplicate()
    two = bpy.context.object
    bpy.ops.taichi_cloth.delete_bake()
    attach = support.ours("blender.attach")
    assert not attach.is_attached(two)
    assert attach.is_attached(one)
    assert one.taichi_cloth_status.state == "BAKED"
    assert support.ours("blender.results").playing_path(one).exists()


def test_a_cut_file_is_an_error_that_says_so() -> None:
    ob = support.cloth()
    bpy.ops.taichi_cloth.bake()
    path = support.ours("blender.results").playing_path(ob)
    path.write_bytes(path.read_bytes()[:200])
    support.ours("blender.changes").mark_all()
    assert ob.taichi_cloth_status.state == "ERROR"
    assert "cut short" in ob.taichi_cloth_status.message


def test_a_bake_switches_its_modifier_on() -> None:
    ob = support.cloth()
    bpy.ops.taichi_cloth.bake()
    ob.modifiers["Taichi Cloth"].show_viewport = False
    bpy.ops.taichi_cloth.bake()
    assert ob.modifiers["Taichi Cloth"].show_viewport


def test_output_shape_keys() -> None:
    ob = support.cloth()
    ob.taichi_cloth.output = "SHAPE_KEYS"
    bpy.ops.taichi_cloth.bake()
    assert ob.data.shape_keys is not None
    assert not [m for m in ob.modifiers if m.type == "MESH_CACHE"]
    assert ob.taichi_cloth_status.state == "BAKED"
    assert support.evaluated(ob, 6)[0, 2] < -0.01


def test_to_shape_keys_and_back() -> None:
    ob = support.cloth()
    bpy.ops.taichi_cloth.bake()
    shown = support.evaluated(ob, 6)
    assert bpy.ops.taichi_cloth.to_shape_keys() == {"FINISHED"}
    np.testing.assert_allclose(support.evaluated(ob, 6), shown, atol=2e-5)
    assert ob.taichi_cloth_status.state == "BAKED"
    bpy.ops.taichi_cloth.delete_bake()
    assert ob.taichi_cloth_status.state == "NONE"


def test_worker_environment_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    monkeypatch.setenv("PYTHONSTARTUP", "/nowhere")
    env = support.ours("blender.process").environment()
    assert "PYTHONHOME" not in env
    assert "PYTHONSTARTUP" not in env
    assert env["XDG_CACHE_HOME"]


def test_no_blender_pointer_is_kept_between_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.02)
    session = session_for(support.cloth(frames=(1, 10)))
    support.pump(session, lambda: session.progress.done >= 2)
    held = [session, *session._groups, session.group, session.progress, session._capture]
    held += [target for group in session._groups for target in group.targets]
    for thing in held:
        for name, value in vars(thing).items():
            assert not isinstance(value, bpy.types.bpy_struct), name
    support.finish(session)


def test_preparation_is_spread_over_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.02)
    evaluated = support.ours("blender.evaluated")
    read: list[int] = []
    original = evaluated._read_group

    def noted(mesh: Any, index: int, weights: Any, start: int, end: int) -> None:
        read.append(end - start)
        original(mesh, index, weights, start, end)

    monkeypatch.setattr(evaluated, "_read_group", noted)
    ob = support.cloth(150, frames=(1, 3))
    session = session_for(ob)
    texts: list[str] = []
    ticks = 0
    while session._worker is None:
        session.pump(0.0)
        assert session.running, session.summary()
        ticks += 1
        texts.append(session.progress.text())
        steps = session._steps
        while steps is not None:  # No pointer into Blender's data is kept over a pause.
            for name, value in steps.gi_frame.f_locals.items():
                assert not isinstance(value, bpy.types.bpy_struct), name
                assert not isinstance(value, list) or ob not in value, name
            steps = steps.gi_yieldfrom
    assert max(read) <= evaluated._PIECE
    assert sum(read) == 150 * 150, "the pin group is read once"
    assert ticks > 150 * 150 // evaluated._PIECE + 10
    assert "Checking 22\N{NO-BREAK SPACE}500 vertices…" in texts
    assert "Reading 22\N{NO-BREAK SPACE}500 vertices…" in texts
    support.finish(session)
    assert ob.taichi_cloth_status.state == "BAKED"


def test_cancel_and_deletion_while_preparing_leave_nothing(
    monkeypatch: pytest.MonkeyPatch, user_folder: Path
) -> None:
    support.fake_command(monkeypatch, 0.02)
    ob = support.cloth(40, frames=(5, 8))
    bpy.context.scene.frame_set(2)
    for tick in range(1, 60):
        session = session_for(ob)
        for _ in range(tick):
            session.pump(0.0)
        if session._worker is not None:
            session.cancel()
            support.finish(session)
            break
        session.cancel()
        session.pump(0.0)
        assert not session.running
        assert bpy.context.scene.frame_current == 2
        assert not list(user_folder.rglob("*.pc2")) + list(user_folder.rglob("*.job"))
    else:
        pytest.fail("the worker never started")
    session = session_for(support.cloth(40, frames=(5, 8), name="Other"))
    for _ in range(3):
        session.pump(0.0)
    bpy.data.objects.remove(bpy.data.objects["Other"])
    support.finish(session)
    assert session._worker is None
    assert session.outcome.name == "FAILED"
    assert "deleted" in session.summary()
