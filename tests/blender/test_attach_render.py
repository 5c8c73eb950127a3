# SPDX-License-Identifier: GPL-3.0-or-later
"""A render shows the frame asked for, with blur from the frames beside it."""

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from tests.blender import support

WIDTH, HEIGHT = 48, 8
SIZE = 8.0
"""Side of the square; one Blender unit is one pixel."""


@pytest.fixture
def square(tmp_path: Path) -> Any:
    """A bright square that a bake moves 4 pixels to the right per frame, frames 1 to 5."""
    support.new_file()
    if not hasattr(bpy.context.scene, "cycles"):
        pytest.skip("this Blender has no Cycles")
    ob = support.cloth(side=3, size=SIZE, frames=(1, 5))
    positions = support.evaluated(ob, 1)
    path = tmp_path / "a.pc2"
    with support.ours("cache.pc2").Pc2Writer(path, len(positions), 1) as writer:
        for index in range(5):
            writer.append(positions + np.array([4.0 * index - 8.0, 0.0, 0.0]))
    support.ours("blender.attach").attach(ob, path, 1)
    material = bpy.data.materials.new("Bright")
    if bpy.app.version < (5, 0, 0):
        material.use_nodes = True
    nodes = material.node_tree.nodes
    nodes.clear()
    light = nodes.new("ShaderNodeEmission")
    output = nodes.new("ShaderNodeOutputMaterial")
    material.node_tree.links.new(light.outputs[0], output.inputs[0])
    ob.data.materials.append(material)
    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    bpy.context.collection.objects.link(camera)
    camera.location.z = 10.0
    camera.data.type = "ORTHO"
    camera.data.ortho_scale = WIDTH
    scene = bpy.context.scene
    scene.camera = camera
    scene.render.engine = "CYCLES"
    scene.cycles.samples = 64
    scene.cycles.use_denoising = False
    scene.cycles.pixel_filter_type = "BOX"
    scene.view_settings.view_transform = "Raw"
    scene.render.resolution_x, scene.render.resolution_y = WIDTH, HEIGHT
    scene.render.resolution_percentage = 100
    scene.render.threads_mode, scene.render.threads = "FIXED", 1
    return ob


def row(frame: int, path: Path) -> Any:
    """Brightness along the middle row of the rendered frame, 0 to 1."""
    scene = bpy.context.scene
    scene.frame_set(frame)
    scene.render.filepath = str(path)
    scene.render.image_settings.file_format = "PNG"
    bpy.ops.render.render(write_still=True)
    image = bpy.data.images.load(str(path), check_existing=False)
    pixels = np.array(image.pixels[:]).reshape(HEIGHT, WIDTH, 4)
    bpy.data.images.remove(image)
    return pixels[HEIGHT // 2, :, 0]


def middle(line: Any) -> float:
    return float((line * (np.arange(WIDTH) + 0.5)).sum() / line.sum())


def test_renders_show_their_frame_with_persistent_data_too(square: Any, tmp_path: Path) -> None:
    """Report 49."""
    scene = bpy.context.scene
    scene.render.use_persistent_data = True
    for frame in (2, 4, 3):
        line = row(frame, tmp_path / "a.png")
        assert middle(line) == pytest.approx(WIDTH / 2 + 4.0 * (frame - 3), abs=0.3)


def test_motion_blur_spans_the_frames_beside(square: Any, tmp_path: Path) -> None:
    """Report 52: shutter 1 spreads the square over half a frame to each side."""
    sharp = row(3, tmp_path / "a.png")
    scene = bpy.context.scene
    scene.render.use_motion_blur = True
    scene.render.motion_blur_shutter = 1.0
    blurred = row(3, tmp_path / "a.png")
    assert (sharp > 0.02).sum() == pytest.approx(SIZE, abs=1)
    assert (blurred > 0.02).sum() == pytest.approx(SIZE + 4.0, abs=1)
    assert middle(blurred) == pytest.approx(middle(sharp), abs=0.3)
