# SPDX-License-Identifier: GPL-3.0-or-later
"""One measurement of a cloth of Blender's: `blender_speed_child.py '{"mode": ..., "out": FILE}'`.

Modes: "cloth" steps the Cloth modifier in the material of the hanging sheet, "bake" bakes it,
"dynamics" steps the node asset Cloth Dynamics, "mesh" reads a mesh file.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import processes

CHOSEN: dict[str, Any] = json.loads(sys.argv[-1])
if CHOSEN.get("alone"):
    # Before Blender counts the processors.
    processes.one_processor()

import blender_child  # noqa: E402
import bpy  # noqa: E402
import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402

# Blender's cloth takes a frame for 1 / sqrt(1000) s whatever the frame rate says.
CLOCK = 1000.0**0.5
# kg of each vertex; only stiffness over mass counts here.
MASS = 0.3
DYNAMICS = "Cloth Dynamics (Experimental)"
ASSETS = "assets/nodes/geometry_nodes_dynamics_assets.blend"
# Of the node asset: at 0 it is a rigid plate.
BENDINESS = 0.2


def _scene() -> Any:
    return bpy.context.scene


def _sheet(options: dict[str, Any]) -> bpy.types.Object:
    """The sheet at the origin, so that single precision has as much as ours keeps."""
    ob = blender_child.sheet(options["side"], 1.0)
    mesh: Any = ob.data
    positions = np.empty((options["side"] ** 2, 3), dtype=np.float32)
    mesh.vertices.foreach_get("co", positions.reshape(-1))
    positions[:, 2] = 0.0
    mesh.vertices.foreach_set("co", positions.reshape(-1))
    mesh.update()
    group = ob.vertex_groups["pin"]
    group.remove(range(len(mesh.vertices)))
    group.add(options["pins"], 1.0, "REPLACE")
    _scene().frame_start, _scene().frame_end = 1, options["frames"] + 1
    return ob


def _cloth_modifier(ob: bpy.types.Object, options: dict[str, Any]) -> Any:
    """The Cloth modifier with the springs of the sheet, undamped, on the right clock.

    A slider of s means springs of 1000 s / rest length in N/m (measured), so that a shear spring,
    a diagonal long, needs the slider the square root of 2 higher.
    """
    modifier: Any = ob.modifiers.new("Cloth", "CLOTH")
    settings = modifier.settings
    edge = 1.0 / (options["side"] - 1)
    per_mass = options["stiffness"] / (options["density"] * edge**2)
    slider = per_mass * MASS * edge / 1000.0
    settings.quality = options["quality"]
    settings.mass = MASS
    settings.tension_stiffness = settings.compression_stiffness = slider
    settings.shear_stiffness = slider * options["shear_share"] * 2.0**0.5
    settings.bending_stiffness = 0.0
    settings.tension_damping = settings.compression_damping = settings.shear_damping = 0.0
    settings.bending_damping = settings.air_damping = 0.0
    settings.time_scale = CLOCK / _scene().render.fps
    settings.vertex_group_mass = "pin"
    modifier.collision_settings.use_collision = False
    cache = modifier.point_cache
    cache.frame_start, cache.frame_end = 1, options["frames"] + 1
    return modifier


def _step(ob: bpy.types.Object, options: dict[str, Any], modifier: Any | None) -> None:
    """Advance frame by frame; the reading of the positions is not timed."""
    scene = _scene()
    scene.frame_set(1)
    positions, wall, cpu, iterations = [blender_child.read(ob)], [], [], []
    for frame in range(2, options["frames"] + 2):
        busy, begin = processes.cpu_time(), time.perf_counter()
        scene.frame_set(frame)
        wall.append(time.perf_counter() - begin)
        cpu.append(processes.cpu_time() - busy)
        positions.append(blender_child.read(ob))
        if modifier is not None:
            evaluated = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
            result = evaluated.modifiers[modifier.name].solver_result
            # Its mean is over the quality, not over the steps of the scaled time.
            iterations.append(result.avg_iterations * options["quality"] if result else 0.0)
        if sum(wall) > options["limit"]:
            break
    found: dict[str, Any] = {"wall": wall, "cpu": cpu}
    if modifier is not None:
        found["substeps"] = round(options["quality"] * modifier.settings.time_scale)
        found["iterations"] = float(np.mean(iterations))
    _write(options, positions, **found)


def cloth(options: dict[str, Any]) -> None:
    """Step the Cloth modifier."""
    ob = _sheet(options)
    _step(ob, options, _cloth_modifier(ob, options))


def bake(options: dict[str, Any]) -> None:
    """Bake the Cloth modifier by its operator, to memory."""
    ob = _sheet(options)
    modifier = _cloth_modifier(ob, options)
    busy, begin = processes.cpu_time(), time.perf_counter()
    bpy.ops.ptcache.bake_all(bake=True)
    wall, cpu = time.perf_counter() - begin, processes.cpu_time() - busy
    if not modifier.point_cache.is_baked:
        raise SystemExit("Blender has not baked its cloth")
    positions = [blender_child.read(ob)]
    for frame in (1, options["frames"] + 1):
        _scene().frame_set(frame)
        positions.append(blender_child.read(ob))
    if not np.abs(positions[2] - positions[1]).max() > 0.1:
        raise SystemExit("Blender's bake has not moved the cloth")
    _write(options, positions, seconds=wall, cpu=cpu)


def _node_modifier(ob: bpy.types.Object) -> Any:
    """Add the asset as a modifier; returns a look-up of its inputs by name and panel."""
    path = Path(bpy.utils.system_resource("DATAFILES")) / ASSETS
    with bpy.data.libraries.load(str(path), link=False) as (_, target):
        target.node_groups = [DYNAMICS]
    group = bpy.data.node_groups[DYNAMICS]
    modifier: Any = ob.modifiers.new("Dynamics", "NODES")
    modifier.node_group = group
    identifiers = {}
    tree: Any = group.interface
    for item in tree.items_tree:
        if item.item_type == "SOCKET" and item.in_out == "INPUT":
            panel = item.parent.name if item.parent else ""
            identifiers[panel, item.name] = item.identifier

    def socket(name: str, panel: str = "") -> Any:
        return getattr(modifier.properties.inputs, identifiers[panel, name])

    return socket


def dynamics(options: dict[str, Any]) -> None:
    """Step the node asset."""
    if options["substeps"] % 2:
        raise SystemExit("at odd substeps Cloth Dynamics applies too little gravity")
    ob = _sheet(options)
    socket = _node_modifier(ob)
    socket("Substeps", "Solver").value = options["substeps"]
    socket("Constraint Steps", "Solver").value = options["steps"]
    socket("Stretchiness").value = 0.0
    socket("Bendiness").value = BENDINESS
    socket("Linear Damping", "Damping").value = 0.0
    pin = socket("Pin Group")
    pin.type, pin.attribute_name = "ATTRIBUTE", "pin"
    _step(ob, options, None)


def mesh(options: dict[str, Any]) -> None:
    """Read an OBJ or USD file: world positions with z upwards, triangles."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    path = options["path"]
    if path.lower().endswith(".obj"):
        bpy.ops.wm.obj_import(filepath=path)
    else:
        bpy.ops.wm.usd_import(filepath=path)
    points, faces, start = [], [], 0
    depsgraph = bpy.context.evaluated_depsgraph_get()
    for ob in _scene().objects:
        if ob.type != "MESH":
            continue
        data: Any = ob.evaluated_get(depsgraph).data
        local = np.empty((len(data.vertices), 3))
        data.vertices.foreach_get("co", local.reshape(-1))
        matrix = np.array(ob.matrix_world)
        points.append(local @ matrix[:3, :3].T + matrix[:3, 3])
        data.calc_loop_triangles()
        corners = np.empty(3 * len(data.loop_triangles), dtype=np.int32)
        data.loop_triangles.foreach_get("vertices", corners)
        faces.append(corners.reshape(-1, 3) + start)
        start += len(local)
    if not points:
        raise SystemExit(f"{path} has no mesh")
    np.savez(options["out"], positions=np.concatenate(points), faces=np.concatenate(faces))


def _write(options: dict[str, Any], positions: list[npt.NDArray[np.float32]], **found: Any) -> None:
    found["memory"] = processes.peak_memory()
    np.savez(options["out"], positions=np.array(positions), found=json.dumps(found))


if __name__ == "__main__":
    {"cloth": cloth, "bake": bake, "dynamics": dynamics, "mesh": mesh}[CHOSEN["mode"]](CHOSEN)
