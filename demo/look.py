# SPDX-License-Identifier: GPL-3.0-or-later
"""Materials, light, camera and rendering of the demo scenes."""

import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import numpy.typing as npt
from mathutils import Vector

Colour = tuple[float, float, float]

WIDTH, HEIGHT = 640, 360
SAMPLES = 8


def flag_pixels(width: int = 480, height: int = 320) -> npt.NDArray[np.float32]:
    """(height, width, 4) a flag of our own: five stripes, a chequered canton, a ring."""
    x, y = np.meshgrid((np.arange(width) + 0.5) / width, (np.arange(height) + 0.5) / height)
    navy, cream, coral, gold = (
        np.array(colour) for colour in ((0.03, 0.08, 0.22), (0.93, 0.89, 0.79), (0.78, 0.13, 0.09),
                                        (0.95, 0.6, 0.1))
    )  # fmt: skip
    stripe = np.floor(y * 5.0).astype(int) % 2
    image = np.where(stripe[..., None] == 0, coral, cream)
    canton = (x < 0.42) & (y > 0.4)
    image[canton] = navy
    squares = (np.floor(x / 0.42 * 6.0) + np.floor((y - 0.4) / 0.6 * 6.0)) % 2 == 0
    border = canton & squares & ((x < 0.07) | (x > 0.35) | (y < 0.5) | (y > 0.9))
    image[border] = cream
    distance = np.hypot((x - 0.21) * width / height, y - 0.7)
    image[(distance > 0.08) & (distance < 0.13)] = gold
    return np.concatenate([image, np.ones((height, width, 1))], axis=2).astype(np.float32)


def flag_image() -> bpy.types.Image:
    """The flag as a packed image."""
    pixels = flag_pixels()
    height, width = pixels.shape[:2]
    image = bpy.data.images.new("Flag", width, height)
    image.pixels.foreach_set(pixels.reshape(-1))
    image.pack()
    return image


def cloth_material(
    name: str, colour: Colour, *, image: bpy.types.Image | None = None, gloss: float = 0.0
) -> bpy.types.Material:
    """Woven cloth: diffuse with sheen, some of the light comes through."""
    material = bpy.data.materials.new(name)
    material.use_nodes = True
    material.diffuse_color = (*colour, 1.0)
    tree: Any = material.node_tree
    nodes, links = tree.nodes, tree.links
    nodes.clear()
    output = nodes.new("ShaderNodeOutputMaterial")
    mix = nodes.new("ShaderNodeMixShader")
    mix.inputs[0].default_value = 0.25
    front = nodes.new("ShaderNodeBsdfPrincipled")
    front.inputs["Roughness"].default_value = 0.75 - 0.35 * gloss
    front.inputs["Sheen Weight"].default_value = 0.3
    through = nodes.new("ShaderNodeBsdfTranslucent")
    links.new(front.outputs[0], mix.inputs[1])
    links.new(through.outputs[0], mix.inputs[2])
    links.new(mix.outputs[0], output.inputs[0])
    if image is None:
        front.inputs["Base Color"].default_value = (*colour, 1.0)
        through.inputs["Color"].default_value = (*colour, 1.0)
    else:
        texture = nodes.new("ShaderNodeTexImage")
        texture.image = image
        links.new(texture.outputs["Color"], front.inputs["Base Color"])
        links.new(texture.outputs["Color"], through.inputs["Color"])
    return material


def plain_material(
    name: str, colour: Colour, *, metal: float = 0.0, rough: float = 0.6
) -> bpy.types.Material:
    """An even surface."""
    material = bpy.data.materials.new(name)
    material.use_nodes = True
    material.diffuse_color = (*colour, 1.0)
    tree: Any = material.node_tree
    surface = next(node for node in tree.nodes if node.type == "BSDF_PRINCIPLED")
    surface.inputs["Base Color"].default_value = (*colour, 1.0)
    surface.inputs["Metallic"].default_value = metal
    surface.inputs["Roughness"].default_value = rough
    return material


def paint(ob: bpy.types.Object, material: bpy.types.Material) -> None:
    """Give an object its material."""
    assert isinstance(ob.data, bpy.types.Mesh)
    ob.data.materials.append(material)


def ground(size: float = 40.0) -> None:
    """A floor that meets the sky."""
    bpy.ops.mesh.primitive_plane_add(size=size)
    floor = bpy.context.object
    assert floor is not None
    floor.name = "Ground"
    paint(floor, plain_material("Ground", (0.3, 0.27, 0.22), rough=0.9))


def light(elevation: float = 38.0, azimuth: float = -66.0, strength: float = 4.6) -> None:
    """A sun, and a sky that is brighter at the horizon."""
    lamp = bpy.data.lights.new("Sun", "SUN")
    lamp.energy = strength
    lamp.angle = math.radians(4.0)
    lamp.color = (1.0, 0.95, 0.87)
    sun = bpy.data.objects.new("Sun", lamp)
    sun.rotation_euler = (math.radians(90.0 - elevation), 0.0, math.radians(azimuth))
    scene = bpy.context.scene
    assert scene is not None
    scene.collection.objects.link(sun)
    world = bpy.data.worlds.new("Sky")
    world.use_nodes = True
    scene.world = world
    tree: Any = world.node_tree
    nodes, links = tree.nodes, tree.links
    nodes.clear()
    output = nodes.new("ShaderNodeOutputWorld")
    background = nodes.new("ShaderNodeBackground")
    background.inputs["Strength"].default_value = 0.55
    place = nodes.new("ShaderNodeTexCoord")
    split = nodes.new("ShaderNodeSeparateXYZ")
    ramp = nodes.new("ShaderNodeValToRGB")
    ramp.color_ramp.elements[0].color = (0.8, 0.86, 0.92, 1.0)
    ramp.color_ramp.elements[1].color = (0.12, 0.3, 0.66, 1.0)
    ramp.color_ramp.elements[1].position = 0.3
    links.new(place.outputs["Generated"], split.inputs[0])
    links.new(split.outputs["Z"], ramp.inputs[0])
    links.new(ramp.outputs[0], background.inputs["Color"])
    links.new(background.outputs[0], output.inputs[0])


def camera(place: Colour, target: Colour, lens: float = 40.0) -> None:
    """The scene's camera."""
    data = bpy.data.cameras.new("Camera")
    data.lens = lens
    ob = bpy.data.objects.new("Camera", data)
    ob.location = place
    direction = Vector(target) - Vector(place)
    ob.rotation_euler = direction.to_track_quat("-Z", "Y").to_euler()
    scene = bpy.context.scene
    assert scene is not None
    scene.collection.objects.link(ob)
    scene.camera = ob


def render_settings(width: int = WIDTH, height: int = HEIGHT, samples: int = SAMPLES) -> None:
    """Cycles on the processor, few samples, denoised."""
    scene = bpy.context.scene
    assert scene is not None
    render = scene.render
    render.engine = "CYCLES"
    render.resolution_x, render.resolution_y, render.resolution_percentage = width, height, 100
    render.use_persistent_data = True
    render.image_settings.file_format = "PNG"
    render.image_settings.compression = 60
    cycles: Any = scene.cycles
    cycles.device = "CPU"
    cycles.samples = samples
    cycles.use_adaptive_sampling = False
    cycles.use_denoising = True
    cycles.denoising_prefilter = "FAST"
    cycles.denoising_quality = "FAST"
    cycles.max_bounces = 4
    cycles.diffuse_bounces = 2
    cycles.transmission_bounces = 2
    scene.view_settings.view_transform = "AgX"
    scene.view_settings.look = "AgX - Medium High Contrast"
    scene.view_settings.exposure = 0.35


def render_frames(frames: Iterable[int], folder: Path, name: str = "frame") -> list[Path]:
    """Render single PNG files and say how long each takes."""
    scene = bpy.context.scene
    assert scene is not None
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for frame in frames:
        begin = time.perf_counter()
        scene.frame_set(frame)
        path = folder / f"{name}_{frame:04d}.png"
        scene.render.filepath = str(path)
        bpy.ops.render.render(write_still=True)
        paths.append(path)
        print(f"  frame {frame}: {time.perf_counter() - begin:.1f} s", flush=True)
    return paths


def write_film(paths: list[Path], film: Path, fps: int) -> bool:
    """Make an mp4 of PNG files by Blender's own sequencer; false if this Blender cannot."""
    scene = bpy.data.scenes.new("Film")
    render = scene.render
    image = bpy.data.images.load(str(paths[0]))
    render.resolution_x, render.resolution_y = image.size
    render.resolution_percentage = 100
    render.fps = fps
    scene.frame_start, scene.frame_end = 1, len(paths)
    # The frames have their look already.
    scene.view_settings.view_transform = "Standard"
    editor: Any = scene.sequence_editor_create()
    strips = editor.strips if hasattr(editor, "strips") else editor.sequences
    strip = strips.new_image("Frames", str(paths[0]), 1, 1)
    for path in paths[1:]:
        strip.elements.append(path.name)
    settings: Any = render.image_settings
    try:
        if hasattr(settings, "media_type"):
            settings.media_type = "VIDEO"
        settings.file_format = "FFMPEG"
    except TypeError as error:
        print(f"No film: {error}")
        bpy.data.scenes.remove(scene)
        return False
    render.ffmpeg.format = "MPEG4"
    render.ffmpeg.codec = "H264"
    render.ffmpeg.constant_rate_factor = "HIGH"
    render.use_file_extension = False
    render.filepath = str(film)
    bpy.ops.render.render(animation=True, scene=scene.name)
    bpy.data.scenes.remove(scene)
    return film.is_file()
