# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads evaluated meshes as the simulation sees them: without the bake and what follows it.

Reads the depsgraph; part of ``capture``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np
import numpy.typing as npt

from ..engine.mesh import Mesh, Steps
from . import animation, stack
from .properties import cloth_settings

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int32]
Positions = npt.NDArray[np.float32]

KEY_PREFIX = "Taichi Cloth "
"""Names of the shape keys that a bake made begin like this."""


_SMALLEST_SCALE = 1e-9
_PIECE = 4096
"""Vertices whose groups are read at a time."""


class CaptureError(Exception):
    """The scene cannot be read. The text names the object and the way out."""


def view_layer_of(
    scene: bpy.types.Scene, ob: bpy.types.Object | None = None
) -> bpy.types.ViewLayer:
    """View layer to read: the window's, unless only another one of the scene shows the object."""
    layers = list(scene.view_layers)
    current = bpy.context.view_layer
    if current in layers:
        layers.sort(key=lambda layer: layer != current)
    if ob is not None:
        for layer in layers:
            if ob.name in layer.objects and ob.visible_get(view_layer=layer):
                return layer
    return layers[0]


def settle(scene: bpy.types.Scene) -> None:
    """Bring all view layers up to date: only then do they know what they show."""
    for layer in scene.view_layers:
        layer.update()


def updated_depsgraph(view_layer: bpy.types.ViewLayer) -> bpy.types.Depsgraph:
    """The view layer's depsgraph, up to date at the scene's current frame."""
    view_layer.update()
    return depsgraph_of(view_layer)


def depsgraph_of(view_layer: bpy.types.ViewLayer) -> bpy.types.Depsgraph:
    """The view layer's depsgraph, as it was evaluated last."""
    depsgraph = view_layer.depsgraph
    if depsgraph is None:
        view_layer.update()
        depsgraph = view_layer.depsgraph
        assert depsgraph is not None
    return depsgraph


def base_mesh(ob: bpy.types.Object) -> bpy.types.Mesh:
    """The object's own mesh.

    Raises:
        CaptureError: it is no mesh object.
    """
    if not isinstance(ob.data, bpy.types.Mesh):
        raise CaptureError(f'"{ob.name}" is no mesh. Convert it to a mesh (Object > Convert).')
    return ob.data


def own_keys(ob: bpy.types.Object) -> list[bpy.types.ShapeKey]:
    """Shape keys that a bake made."""
    keys = base_mesh(ob).shape_keys
    return [k for k in keys.key_blocks if k.name.startswith(KEY_PREFIX)] if keys else []


def user_keys(ob: bpy.types.Object) -> list[bpy.types.ShapeKey]:
    """The artist's own shape keys, the basis included."""
    keys = base_mesh(ob).shape_keys
    return [k for k in keys.key_blocks if not k.name.startswith(KEY_PREFIX)] if keys else []


# ---------------------------------------------------------------------- switching off


@contextmanager
def without(ob: bpy.types.Object, modifiers: Sequence[bpy.types.Modifier]) -> Iterator[None]:
    """Switch these modifiers off in the viewport, even if animated, and back on afterwards."""
    with ExitStack() as undo:
        for modifier in modifiers:
            path = animation.property_path("modifiers", modifier.name, "show_viewport")
            for curve in animation.curves_on(ob, path):
                if not curve.mute:
                    curve.mute = True
                    undo.callback(setattr, curve, "mute", False)
            if modifier.show_viewport:
                undo.callback(_show, ob, modifier.name)
                modifier.show_viewport = False
        yield


@contextmanager
def _shown(modifier: bpy.types.Modifier) -> Iterator[None]:
    """Switch on for a moment a modifier that is perhaps on in renders only."""
    before = modifier.show_viewport
    if not before:
        modifier.show_viewport = True
    try:
        yield
    finally:
        if not before:
            modifier.show_viewport = False


def _show(ob: bpy.types.Object, name: str) -> None:
    if name in ob.modifiers:
        ob.modifiers[name].show_viewport = True


@contextmanager
def _without_switches(block: bpy.types.ID) -> Iterator[None]:
    """Hold the drivers that a bake put on a data-block at what they are before the bake."""
    with ExitStack() as undo:
        for curve in animation.switches(block):
            driver = curve.driver
            if curve.mute or driver is None:
                continue
            path, _, attribute = curve.data_path.rpartition(".")
            owner = block.path_resolve(path)
            earlier = driver.expression.startswith("frame <")
            undo.callback(setattr, owner, attribute, getattr(owner, attribute))
            undo.callback(setattr, curve, "mute", False)
            curve.mute = True
            kind = type(getattr(owner, attribute))
            setattr(owner, attribute, kind(earlier))
        yield


@contextmanager
def _without_own_keys(ob: bpy.types.Object) -> Iterator[None]:
    """Let the shape keys that a bake made do nothing."""
    keys = base_mesh(ob).shape_keys
    own = own_keys(ob)
    assert keys is not None
    with ExitStack() as undo:
        undo.enter_context(_without_switches(keys))
        if keys.use_relative:
            for key in own:
                if not key.mute:
                    key.mute = True
                    undo.callback(setattr, key, "mute", False)
        else:
            undo.callback(setattr, keys, "eval_time", keys.eval_time)
            for curve in animation.curves_on(keys, "eval_time"):
                if not curve.mute:
                    curve.mute = True
                    undo.callback(setattr, curve, "mute", False)
            keys.eval_time = 0.0
        yield


@contextmanager
def unbaked(ob: bpy.types.Object, before: Sequence[str]) -> Iterator[None]:
    """Show the object, once evaluated, as the simulation sees it; afterwards as it was.

    Args:
        ob: the object.
        before: names of the modifiers that stay on.
    """
    with ExitStack() as undo:
        if own_keys(ob):
            undo.enter_context(_without_switches(ob))
            undo.enter_context(_without_own_keys(ob))
        undo.enter_context(without(ob, stack.later(ob, before)))
        yield


# ---------------------------------------------------------------------- reading


_generating: set[tuple[int, str]] = set()
"""Modifiers that were seen to change the mesh, by their object's session_uid and name."""


def place_of(ob: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> stack.Place:
    """Where the cache belongs, evaluating the modifiers that do not tell by themselves."""
    uid = ob.session_uid
    if base_mesh(ob).is_editmode:
        # Evaluation is not to be had now: as it was found last.
        return stack.place(ob, lambda modifier: (uid, modifier.name) in _generating)
    _generating.difference_update([known for known in _generating if known[0] == uid])
    unknown = stack.unknown(ob)
    if unknown:
        base = read_mesh(base_mesh(ob))
        for modifier in unknown:
            names = [m.name for m in ob.modifiers]
            through = names[: names.index(modifier.name) + 1]
            with unbaked(ob, through), _shown(modifier):
                evaluated = ob.evaluated_get(updated_depsgraph(view_layer))
                data = evaluated.data
                same = isinstance(data, bpy.types.Mesh) and same_topology(base, read_mesh(data))
            if not same:
                _generating.add((uid, modifier.name))
                break
        view_layer.update()
    return stack.place(ob, lambda modifier: (uid, modifier.name) in _generating)


def read_mesh(mesh: bpy.types.Mesh) -> Mesh:
    """The polygons of a mesh."""
    offsets = np.empty(len(mesh.polygons) + 1, np.int32)
    mesh.polygons.foreach_get("loop_start", offsets[:-1])
    offsets[-1] = len(mesh.loops)
    corners = np.empty(len(mesh.loops), np.int32)
    corner_edges = np.empty(len(mesh.loops), np.int32)
    edges = np.empty(2 * len(mesh.edges), np.int32)
    for name, collection, item, values in (
        (".corner_vert", mesh.loops, "vertex_index", corners),
        (".corner_edge", mesh.loops, "edge_index", corner_edges),
        (".edge_verts", mesh.edges, "vertices", edges),
    ):
        if name in mesh.attributes:  # the same numbers, a hundred times as fast
            attribute: Any = mesh.attributes[name]
            attribute.data.foreach_get("value", values)
        else:
            collection.foreach_get(item, values)
    loose = np.bincount(corner_edges, minlength=len(mesh.edges)) == 0
    return Mesh(len(mesh.vertices), offsets, corners, edges.reshape(-1, 2)[loose])


def same_topology(one: Mesh, other: Mesh) -> bool:
    """Whether two meshes have the same vertices, polygons and loose edges, in order."""
    return one.vertex_count == other.vertex_count and all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("offsets", "corners", "loose_edges")
    )


def read_positions(mesh: bpy.types.Mesh) -> Positions:
    """(V, 3) vertex positions in the space of the mesh."""
    positions = np.empty(3 * len(mesh.vertices), np.float32)
    if "position" in mesh.attributes:  # as vertices.co, but ten times as fast
        attribute: Any = mesh.attributes["position"]
        attribute.data.foreach_get("vector", positions)
    return positions.reshape(-1, 3)


def evaluated_mesh(ob: bpy.types.Object, depsgraph: bpy.types.Depsgraph) -> bpy.types.Mesh:
    """The object's evaluated mesh; valid until the next evaluation.

    Raises:
        CaptureError: it is not to be had.
    """
    base = base_mesh(ob)
    if base.is_editmode:
        raise CaptureError(f'"{ob.name}" is in Edit Mode. Leave it (Tab) and bake again.')
    evaluated = ob.evaluated_get(depsgraph)
    data = evaluated.data
    if evaluated == ob or not isinstance(data, bpy.types.Mesh):
        raise CaptureError(
            f'"{ob.name}" has no evaluated mesh. Show it in the viewport and check its modifiers.'
        )
    if len(data.vertices) != len(base.vertices):
        raise CaptureError(
            f'"{ob.name}": its modifiers make {len(data.vertices)} vertices of '
            f"{len(base.vertices)} at this frame, so the number is not fixed. Apply the modifier "
            "that changes the mesh, or move it below the deforming ones."
        )
    return data


@dataclass(frozen=True)
class Pins:
    """Pinned vertices.

    Attributes:
        vertices: (P,) each once, ascending.
        weights: (P,) above 0, up to 1.
    """

    vertices: Indices
    weights: Array


def group_weights(
    owner: bpy.types.Object, mesh: bpy.types.Mesh, name: str, known: Array | None = None
) -> Array | None:
    """(V,) weights of a vertex group or of a float attribute of that name, or None.

    Args:
        owner: object that names the groups; the evaluated one for an evaluated mesh.
        mesh: its mesh.
        name: of the group or attribute.
        known: the weights, if they were read already; see ``KnownWeights``.
    """
    weights = np.zeros(len(mesh.vertices))
    if name in owner.vertex_groups:
        if known is not None and len(known) == len(weights):
            return known
        _read_group(mesh, owner.vertex_groups[name].index, weights, 0, len(weights))
        return weights
    if name not in mesh.attributes or mesh.attributes[name].domain != "POINT":
        return None
    attribute = mesh.attributes[name]
    if isinstance(attribute, bpy.types.FloatAttribute | bpy.types.IntAttribute):
        attribute.data.foreach_get("value", weights)
        return weights
    if isinstance(attribute, bpy.types.BoolAttribute):
        flags = np.empty(len(weights), np.bool_)
        attribute.data.foreach_get("value", flags)
        return flags.astype(np.float64)
    return None


def _read_group(mesh: bpy.types.Mesh, index: int, weights: Array, start: int, end: int) -> None:
    """Read a vertex group between two vertices. Blender offers no way but one by one."""
    for number, vertex in enumerate(mesh.vertices[start:end], start):
        for element in vertex.groups:
            if element.group == index:
                weights[number] = element.weight


class KnownWeights:
    """The pin groups of base meshes, read a piece at a time and once for all of a bake."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, Array]] = {}

    def read_steps(self, find: Callable[[], bpy.types.Object]) -> Steps[None]:
        """Read an object's pin group with pauses; no pointer is kept over one.

        A mesh that changes meanwhile stays unknown.
        """
        start = 0
        weights = np.empty(0)
        while True:
            ob = find()
            name, mesh = cloth_settings(ob).pin_group, base_mesh(ob)
            if name not in ob.vertex_groups or mesh.is_editmode:
                return
            if start == 0:
                weights = np.zeros(len(mesh.vertices))
            if len(mesh.vertices) != len(weights):
                return
            end = min(start + _PIECE, len(weights))
            _read_group(mesh, ob.vertex_groups[name].index, weights, start, end)
            start = end
            if start >= len(weights):
                self._known[ob.session_uid] = name, weights
                return
            del ob, mesh
            yield

    def of(self, ob: bpy.types.Object, before: Sequence[str] = ()) -> Array | None:
        """Weights of the object's pin group, None if they are not known.

        Args:
            ob: the object.
            before: modifiers that come first; one that may write weights makes them unknown.
        """
        name, weights = self._known.get(ob.session_uid, ("", None))
        only_move = all(stack.role(ob.modifiers[one]) is stack.Role.DEFORM for one in before)
        return weights if only_move and name == cloth_settings(ob).pin_group else None


def pins_from(weights: Array | None, loose: Indices) -> Pins:
    """Pins of weights above 0, and loose vertices, which follow the evaluated mesh."""
    if weights is None:
        vertices = np.unique(loose).astype(np.int32)
        return Pins(vertices, np.ones(len(vertices)))
    weights = np.clip(np.nan_to_num(weights), 0.0, 1.0)
    weights[loose] = 1.0
    vertices = np.flatnonzero(weights > 0.0).astype(np.int32)
    return Pins(vertices, weights[vertices])


def loose_vertices(mesh: Mesh) -> Indices:
    """Vertices in no polygon."""
    used = np.zeros(mesh.vertex_count, np.bool_)
    used[mesh.corners] = True
    return np.flatnonzero(~used).astype(np.int32)


def invertible(matrix: Array, ob: bpy.types.Object) -> Array:
    """The matrix (4, 4), if it has an inverse.

    Raises:
        CaptureError: it has none.
    """
    scales = np.linalg.norm(matrix[:3, :3], axis=0)
    flat = not np.isfinite(matrix).all() or scales.min() < _SMALLEST_SCALE
    if flat or abs(np.linalg.det(matrix[:3, :3] / scales)) < _SMALLEST_SCALE:
        raise CaptureError(
            f'"{ob.name}" is scaled to nothing along an axis. Give it a scale at every frame.'
        )
    return matrix
