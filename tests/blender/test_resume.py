# SPDX-License-Identifier: GPL-3.0-or-later
"""Resume when something changed since the bake was cancelled: go on, or say why not."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from tests.blender import support

END = 12


def cancelled(monkeypatch: pytest.MonkeyPatch, *objects: Any) -> None:
    """Bake the objects with the stand-in up to about frame 4."""
    support.fake_command(monkeypatch, 0.1)
    session = support.ours("blender.bake").BakeSession(bpy.context.scene, list(objects))
    session.start()
    support.pump(session, lambda: session.progress.done >= 4)
    session.cancel()
    support.finish(session)
    assert session.outcome.value == "CANCELLED"
    support.fake_command(monkeypatch)


def partial(monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Any], None] | None = None) -> Any:
    """A cloth whose bake was cancelled."""
    ob = support.cloth(frames=(1, END))
    if prepare is not None:
        prepare(ob)
    cancelled(monkeypatch, ob)
    assert ob.taichi_cloth_status.state == "PARTIAL"
    return ob


def sidecar_of(ob: Any) -> Any:
    results = support.ours("blender.results")
    return results.read_sidecar(results.playing_path(ob))


# Places ------------------------------------------------------------------------------------


def animate(ob: Any) -> None:
    """Moved, turned and scaled from frame 1 to 12."""
    for frame in (1, END):
        ob.location.x, ob.rotation_euler.z, ob.scale.y = 0.5 * frame, 0.1 * frame, 1.0 + 0.1 * frame
        for path in ("location", "rotation_euler", "scale"):
            ob.keyframe_insert(path, frame=frame)


def parent(ob: Any) -> None:
    empty = bpy.data.objects.new("Parent", None)
    bpy.context.collection.objects.link(empty)
    ob.parent = empty
    animate(empty)


def hook(ob: Any) -> None:
    """The pins hang on a moving object."""
    empty = bpy.data.objects.new("Hook", None)
    bpy.context.collection.objects.link(empty)
    empty.location.z = 0.3
    empty.keyframe_insert("location", frame=1)
    empty.location.z = 0.9
    empty.keyframe_insert("location", frame=END)
    modifier = ob.modifiers.new("Hook", "HOOK")
    modifier.object, modifier.vertex_group = empty, "Pins"


@pytest.mark.parametrize("prepare", [None, animate, parent, hook])
def test_what_is_where_it_was_goes_on(
    monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Any], None] | None
) -> None:
    ob = partial(monkeypatch, prepare)
    bpy.context.scene.frame_set(9)
    assert bpy.ops.taichi_cloth.resume() == {"FINISHED"}
    status = ob.taichi_cloth_status
    assert (status.state, status.frame_last) == ("BAKED", END)
    assert sidecar_of(ob).warnings == ()
    # Nothing jumps: the longest way of a vertex is about the same in each frame.
    shown = np.stack([support.evaluated(ob, frame) for frame in range(1, END + 1)])
    steps = np.linalg.norm(np.diff(shown, axis=0), axis=2).max(axis=1)
    assert steps.max() < 1.0


def move(ob: Any) -> None:
    ob.location.x += 5.0


def turn(ob: Any) -> None:
    ob.rotation_euler.z += np.pi / 2.0


def scale(ob: Any) -> None:
    ob.scale *= 1.01


def give_parent(ob: Any) -> None:
    empty = bpy.data.objects.new("Parent", None)
    empty.location = (0.0, 0.0, 2.0)
    bpy.context.collection.objects.link(empty)
    ob.parent = empty


def move_animation(ob: Any) -> None:
    """Where it was at the first frame, but not where the bake stopped."""
    ob.location.x = 1.0
    ob.keyframe_insert("location", frame=END)
    ob.location.x = 0.0
    ob.keyframe_insert("location", frame=1)


@pytest.mark.parametrize("change", [move, turn, scale, give_parent, move_animation])
def test_a_moved_cloth_is_refused(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None]
) -> None:
    ob = partial(monkeypatch)
    path = support.ours("blender.results").playing_path(ob)
    old = path.read_bytes()
    change(ob)
    bpy.context.view_layer.update()
    with pytest.raises(RuntimeError, match=r"Cloth was moved since .* frame \d+.* bake again"):
        bpy.ops.taichi_cloth.resume()
    assert path.read_bytes() == old
    assert "Cloth was moved" in ob.taichi_cloth_status.message
    bpy.ops.taichi_cloth.bake()
    assert ob.taichi_cloth_status.state == "BAKED"


def test_put_back_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    ob = partial(monkeypatch)
    move(ob)
    with pytest.raises(RuntimeError, match="moved"):
        bpy.ops.taichi_cloth.resume()
    ob.location.x -= 5.0
    bpy.ops.taichi_cloth.resume()
    assert ob.taichi_cloth_status.state == "BAKED"


def test_moved_pins_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    partial(monkeypatch, hook)
    for layer in (bpy.data.objects["Hook"].animation_data.action,):
        bpy.data.actions.remove(layer)
    bpy.data.objects["Hook"].location.z = 0.3
    with pytest.raises(RuntimeError, match="The pins of Cloth were moved"):
        bpy.ops.taichi_cloth.resume()


def test_another_shape_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ob = partial(monkeypatch)
    ob.data.vertices[0].co.z += 0.2
    ob.data.update()
    with pytest.raises(RuntimeError, match="Cloth has another shape"):
        bpy.ops.taichi_cloth.resume()


def test_of_two_the_moved_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    one = support.cloth(frames=(1, END), name="One")
    two = support.cloth(6, frames=(1, END), name="Two")
    cancelled(monkeypatch, one, two)
    two.location.y = 0.3
    support.select(one)
    with pytest.raises(RuntimeError, match="Two was moved"):
        bpy.ops.taichi_cloth.resume()


def test_far_away_rounding_is_no_move(monkeypatch: pytest.MonkeyPatch) -> None:
    def far(ob: Any) -> None:
        ob.location = (8000.1, -3000.7, 1234.5)
        ob.rotation_euler = (0.1, 0.2, 0.3)
        animate(ob)

    ob = partial(monkeypatch, far)
    bpy.ops.taichi_cloth.resume()
    assert ob.taichi_cloth_status.state == "BAKED"


# Settings ----------------------------------------------------------------------------------


def test_the_end_of_the_range_is_taken_over(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ob = partial(monkeypatch)
    bpy.context.scene.frame_end = 20
    bpy.context.view_layer.update()
    bpy.ops.taichi_cloth.resume()
    status = ob.taichi_cloth_status
    assert (status.state, status.frame_last) == ("BAKED", 20)
    assert sidecar_of(ob).frame_end_wanted == 20
    assert "the bake goes on to frame 20, not 12" in capfd.readouterr().out


def test_a_range_that_ends_at_the_last_frame_done(monkeypatch: pytest.MonkeyPatch) -> None:
    ob = partial(monkeypatch)
    bpy.context.scene.frame_end = last = ob.taichi_cloth_status.frame_last
    bpy.context.view_layer.update()
    bpy.ops.taichi_cloth.resume()
    status = ob.taichi_cloth_status
    assert (status.state, status.frame_last) == ("BAKED", last)


def test_what_cannot_be_taken_over_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ob = partial(monkeypatch)
    scene = bpy.context.scene
    changes: list[tuple[Any, str, Any, str]] = [
        (scene.render, "fps", 60, "24 frames per second, the scene has 60 now.*bake again"),
        (scene, "frame_start", 3, "starts at frame 1, the range at 3.*bake again"),
        (scene, "frame_end", 2, "the range ends at 2 now.*bake again"),
    ]
    for owner, name, value, message in changes:
        before = getattr(owner, name)
        setattr(owner, name, value)
        bpy.context.view_layer.update()
        with pytest.raises(RuntimeError, match=f"Cloth.*{message}"):
            bpy.ops.taichi_cloth.resume()
        setattr(owner, name, before)
        bpy.context.view_layer.update()
    assert support.ours("blender.bake").current() is None
    bpy.ops.taichi_cloth.resume()
    assert ob.taichi_cloth_status.state == "BAKED"


def test_ranges_that_differ_now_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one = support.cloth(frames=(1, END), name="One")
    two = support.cloth(6, frames=(1, END), name="Two")
    cancelled(monkeypatch, one, two)
    two.taichi_cloth.use_scene_range = False
    support.select(one)
    with pytest.raises(RuntimeError, match=r"One, Two were .* different ranges now.*bake again"):
        bpy.ops.taichi_cloth.resume()


def test_another_fabric_goes_on_and_stays_outdated(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ob = partial(monkeypatch)
    last = ob.taichi_cloth_status.frame_last
    ob.taichi_cloth.density *= 2.0
    ob.taichi_cloth.pin_stiffness = 77.0
    bpy.ops.taichi_cloth.resume()
    status = ob.taichi_cloth_status
    assert (status.state, status.frame_last) == ("OUTDATED", END)
    (note,) = sidecar_of(ob).warnings
    assert note.startswith(f"Resumed after frame {last} with other settings")
    assert note in capfd.readouterr().out


def test_a_second_resume_tells_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    ob = partial(monkeypatch)
    ob.taichi_cloth.substeps = 7
    support.fake_command(monkeypatch, 0.15)
    session = support.ours("blender.bake").BakeSession(bpy.context.scene, [ob], resume=True)
    session.start()
    support.pump(session, lambda: session.progress.done >= 6)
    session.cancel()
    support.finish(session)
    assert ob.taichi_cloth_status.state == "PARTIAL"
    ob.taichi_cloth.substeps = 9
    support.fake_command(monkeypatch)
    bpy.ops.taichi_cloth.resume()
    assert ob.taichi_cloth_status.state == "BAKED"
    first, second = sidecar_of(ob).warnings
    assert "7 substeps instead of automatic" in first
    assert "9 substeps instead of 7 substeps" in second


@pytest.mark.slow
def test_the_solver_goes_on_as_it_is_told() -> None:
    """The real solver: integrator and substeps of the frames after Resume."""
    ob = support.cloth(8, frames=(1, 200))
    settings = ob.taichi_cloth
    settings.integrator, settings.substeps = "IMPLICIT", 4
    session = support.ours("blender.bake").BakeSession(bpy.context.scene, [ob])
    session.start()
    support.pump(session, lambda: session.progress.done >= 4, 60.0)
    session.cancel()
    support.finish(session)
    last = ob.taichi_cloth_status.frame_last
    assert last < 200
    settings.integrator, settings.substeps = "SOR", 6
    bpy.context.scene.taichi_cloth.device = "CPU"
    bpy.context.scene.frame_end = last + 3
    bpy.context.view_layer.update()
    bpy.ops.taichi_cloth.resume()
    known = sidecar_of(ob)
    ran = [(entry.integrator, entry.substeps) for entry in known.statistics[1:]]
    assert ran == [("IMPLICIT", 4)] * (last - 1) + [("SOR", 6)] * 3
    note = (
        f"From frame {last + 1} on: integrator Hybrid SOR instead of Implicit, 6 substeps "
        "instead of 4 substeps, device CPU instead of Automatic"
    )
    assert note in known.warnings
    assert ob.taichi_cloth_status.state == "BAKED"


def test_a_duplicate_does_not_take_the_originals_cancelled_bake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fresh duplicate has the same uid; Resume on the original means the original."""
    ob = support.cloth(frames=(1, END))
    support.fake_command(monkeypatch)
    cancelled(monkeypatch, ob)
    bpy.ops.object.duplicate()
    support.select(ob)
    bpy.ops.taichi_cloth.resume()
    assert (ob.taichi_cloth_status.state, ob.taichi_cloth_status.frame_last) == ("BAKED", END)


# Files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rebake", [False, True])
def test_a_cancelled_bake_goes_on_after_save_as(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rebake: bool
) -> None:
    support.save(tmp_path / "one.blend")
    ob = support.cloth(frames=(1, END))
    support.fake_command(monkeypatch)
    if rebake:
        bpy.ops.taichi_cloth.bake()
        bpy.context.scene.gravity = (0.0, 0.0, -3.0)
    cancelled(monkeypatch, ob)
    bpy.ops.wm.save_mainfile()
    folder = tmp_path / "cache_taichi_cloth"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    (tmp_path / "sub").mkdir()
    support.save(tmp_path / "sub" / "two.blend")
    status = ob.taichi_cloth_status
    assert status.state == ("OUTDATED" if rebake else "PARTIAL")
    bpy.ops.taichi_cloth.resume()
    assert (status.state, status.frame_last) == ("BAKED", END)
    own = tmp_path / "sub" / "cache_taichi_cloth" / "two" / f"{ob.taichi_cloth.uid}.pc2"
    assert support.ours("blender.results").playing_path(ob) == own
    assert sorted(path.suffix for path in own.parent.iterdir()) == [".json", ".pc2"]
    for path, content in before.items():
        assert path.read_bytes() == content, "the other file keeps its own"
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "one.blend"))
    ob = bpy.data.objects["Cloth"]
    support.select(ob)
    bpy.ops.taichi_cloth.resume()
    assert ob.taichi_cloth_status.state == "BAKED"
    assert support.ours("blender.results").playing_path(ob).is_relative_to(folder)


def test_cancelled_again_after_save_as(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    support.save(tmp_path / "one.blend")
    ob = partial(monkeypatch)
    support.save(tmp_path / "two.blend")
    support.fake_command(monkeypatch, 0.1)
    session = support.ours("blender.bake").BakeSession(bpy.context.scene, [ob], resume=True)
    session.start()
    support.pump(session, lambda: session.progress.done >= 7)
    session.cancel()
    support.finish(session)
    status = ob.taichi_cloth_status
    assert status.state == "PARTIAL"
    assert status.frame_last >= 7
    assert support.ours("blender.results").playing_path(ob).parent.name == "two"
    support.fake_command(monkeypatch)
    bpy.ops.taichi_cloth.resume()
    assert (status.state, status.frame_last) == ("BAKED", END)


def test_two_cloths_go_on_after_another_cache_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    support.save(tmp_path / "one.blend")
    one = support.cloth(frames=(1, END), name="One")
    two = support.cloth(6, frames=(1, END), name="Two")
    cancelled(monkeypatch, one, two)
    one.taichi_cloth.cache_folder = two.taichi_cloth.cache_folder = "//elsewhere"
    support.select(two)
    bpy.ops.taichi_cloth.resume()
    for ob in (one, two):
        assert ob.taichi_cloth_status.state == "BAKED"
        assert support.ours("blender.results").playing_path(ob).parent.parent.name == "elsewhere"


def test_looking_at_another_files_bake_touches_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """That other file may be open elsewhere, and baking."""
    support.save(tmp_path / "one.blend")
    ob = partial(monkeypatch)
    support.save(tmp_path / "two.blend")
    folder = tmp_path / "cache_taichi_cloth" / "one"

    def stamps() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    before = stamps()
    time.sleep(0.02)
    support.ours("blender.changes").mark_all()
    assert support.ours("blender.status").view(ob).resumable
    assert stamps() == before


def test_without_its_job_the_message_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import shutil

    support.save(tmp_path / "one.blend")
    ob = partial(monkeypatch)
    for job in (tmp_path / "cache_taichi_cloth" / "one").glob("*.job"):
        shutil.rmtree(job)
    support.save(tmp_path / "two.blend")
    status = ob.taichi_cloth_status
    assert status.state == "PARTIAL"
    assert "What Resume needs is gone; bake again" in status.message
    with pytest.raises(RuntimeError, match="no cancelled bake"):
        bpy.ops.taichi_cloth.resume()
