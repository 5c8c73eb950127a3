# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: ``blender -b FILE --command taichi_cloth bake|info|check|clear``.

Exit code 0: done; 1: failed; 2: wrong usage. ``bake`` and ``clear`` save the .blend, because
the modifier that plays a bake is part of it; ``--no-save`` leaves the file alone.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

import bpy

from . import bake, capture, finished, plans, status
from .properties import cloth_settings, is_cloth

_COMMAND = "taichi_cloth"
_OK, _FAILED, _USAGE = 0, 1, 2
_handles: list[object] = []


class _UsageError(Exception):
    """What was asked for does not exist."""


def main(arguments: Sequence[str]) -> int:
    """Run one command; return the exit code."""
    parser = _parser()
    try:
        options = parser.parse_args(list(arguments))
    except SystemExit as error:
        return _OK if error.code in (0, None) else _USAGE
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "bake": _bake,
        "info": _info,
        "check": _check,
        "clear": _clear,
    }
    try:
        return commands[options.what](options)
    except _UsageError as error:
        print(f"Error: {error}", file=sys.stderr)
        return _USAGE
    except (*bake.EXPECTED, RuntimeError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return _FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"blender -b FILE --command {_COMMAND}", description="Bake cloth without a window"
    )
    parser.add_argument("what", choices=("bake", "info", "check", "clear"))
    parser.add_argument(
        "--object",
        action="append",
        default=[],
        metavar="NAME",
        help="only this object; may be given several times (all cloths of the scene otherwise)",
    )
    parser.add_argument("--start", type=int, help="bake: first frame (kept in the file)")
    parser.add_argument("--end", type=int, help="bake: last frame (kept in the file)")
    parser.add_argument("--resume", action="store_true", help="bake: go on with a cancelled bake")
    parser.add_argument("--no-save", action="store_true", help="do not save the .blend afterwards")
    return parser


def _objects(options: argparse.Namespace) -> list[bpy.types.Object]:
    scene = _scene()
    found = []
    for name in options.object:
        if name not in scene.objects:
            raise _UsageError(f'the scene "{scene.name}" has no object "{name}"')
        ob = scene.objects[name]
        if ob.type != "MESH":
            raise _UsageError(f'the object "{name}" is no mesh')
        found.append(ob)
    if not options.object:
        found = [ob for ob in scene.objects if is_cloth(ob)]
        if not found:
            raise plans.BakeError(
                f'The scene "{scene.name}" has no cloth; name a mesh object with --object'
            )
    return found


def _scene() -> bpy.types.Scene:
    scene = bpy.context.scene
    assert scene is not None
    return scene


def _bake(options: argparse.Namespace) -> int:
    scene, objects = _scene(), _objects(options)
    if options.resume and (options.start is not None or options.end is not None):
        raise _UsageError("--resume goes on to the end that the file has; leave out the frames")
    if options.start is not None or options.end is not None:
        for ob in objects:
            first, last = capture.frame_range(scene, ob)
            settings = cloth_settings(ob)
            settings.use_scene_range = False
            settings.frame_start = first if options.start is None else options.start
            settings.frame_end = last if options.end is None else options.end
    session = bake.BakeSession(scene, objects, resume=options.resume)
    shown = ""

    def tick(running: bake.BakeSession) -> None:
        nonlocal shown
        progress = running.progress
        line = "  ".join(filter(None, (progress.text(), progress.timing(), progress.device)))
        if line != shown:
            shown = line
            print(line, flush=True)

    bake.run(session, tick)
    for notice in session.notices + session.progress.messages:
        print(f"Warning: {notice}", flush=True)
    if session.changed:
        _save(options)
    if session.outcome is not bake.Outcome.DONE:
        print(f"Error: {session.summary()}", file=sys.stderr)
        return _FAILED
    print(session.summary(), flush=True)
    return _OK


def _info(options: argparse.Namespace) -> int:
    scene = _scene()
    for ob in _objects(options):
        seen = status.view(ob)
        first, last = capture.frame_range(scene, ob)
        parts = [f"{ob.name}: {seen.state}", f"range {first} to {last}"]
        if seen.playing:
            parts.append(f"baked {seen.frame_first} to {seen.frame_last}")
        if seen.device:
            parts.append(seen.device)
        if seen.message:
            parts.append(seen.message)
        print(", ".join(parts), flush=True)
    return _OK


def _check(options: argparse.Namespace) -> int:
    problems = capture.check(_scene(), _objects(options))
    for problem in problems:
        print(f"{problem.severity}: {problem.message}", flush=True)
    if not problems:
        print("No problems found", flush=True)
    return _FAILED if any(problem.severity == "ERROR" for problem in problems) else _OK


def _clear(options: argparse.Namespace) -> int:
    for ob in _objects(options):
        kept = finished.delete_bake(_scene(), ob)
        print(f"{ob.name}: deleted the bake", flush=True)
        if kept:
            print(f"Warning: {kept}", flush=True)
    _save(options)
    return _OK


def _save(options: argparse.Namespace) -> None:
    if options.no_save:
        return
    if not bpy.data.filepath:
        print("Warning: there is no file to save, so the bake is lost when Blender ends")
        return
    bpy.ops.wm.save_mainfile()


def register() -> None:
    """Make the command known to Blender."""
    _handles.append(bpy.utils.register_cli_command(_COMMAND, main))


def unregister() -> None:
    """Take it back."""
    while _handles:
        bpy.utils.unregister_cli_command(_handles.pop())
