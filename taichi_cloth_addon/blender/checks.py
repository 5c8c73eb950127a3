# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds what stands in the way of a bake, all of it in one pass. Part of ``capture``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath

import bpy
import numpy as np

from ..engine.mesh import Diagnosis, Mesh, Steps, diagnose_steps, finished
from . import cache_paths, effectors, evaluated, hashes, stack
from .properties import cloth_settings

COARSE = 100
"""Fewer vertices than this cannot make folds."""
_TINY = 1e-9
_STRONG_GRAVITY = 100.0


@dataclass(frozen=True)
class Problem:
    """Something about an object that a bake cannot or should not live with.

    Attributes:
        object_name: whose.
        severity: ERROR prevents the bake, WARNING does not.
        message: what, and the way out; names the object.
        fix: what a button could do about it: SUBDIVIDE, PIN, or empty.
    """

    object_name: str
    severity: str
    message: str
    fix: str = ""


def frame_range(scene: bpy.types.Scene, ob: bpy.types.Object) -> tuple[int, int]:
    """First and last frame of the object's bake."""
    settings = cloth_settings(ob)
    if settings.use_scene_range:
        return hashes.scene_range(scene)
    return settings.frame_start, settings.frame_end


Find = Callable[[], tuple[bpy.types.Scene, Sequence[bpy.types.Object]]]
"""Finds the scene and the objects anew: no pointer is kept over a pause."""


def check(scene: bpy.types.Scene, objects: Sequence[bpy.types.Object]) -> list[Problem]:
    """List every problem of every object, at the current frame.

    Evaluates the scene; edits in Edit Mode are flushed to the mesh.
    """
    return finished(check_steps(lambda: (scene, objects), evaluated.KnownWeights()))


def check_steps(find: Find, known: evaluated.KnownWeights) -> Steps[list[Problem]]:
    """As ``check``, with pauses.

    Args:
        find: finds the scene and the objects.
        known: takes the pin groups that are read on the way.
    """
    problems: list[Problem] = []
    evaluated.settle(find()[0])
    for index in range(len(find()[1])):
        yield from _object_steps(partial(_one_of, find, index), problems, known)
        yield
    _check_scene(*find(), problems)
    return problems


def _one_of(find: Find, index: int) -> tuple[bpy.types.Scene, bpy.types.Object]:
    scene, objects = find()
    return scene, objects[index]


def _object_steps(
    find: Callable[[], tuple[bpy.types.Scene, bpy.types.Object]],
    problems: list[Problem],
    known: evaluated.KnownWeights,
) -> Steps[None]:
    """Append the problems of one object."""
    visible = _Check(*find(), problems).first_look()
    if visible is None:
        return
    yield
    copied = _Check(*find(), problems).mesh()
    if copied is not None:
        name, shape, positions = copied
        yield
        found = yield from diagnose_steps(shape, positions.astype(np.float64))
        _tell(name, found, problems)
    if visible:
        yield from known.read_steps(lambda: find()[1])
        yield
        _Check(*find(), problems).evaluation(known)


def _tell(name: str, found: Diagnosis, problems: list[Problem]) -> None:
    """Faults that the engine finds; it copes with all but missing numbers."""
    for index, sentence in enumerate(found.sentences(f'"{name}"')):
        fatal = index == 0 and len(found.non_finite_vertices)
        severity = "ERROR" if fatal else "WARNING"
        problems.append(Problem(name, severity, sentence + "."))


def _check_scene(
    scene: bpy.types.Scene, objects: Sequence[bpy.types.Object], problems: list[Problem]
) -> None:
    if not objects:
        return
    first = objects[0]
    strength = float(np.linalg.norm(np.array(scene.gravity)))
    if scene.use_gravity and strength > _STRONG_GRAVITY and effectors.unit_scale(scene) != 1.0:
        problems.append(
            Problem(
                first.name,
                "WARNING",
                f"Gravity is taken as {strength:g} m/s²: the unit scale does not apply to it. "
                "Set it to -9.81 in the scene's properties.",
            )
        )
    if not any(cloth_settings(ob).use_force_fields for ob in objects):
        return
    layer = evaluated.view_layer_of(scene, first)
    hidden = [
        ob.name for ob in effectors.wind_objects(layer) if not ob.visible_get(view_layer=layer)
    ]
    if hidden:
        problems.append(
            Problem(
                first.name,
                "WARNING",
                f"Hidden wind does not blow: {', '.join(hidden)}. Show it in the viewport if it "
                "should.",
            )
        )


class _Check:
    """The check of one object."""

    def __init__(
        self, scene: bpy.types.Scene, ob: bpy.types.Object, problems: list[Problem]
    ) -> None:
        self.scene = scene
        self.ob = ob
        self.problems = problems

    def error(self, message: str, fix: str = "") -> None:
        self.problems.append(Problem(self.ob.name, "ERROR", f'"{self.ob.name}" {message}', fix))

    def warning(self, message: str, fix: str = "") -> None:
        self.problems.append(Problem(self.ob.name, "WARNING", f'"{self.ob.name}" {message}', fix))

    def first_look(self) -> bool | None:
        """Append what needs no look at the mesh.

        Returns:
            Whether the object can be evaluated; None if there is no mesh to look at.
        """
        ob = self.ob
        if not isinstance(ob.data, bpy.types.Mesh):
            self.error("is no mesh. Convert it to a mesh (Object > Convert).")
            return None
        self.ownership()
        visible = self.visibility()
        self.settings()
        if ob.use_dynamic_topology_sculpting:
            self.error("is sculpted with dynamic topology. Leave Sculpt Mode first.")
            return None
        if ob.mode != "OBJECT":
            ob.update_from_editmode()
        return visible

    def ownership(self) -> None:
        """Linked data cannot get a modifier."""
        ob = self.ob
        if ob.library is not None:
            self.error(
                f"is linked from {PurePath(ob.library.filepath).name}. Make it local "
                "(Object > Relations > Make Local) or bake it in its own file."
            )
        elif ob.override_library is not None and ob.override_library.is_system_override:
            self.error(
                "is a library override that cannot be edited. Make it editable "
                "(Object > Library Override > Make) or local."
            )

    def visibility(self) -> bool:
        """Only what the viewport shows is evaluated; whether it is."""
        ob, scene = self.ob, self.scene
        if ob.name not in scene.objects or scene.objects[ob.name] != ob:
            self.error(f'is not in the scene "{scene.name}". Link it to one of its collections.')
            return False
        layer = evaluated.view_layer_of(scene, ob)
        if ob.name not in layer.objects:
            self.error(
                f'is in a collection that the view layer "{layer.name}" excludes. '
                "Tick the collection in the Outliner."
            )
            return False
        if not ob.visible_get(view_layer=layer):
            self.error("is hidden in the viewport, so it is not evaluated. Show it to bake it.")
            return False
        return True

    def settings(self) -> None:
        """Range, folder, transform, other simulations."""
        ob = self.ob
        first, last = frame_range(self.scene, ob)
        if last <= first:
            self.error(f"has the range {first} to {last}. Its end must come after its start.")
        folder = cache_paths.folder_problem(ob)
        if folder:
            self.error(f"cannot be baked. {folder}")
        if abs(np.linalg.det(np.array(ob.matrix_world, np.float64)[:3, :3])) < _TINY**3:
            self.error("has a scale of zero along an axis. Give it a scale.")
        for modifier in stack.rivals(ob):
            self.warning(
                f'has the {modifier.type.replace("_", " ").title()} modifier "{modifier.name}"; '
                "it will be switched off."
            )

    def mesh(self) -> tuple[str, Mesh, evaluated.Positions] | None:
        """Append what the base mesh is too small for; the name and a copy of the mesh."""
        mesh = evaluated.base_mesh(self.ob)
        if not len(mesh.polygons):
            self.error("has no faces, so there is no cloth. Add faces (select the edges, press F).")
            return None
        if len(mesh.vertices) < COARSE:
            self.warning(
                f"has only {len(mesh.vertices)} vertices, too few for folds. Subdivide it.",
                "SUBDIVIDE",
            )
        return self.ob.name, evaluated.read_mesh(mesh), evaluated.read_positions(mesh)

    def evaluation(self, known: evaluated.KnownWeights) -> None:
        """The modifier stack and the pins."""
        mesh = evaluated.base_mesh(self.ob)
        ob = self.ob
        layer = evaluated.view_layer_of(self.scene, ob)
        place = evaluated.place_of(ob, layer)
        if place.error:
            self.problems.append(Problem(ob.name, "ERROR", place.error))
            return
        name = cloth_settings(ob).pin_group
        weights = None
        if name and mesh.is_editmode:
            weights = evaluated.group_weights(ob, mesh, name, known.of(ob))
            if weights is None and (place.before or stack.unknown(ob)):
                return  # A modifier may write it; seen when the object leaves Edit Mode.
        elif name:
            with evaluated.unbaked(ob, place.before):
                depsgraph = evaluated.updated_depsgraph(layer)
                try:
                    data = evaluated.evaluated_mesh(ob, depsgraph)
                except evaluated.CaptureError as error:
                    self.problems.append(Problem(ob.name, "ERROR", str(error)))
                    return
                result = ob.evaluated_get(depsgraph)
                read = known.of(ob, place.before)
                weights = evaluated.group_weights(result, data, name, read)
            layer.update()
        if name and weights is None:
            self.error(
                f'has no vertex group or attribute "{name}" to pin it by. '
                "Choose another pin group, or none.",
                "PIN",
            )
        elif weights is None:
            self.warning(
                "has no pin group, so it falls. Select vertices in Edit Mode and pin them.", "PIN"
            )
        elif not (weights > 0.0).any():
            self.warning(
                f'has no vertex with a weight in the pin group "{name}", so it falls. '
                "Select vertices in Edit Mode and pin them.",
                "PIN",
            )
