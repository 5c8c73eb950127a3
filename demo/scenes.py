# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's scenes: every one starts from an empty file and returns its cloths."""

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import addon_utils
import bpy
import numpy as np
import numpy.typing as npt

from . import look

Array = npt.NDArray[np.float64]

FPS = 24
FRAMES = 60
PACKAGE = os.environ.get("TAICHI_CLOTH_PACKAGE", "bl_ext.user_default.taichi_cloth")


def empty(frames: int = FRAMES) -> bpy.types.Scene:
    """An empty file with the extension enabled."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    # Factory settings forget which add-ons are enabled.
    if addon_utils.enable(PACKAGE, default_set=True) is None:
        raise SystemExit(f"The extension {PACKAGE} cannot be enabled; run `python build.py demo`.")
    bpy.context.preferences.filepaths.save_version = 0
    scene = bpy.context.scene
    assert scene is not None
    scene.render.fps = FPS
    scene.frame_start, scene.frame_end = 1, frames
    return scene


def grid(
    name: str, columns: int, rows: int, place: Callable[[Array, Array], Array]
) -> bpy.types.Object:
    """A mesh of quads with a UV map; ``place`` maps u, v in 0 to 1 to positions (N, 3)."""
    u, v = np.meshgrid(np.linspace(0.0, 1.0, columns), np.linspace(0.0, 1.0, rows))
    u, v = u.reshape(-1), v.reshape(-1)
    low = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).reshape(-1)
    quads = np.stack([low, low + 1, low + columns + 1, low + columns], axis=1)
    return mesh_object(name, place(u, v), quads.tolist(), np.stack([u, v], axis=1))


def mesh_object(
    name: str, positions: Array, faces: Sequence[Sequence[int]], uv: Array
) -> bpy.types.Object:
    """An object of smooth faces in the scene."""
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(positions.tolist(), [], faces)
    layer = mesh.uv_layers.new(name="UVMap")
    corners = [vertex for face in faces for vertex in face]
    layer.uv.foreach_set("vector", uv[corners].astype(np.float32).reshape(-1))
    mesh.polygons.foreach_set("use_smooth", [True] * len(mesh.polygons))
    mesh.update()
    ob = bpy.data.objects.new(name, mesh)
    scene = bpy.context.scene
    assert scene is not None
    scene.collection.objects.link(ob)
    return ob


def make_cloth(ob: bpy.types.Object, preset: str, pins: Sequence[int], smooth: int = 1) -> Any:
    """Make a mesh a cloth, as the buttons of the panel do; returns its settings."""
    select([ob])
    bpy.ops.taichi_cloth.add()
    bpy.ops.taichi_cloth.apply_preset(preset=preset)
    group = ob.vertex_groups.new(name="Pins")
    group.add(list(pins), 1.0, "REPLACE")
    settings: Any = getattr(ob, "taichi_cloth")  # noqa: B009 (registered by the extension)
    settings.pin_group = group.name
    if smooth:
        subdivision: Any = ob.modifiers.new("Smooth", "SUBSURF")
        subdivision.levels = 0
        subdivision.render_levels = smooth
    return settings


def select(objects: Sequence[bpy.types.Object]) -> None:
    """Select just these; the first becomes the active one."""
    layer = bpy.context.view_layer
    assert layer is not None
    for ob in layer.objects:
        ob.select_set(ob in objects)
    layer.objects.active = objects[0]


def rod(name: str, start: Array, end: Array, radius: float, material: bpy.types.Material) -> None:
    """A cylinder from one point to another, with a ball at its end."""
    direction = end - start
    length = float(np.linalg.norm(direction))
    bpy.ops.mesh.primitive_cylinder_add(
        vertices=24, radius=radius, depth=length, location=tuple(0.5 * (start + end))
    )
    ob = bpy.context.object
    assert ob is not None
    ob.name = name
    polar = math.acos(direction[2] / length)
    ob.rotation_euler = (0.0, polar, math.atan2(direction[1], direction[0]))
    look.paint(ob, material)
    bpy.ops.object.shade_smooth_by_angle()
    bpy.ops.mesh.primitive_uv_sphere_add(
        segments=24, ring_count=12, radius=1.6 * radius, location=tuple(end)
    )
    ball = bpy.context.object
    assert ball is not None
    ball.name = f"{name} End"
    look.paint(ball, material)
    bpy.ops.object.shade_smooth()


def add_flag(columns: int, rows: int, corner: Array, width: float, height: float) -> Any:
    """A flag that hangs at its pole; ``corner`` is the lower one at the pole."""

    def place(u: Array, v: Array) -> Array:
        # A little slack and a first ripple, as a flag that is let go.
        ripple = 0.03 * u * np.sin(9.0 * u + 2.0 * v)
        return corner + np.stack([width * u, ripple, height * v], axis=1)

    ob = grid("Flag", columns, rows, place)
    hoist = range(0, columns * rows, columns)
    return ob, make_cloth(ob, "FLAG", hoist)


def add_curtain(columns: int, rows: int, corner: Array, width: float, height: float) -> Any:
    """A cloth on six points of its upper edge, which are drawn together as it falls."""

    def place(u: Array, v: Array) -> Array:
        wave = 0.012 * np.sin(10.0 * math.pi * u) * (1.0 - 0.3 * v)
        return corner + np.stack([width * u, wave, height * v], axis=1)

    ob = grid("Drape", columns, rows, place)
    top = (rows - 1) * columns
    pins = [top + round(k * (columns - 1) / 5.0) for k in range(6)]
    settings = make_cloth(ob, "SILK", pins)
    ob.shape_key_add(name="Basis")
    gathered = ob.shape_key_add(name="Gathered")
    middle = corner[0] + 0.5 * width
    for index in range(columns * rows):
        gathered.data[index].co.x = middle + 0.6 * (gathered.data[index].co.x - middle)
    gathered.value = 0.0
    gathered.keyframe_insert("value", frame=1)
    gathered.value = 1.0
    gathered.keyframe_insert("value", frame=26)
    return ob, settings


def film() -> list[bpy.types.Object]:
    """The film: a flag in the wind and a drape out of it."""
    empty()
    wood = look.plain_material("Wood", (0.32, 0.18, 0.09), rough=0.5)
    steel = look.plain_material("Steel", (0.7, 0.7, 0.72), metal=1.0, rough=0.35)

    flag, settings = add_flag(64, 43, np.array([-1.75, 0.0, 1.55]), 1.5, 1.0)
    settings.use_wind = True
    settings.wind_velocity = (7.0, 2.4, 0.0)
    settings.wind_gusts = 0.45
    look.paint(flag, look.cloth_material("Flag", (0.8, 0.2, 0.1), image=look.flag_image()))
    rod("Pole", np.array([-1.78, 0.0, 0.0]), np.array([-1.78, 0.0, 2.68]), 0.025, steel)

    drape, settings = add_curtain(72, 56, np.array([0.25, 0.35, 0.55]), 1.9, 1.5)
    settings.use_wind = False
    look.paint(drape, look.cloth_material("Silk", (0.02, 0.17, 0.22), gloss=0.6))
    rod("Rail", np.array([0.2, 0.35, 2.07]), np.array([2.2, 0.35, 2.07]), 0.018, wood)
    for x in (0.2, 2.2):
        rod("Post", np.array([x, 0.35, 0.0]), np.array([x, 0.35, 2.07]), 0.018, wood)

    look.ground()
    look.light()
    look.camera((0.2, -5.0, 1.55), (0.2, 0.0, 1.5), 40.0)
    return [flag, drape]


def _hanging(side: int) -> list[bpy.types.Object]:
    empty(48)

    def place(u: Array, v: Array) -> Array:
        return np.stack([u - 0.5, v - 0.5, np.full(len(u), 1.6)], axis=1)

    ob = grid(f"Drape {side}x{side}", side, side, place)
    make_cloth(ob, "COTTON", [side * (side - 1), side * side - 1])
    look.paint(ob, look.cloth_material("Cotton", (0.7, 0.68, 0.6)))
    look.ground()
    look.light()
    look.camera((1.8, -2.6, 1.5), (0.0, 0.2, 1.0))
    return [ob]


def paper_drape_15() -> list[bpy.types.Object]:
    """The 15×15 hanging cloth of the 2012 paper, 1202 springs."""
    return _hanging(15)


def paper_drape_32() -> list[bpy.types.Object]:
    """The 32×32 hanging cloth of the 2012 paper, 5826 springs."""
    return _hanging(32)


def paper_flag() -> list[bpy.types.Object]:
    """The 16×12 flag of the 2012 paper, 1014 springs."""
    empty(48)
    ob, settings = add_flag(16, 12, np.array([-0.75, 0.0, 1.3]), 1.5, 1.1)
    settings.use_wind = True
    settings.wind_velocity = (5.0, 2.5, 0.0)
    settings.wind_gusts = 0.3
    look.paint(ob, look.cloth_material("Flag", (0.8, 0.2, 0.1), image=look.flag_image()))
    steel = look.plain_material("Steel", (0.7, 0.7, 0.72), metal=1.0, rough=0.35)
    rod("Pole", np.array([-0.78, 0.0, 0.0]), np.array([-0.78, 0.0, 2.5]), 0.025, steel)
    look.ground()
    look.light()
    look.camera((0.2, -4.2, 1.6), (0.0, 0.0, 1.6))
    return [ob]


PAPER = {
    "drape_15x15": paper_drape_15,
    "drape_32x32": paper_drape_32,
    "flag_16x12": paper_flag,
}


def presets() -> list[bpy.types.Object]:
    """All presets side by side, as discs of 30 cm over round stands of 18 cm."""
    empty(60)
    settings_module = __import__(f"{PACKAGE}.engine.material", fromlist=["PRESETS"])
    colours = (
        (0.75, 0.74, 0.7), (0.45, 0.06, 0.12), (0.06, 0.1, 0.22), (0.2, 0.2, 0.21),
        (0.5, 0.52, 0.55), (0.85, 0.3, 0.05), (0.42, 0.36, 0.24), (0.14, 0.06, 0.03),
        (0.1, 0.28, 0.12),
    )  # fmt: skip
    stand = look.plain_material("Stand", (0.55, 0.52, 0.48))
    cloths = []
    across = 5
    for number, preset in enumerate(settings_module.PRESETS):
        row, column = divmod(number, across)
        centre = np.array([0.4 * (column - 2.0 + 0.5 * row), -0.68 * row, 0.16])
        ob = _disc(preset.label, centre)
        make_cloth(ob, preset.identifier, _inner(ob, centre, 0.0905))
        colour = colours[number % len(colours)]
        glossy = preset.identifier in ("SILK", "LEATHER", "FLAG")
        material = look.cloth_material(preset.label, colour, gloss=float(glossy))
        look.paint(ob, material)
        rod(f"Stand {preset.label}", centre * (1, 1, 0), centre * (1, 1, 0.985), 0.0885, stand)
        cloths.append(ob)
        _label(preset.label, centre)
    for ob in [ob for ob in bpy.data.objects if ob.name.endswith("End")]:
        bpy.data.objects.remove(ob)
    look.ground(8.0)
    look.light(42.0, -60.0)
    look.camera((0.0, -3.0, 1.55), (0.0, -0.34, 0.07), 54.0)
    return cloths


def _disc(name: str, centre: Array, segments: int = 80) -> bpy.types.Object:
    """A disc of 15 cm: rings of quads, around one polygon in the middle."""
    radii = np.concatenate([[0.04, 0.075, 0.082], np.linspace(0.09, 0.15, 9)])
    angle = np.arange(segments) * (2.0 * np.pi / segments)
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros(segments)], axis=1)
    rest = (radii[:, None, None] * circle).reshape(-1, 3)
    noise = np.random.default_rng(1).normal(size=len(rest)) * 2e-4
    rest[:, 2] += np.where(np.hypot(*rest[:, :2].T) > 0.0905, noise, 0.0)
    index = np.arange(len(rest)).reshape(-1, segments)
    following = np.roll(index, -1, axis=1)
    quads = np.stack([index[:-1], index[1:], following[1:], following[:-1]], axis=-1)
    faces = [*quads.reshape(-1, 4).tolist(), index[0].tolist()]
    return mesh_object(name, centre + rest, faces, rest[:, :2] + 0.5)


def _inner(ob: bpy.types.Object, centre: Array, radius: float) -> list[int]:
    assert isinstance(ob.data, bpy.types.Mesh)
    points = np.array([vertex.co for vertex in ob.data.vertices]) - centre
    return [int(i) for i in np.flatnonzero(np.hypot(points[:, 0], points[:, 1]) <= radius)]


def _label(text: str, centre: Array) -> None:
    curve: Any = bpy.data.curves.new(text, "FONT")
    curve.body = text
    curve.size = 0.065
    curve.align_x = "CENTER"
    ob = bpy.data.objects.new(f"Label {text}", curve)
    ob.location = (centre[0], centre[1] - 0.23, 0.002)
    curve.materials.append(look.plain_material("Ink", (0.01, 0.01, 0.01)))
    scene = bpy.context.scene
    assert scene is not None
    scene.collection.objects.link(ob)
