# SPDX-License-Identifier: GPL-3.0-or-later
"""Panels, drawn into a layout that only writes down."""

import time
from types import SimpleNamespace
from typing import Any

import bpy
import pytest

from tests.blender import support


class Layout:
    """Takes every call of a panel, and checks that what it names exists."""

    def __init__(self, record: list[tuple[str, str]] | None = None) -> None:
        self.record = [] if record is None else record
        self.enabled = self.active = True
        self.use_property_split = self.use_property_decorate = False
        self.scale_y = 1.0

    def _child(self, **_options: Any) -> "Layout":
        return Layout(self.record)

    def row(self, **options: Any) -> "Layout":
        assert set(options) <= {"align", "heading"}
        return self._child()

    column = box = row

    def label(self, *, text: str = "", icon: str = "NONE", translate: bool = True) -> None:
        assert icon in bpy.types.UILayout.bl_rna.functions["label"].parameters["icon"].enum_items
        self.record.append(("label", text))

    def prop(self, data: Any, name: str, **_options: Any) -> None:
        assert name in data.bl_rna.properties, name
        self.record.append(("prop", name))

    def prop_search(self, data: Any, name: str, owner: Any, items: str, **_options: Any) -> None:
        assert hasattr(owner, items)
        self.prop(data, name)

    def operator(self, name: str, *, text: str | None = None, icon: str = "NONE") -> Any:
        module, function = name.split(".")
        getattr(getattr(bpy.ops, module), function).get_rna_type()
        items = bpy.types.UILayout.bl_rna.functions["operator"].parameters["icon"].enum_items
        assert icon in items
        self.record.append(("operator", name))
        return SimpleNamespace()

    def operator_menu_enum(self, name: str, prop: str, *, text: str, icon: str) -> None:
        self.operator(name, icon=icon)
        self.record.append(("menu", text))

    def progress(self, *, factor: float, type: str, text: str) -> None:
        assert 0.0 <= factor <= 1.0
        self.record.append(("progress", text))


def draw() -> list[tuple[str, str]]:
    """Draw the whole tab."""
    record: list[tuple[str, str]] = []
    for cls in support.ours("blender.panels").CLASSES:
        context = bpy.context
        if hasattr(cls, "poll") and not cls.poll(context):
            continue
        panel = SimpleNamespace(layout=Layout(record))
        for name in ("_progress", "_buttons", "_status", "_problems", "draw_settings"):
            method = getattr(cls, name, None)
            if method is not None:
                setattr(panel, name, method.__get__(panel))
        cls.draw(panel, context)
    return record


def texts(record: list[tuple[str, str]]) -> str:
    return " ".join(text for _kind, text in record)


def test_nothing_selected() -> None:
    assert draw() == [("label", "Select a mesh object")]


def test_plain_mesh() -> None:
    support.grid()
    record = draw()
    assert ("operator", "taichi_cloth.add") in record
    assert ("operator", "taichi_cloth.bake") in record
    assert not any(kind == "prop" for kind, _ in record)


def test_every_setting_is_drawn_once_in_order() -> None:
    ob = support.cloth(20)
    record = draw()
    names = [name for kind, name in record if kind == "prop"]
    fields = {p.identifier for p in ob.taichi_cloth.bl_rna.properties}
    # Bending is drawn in millionths.
    hidden = {"rna_type", "name", "enabled", "uid", "bending_stiffness", "bending_damping"}
    assert set(names) == fields - hidden | {"device"}
    assert len(names) == len(set(names))
    order = ["density", "use_wind", "pin_group", "use_scene_range", "integrator"]
    assert sorted(names, key=names.index) == names
    assert [name for name in names if name in order] == order
    assert ("menu", "Cotton") in record
    assert "Baked" not in texts(record)


def test_hints_with_buttons() -> None:
    bpy.ops.mesh.primitive_cube_add()
    bpy.ops.taichi_cloth.add()
    record = draw()
    assert ("operator", "taichi_cloth.subdivide") in record
    assert ("operator", "taichi_cloth.pin_selected") in record


def test_found_problems_are_listed() -> None:
    ob = support.cloth(20)
    ob.taichi_cloth.pin_group = "Gone"
    with pytest.raises(RuntimeError):
        bpy.ops.taichi_cloth.check_mesh()
    assert "Gone" in texts(draw())


def test_no_frame_is_counted_before_compiling() -> None:
    """The first frame is written before the solver is there; it is not simulated."""
    session = support.ours("blender.bake").BakeSession(bpy.context.scene, [support.cloth(20)])
    shown = []
    events: list[dict[str, Any]] = [
        {"event": "phase", "phase": "building"},
        {"event": "frame", "frame": 1, "done": 1, "total": 3, "statistics": {"integrator": ""}},
        {"event": "phase", "phase": "loading the solver"},
        {"event": "phase", "phase": "compiling"},
        {"event": "phase", "phase": "simulating"},
        {"event": "frame", "frame": 2, "done": 2, "total": 3, "statistics": {"integrator": "SOR"}},
    ]
    for event in events:
        session._worker = SimpleNamespace(events=lambda event=event: [event])
        session._read_events()
        shown.append(session.progress.text())
    assert shown == [
        "Building…",
        "Building…",
        "Loading the solver…",
        "Compiling (First Time Only)",
        "Simulating…",
        "Frame 2  (2 of 3)",
    ]


@pytest.mark.usefixtures("fake_worker")
def test_states_are_shown_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    ob = support.cloth(20, frames=(1, 20))
    # Slow enough that the cancel comes before the end, whatever else the machine does.
    support.fake_command(monkeypatch, 0.3)
    session = support.ours("blender.bake").BakeSession(bpy.context.scene, [ob])
    session.start()
    record = draw()
    assert ("operator", "taichi_cloth.cancel") in record
    assert ("operator", "taichi_cloth.bake") not in record
    session.progress.phase = "compiling"
    assert "Compiling (First Time Only)" in texts(draw())
    support.pump(session, lambda: session.progress.done >= 3, 60.0)
    shown = texts(draw())
    assert "of 20" in shown
    assert "s per frame" in shown
    assert "Fake (1 thread)" in shown
    session.cancel()
    support.finish(session)
    record = draw()
    assert "Partly Baked" in texts(record)
    assert ("operator", "taichi_cloth.resume") in record
    support.fake_command(monkeypatch)
    bpy.ops.taichi_cloth.resume()
    record = draw()
    assert "Baked: Frames 1 to 20" in texts(record)
    assert ("operator", "taichi_cloth.delete_bake") in record
    ob.taichi_cloth.density *= 2
    # A redraw may show what is a moment old, but not for long.
    deadline = time.monotonic() + 10.0
    while "Outdated" not in texts(draw()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    support.fake_command(monkeypatch, fail_at=2)
    with pytest.raises(RuntimeError):
        bpy.ops.taichi_cloth.bake()
    assert "Error" in texts(draw())
    assert "on purpose" in texts(draw())


@pytest.mark.usefixtures("fake_worker")
def test_what_was_true_before_a_bake_is_not_shown_after_it() -> None:
    """A redraw may show an answer that is a moment old, but not one from before the bake."""
    ob = support.cloth(20, frames=(1, 3))
    status = support.ours("blender.status")
    real = status._look

    def slow(thing: Any) -> Any:
        time.sleep(0.3)  # So the answer would be kept for long.
        return real(thing)

    status._look = slow
    try:
        assert "Baked" not in texts(draw())
        bpy.ops.taichi_cloth.bake()
        assert status.peek(ob).state == "BAKED"
        assert "Baked: Frames 1 to 3" in texts(draw())
    finally:
        status._look = real


@pytest.mark.usefixtures("fake_worker")
def test_settings_are_greyed_while_baking_only(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.05)
    ob = support.cloth(20, frames=(1, 50))
    fabric = support.ours("blender.panels").TAICHI_CLOTH_PT_fabric

    def enabled() -> bool:
        panel = SimpleNamespace(layout=Layout())
        panel.draw_settings = fabric.draw_settings.__get__(panel)
        fabric.draw(panel, bpy.context)
        return bool(panel.layout.enabled)

    assert enabled()
    session = support.ours("blender.bake").BakeSession(bpy.context.scene, [ob])
    session.start()
    assert not enabled()
    session.cancel()
    support.finish(session)
    assert enabled()


@pytest.mark.usefixtures("fake_worker")
def test_method_is_told_in_words() -> None:
    """What integrated most frames, and what explicit steps would have taken."""
    FrameStatistics = support.ours("cache.sidecar").FrameStatistics
    status = support.ours("blender.status")
    first = FrameStatistics(1, 0.1)
    explicit = FrameStatistics(2, 0.1, "EXPLICIT", 94, 0, 0.0, 0.1, 1.0, 94)
    implicit = [
        FrameStatistics(frame, 0.1, "IMPLICIT", 3, 10 + frame, 0.05, 0.1, 0.0, 220)
        for frame in (3, 4)
    ]
    told = [status.method(entries) for entries in ([first], [first, explicit], implicit)]
    assert told == [
        "",
        "Explicit: 94 steps per frame",
        "Implicit: 3 steps per frame, 14 iterations, residual 0.05 (explicit: 220 steps)",
    ]


def test_drawing_is_cheap() -> None:
    ob = support.cloth(100, frames=(1, 2))
    bpy.ops.taichi_cloth.bake()
    draw()
    began = time.perf_counter()
    for _ in range(20):
        draw()
    assert (time.perf_counter() - began) / 20 < 0.02
    # A mesh that changes with every redraw is not hashed with every redraw.
    changes, status = support.ours("blender.changes"), support.ours("blender.status")
    looks = []
    real = status._look

    def counting(thing: Any) -> Any:
        looks.append(1)
        time.sleep(0.005)
        return real(thing)

    status._look = counting
    try:
        for _ in range(20):
            changes.mark(ob.session_uid)
            status.peek(ob)
    finally:
        status._look = real
    assert len(looks) <= 3
