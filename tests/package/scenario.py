# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user does with the zip, in a Blender of its own; writes what it saw as JSON.

Run by test_install.py with the arguments ZIP RESULT.json, and BLENDER_USER_RESOURCES naming an
empty folder. Installs, enables, bakes, disables, enables and bakes again, disables, removes.
"""

import gc
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import bpy

PACKAGE = "bl_ext.user_default.taichi_cloth"
FRAMES = (1, 5)
SIDE = 8

commands: dict[str, Any] = {}


def watch_commands() -> None:
    """Remembers the commands that are registered: Blender cannot list them."""
    register, unregister = bpy.utils.register_cli_command, bpy.utils.unregister_cli_command

    def remembering_register(name: str, execute: Any) -> Any:
        handle = register(name, execute)
        commands[name] = handle
        return handle

    def remembering_unregister(handle: Any) -> None:
        unregister(handle)
        for name in [name for name, value in commands.items() if value is handle]:
            del commands[name]

    bpy.utils.register_cli_command = remembering_register
    bpy.utils.unregister_cli_command = remembering_unregister


def subclasses(base: type) -> set[type]:
    """All classes below a class of Blender."""
    found = set()
    for child in base.__subclasses__():
        found |= {child, *subclasses(child)}
    return found


def registered() -> dict[str, list[str]]:
    """Everything in Blender that an add-on can leave behind, by kind."""
    gc.collect()
    bases = ("Operator", "Panel", "Menu", "UIList", "PropertyGroup", "AddonPreferences", "Header")
    state: dict[str, list[str]] = {
        "classes": sorted(
            f"{kind}: {cls.__module__}.{cls.__name__}"
            for kind in bases
            for cls in subclasses(getattr(bpy.types, kind))
            if getattr(cls, "is_registered", False) and is_ours(cls)
        ),
        "operators": sorted(dir(bpy.ops.taichi_cloth)),
        "properties": sorted(
            f"{owner}.{prop.identifier}"
            for owner in (
                *("Object", "Scene", "Mesh", "WindowManager", "Collection", "World", "Action"),
                *("Material", "Screen", "MeshCacheModifier", "Window", "WorkSpace"),
            )
            for prop in getattr(bpy.types, owner).bl_rna.properties
        ),
        "handlers": sorted(
            f"{kind}: {handler.__module__}.{handler.__qualname__}"
            for kind in dir(bpy.app.handlers)
            if isinstance(getattr(bpy.app.handlers, kind), list)
            for handler in getattr(bpy.app.handlers, kind)
        ),
        "draw functions": sorted(
            f"{name}: {function.__module__}"
            for name in dir(bpy.types)
            for function in getattr(
                getattr(getattr(bpy.types, name), "draw", None), "_draw_funcs", ()
            )
            if is_ours(function)
        ),
        "commands": sorted(commands),
        "timers": sorted(
            f"{module.__name__}.{name}"
            for module in [m for n, m in sys.modules.items() if "taichi_cloth" in n]
            for name, value in vars(module).items()
            if callable(value) and not isinstance(value, type) and is_timer(value)
        ),
    }
    return state


def is_ours(thing: Any) -> bool:
    """Whether a class or function comes from the extension; Blender makes others at any time."""
    return "taichi_cloth" in f"{thing.__module__}.{thing.__name__}".lower()


def is_timer(function: Any) -> bool:
    """Whether a function runs on one of Blender's timers."""
    try:
        return bool(bpy.app.timers.is_registered(function))
    except (TypeError, ValueError):
        return False


def children() -> list[str]:
    """Processes that this one has started and that still run (Linux only)."""
    found = []
    for path in Path("/proc/self/task").glob("*/children"):
        for child in path.read_text().split():
            command = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            found.append(b" ".join(command).decode("utf-8", "replace"))
    return found


def files_below(folder: Path) -> list[str]:
    """The files of an installed extension without Python's own caches."""
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )


def new_cloth(folder: Path) -> Any:
    """A saved file with a small grid, pinned along one side."""
    bpy.ops.wm.save_as_mainfile(filepath=str(folder / "cloth.blend"))
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = FRAMES
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=SIDE - 1, y_subdivisions=SIDE - 1, size=1)
    ob = bpy.context.object
    group = ob.vertex_groups.new(name="Pins")
    group.add([v.index for v in ob.data.vertices if v.co.y > 0.49], 1.0, "REPLACE")
    bpy.ops.taichi_cloth.add()
    ob.taichi_cloth.pin_group = group.name
    return ob


def heights(ob: Any, frame: int) -> list[float]:
    """Evaluated heights of the vertices at a frame."""
    bpy.context.scene.frame_set(frame)
    evaluated = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
    return [vertex.co.z for vertex in evaluated.data.vertices]


def bake(folder: Path) -> dict[str, Any]:
    """Bakes a small cloth and tells what came of it."""
    folder.mkdir()
    ob = new_cloth(folder)
    result = sorted(bpy.ops.taichi_cloth.bake())
    status = ob.taichi_cloth_status
    first, last = heights(ob, FRAMES[0]), heights(ob, FRAMES[1])
    return {
        "result": result,
        "state": status.state,
        "message": status.message,
        "range": [status.frame_first, status.frame_last],
        "modifiers": [modifier.type for modifier in ob.modifiers],
        "caches": [path.name for path in folder.rglob("*.pc2")],
        "highest_first": max(map(abs, first)),
        "lowest_last": min(last),
        "taichi_in_blender": "taichi" in sys.modules,
        "children": children(),
    }


def main() -> dict[str, Any]:
    """Goes through it all."""
    import addon_utils  # findable once bpy is imported

    zip_file, work = sys.argv[1], Path(sys.argv[2]).parent
    watch_commands()
    facts: dict[str, Any] = {"blender": bpy.app.version_string, "before": registered()}
    bpy.ops.extensions.package_install_files(
        filepath=zip_file, repo="user_default", enable_on_install=True
    )
    module = sys.modules[PACKAGE]
    installed = Path(module.__file__).parent
    facts["enabled"] = registered()
    facts["files installed"] = files_below(installed)
    facts["first bake"] = bake(work / "first")
    facts["files after the bake"] = files_below(installed)
    # With the baked file open: settings of a cloth must not survive in a broken form either.
    addon_utils.disable(PACKAGE, default_set=True)
    facts["disabled"] = registered()
    addon_utils.enable(PACKAGE, default_set=True)
    facts["enabled again"] = registered()
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    facts["second bake"] = bake(work / "second")
    addon_utils.disable(PACKAGE, default_set=True)
    facts["disabled again"] = registered()
    repositories = bpy.context.preferences.extensions.repos
    index = [repository.module for repository in repositories].index("user_default")
    bpy.ops.extensions.package_uninstall(repo_index=index, pkg_id="taichi_cloth")
    facts["left after uninstalling"] = files_below(installed) if installed.exists() else []
    return facts


if __name__ == "__main__":
    target = Path(sys.argv[2])
    try:
        outcome = main()
    except BaseException:
        target.write_text(json.dumps({"error": traceback.format_exc()}), encoding="utf-8")
        raise
    target.write_text(json.dumps(outcome), encoding="utf-8")
