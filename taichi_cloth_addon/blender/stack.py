# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the cache belongs among an object's modifiers.

What is simulated is the base mesh with its deforming modifiers, so the cache comes right after
them. Modifiers that change the mesh itself (Subdivision, Solidify, ...) stay and work on the
result. One of them before a modifier that poses the mesh is refused: the pose could not be
simulated, and it would be applied to the result once more.

Whether a Geometry Nodes modifier changes the mesh can only be seen by evaluating it; that
answer is handed in.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

import bpy

from . import animation
from .properties import cloth_settings

MODIFIER_NAME = "Taichi Cloth"


class Role(Enum):
    """What a modifier means for a bake."""

    DEFORM = "moves vertices; its result is simulated"
    WEIGHTS = "writes vertex groups; may decide what is pinned"
    GENERATE = "changes the mesh; works on the result"
    FOLLOW = "leaves vertices where they are; works on the result"
    RIVAL = "simulates the mesh itself; is switched off"
    UNKNOWN = "only its evaluation tells"


_GENERATE = frozenset(
    (
        "ARRAY",
        "BEVEL",
        "BOOLEAN",
        "BUILD",
        "DECIMATE",
        "EDGE_SPLIT",
        "EXPLODE",
        "MASK",
        "MESH_TO_VOLUME",
        "MIRROR",
        "MULTIRES",
        "PARTICLE_INSTANCE",
        "REMESH",
        "SCREW",
        "SKIN",
        "SOLIDIFY",
        "SUBSURF",
        "TRIANGULATE",
        "VOLUME_TO_MESH",
        "WELD",
        "WIREFRAME",
    )
)
_POSE = frozenset(
    (
        "ARMATURE",
        "CAST",
        "CURVE",
        "HOOK",
        "LAPLACIANDEFORM",
        "LATTICE",
        "MESH_CACHE",
        "MESH_DEFORM",
        "SHRINKWRAP",
        "SIMPLE_DEFORM",
        "SURFACE_DEFORM",
        "WARP",
        "WAVE",
    )
)
"""These say where the mesh is to be. The other deforming ones may also finish a result."""
_FINISH = frozenset(
    (
        "CORRECTIVE_SMOOTH",
        "DISPLACE",
        "LAPLACIANSMOOTH",
        "SMOOTH",
    )
)
_WEIGHTS = frozenset(
    (
        "DATA_TRANSFER",
        "VERTEX_WEIGHT_EDIT",
        "VERTEX_WEIGHT_MIX",
        "VERTEX_WEIGHT_PROXIMITY",
    )
)
_FOLLOW = frozenset(
    (
        "NORMAL_EDIT",
        "UV_PROJECT",
        "UV_WARP",
        "WEIGHTED_NORMAL",
        "VOLUME_DISPLACE",
    )
)
_BYSTANDERS = frozenset(
    (
        "COLLISION",
        "DYNAMIC_PAINT",
        "PARTICLE_SYSTEM",
        "SURFACE",
    )
)
"""They watch the mesh; switching them off for a moment would make them forget their caches."""
_RIVALS = frozenset(("CLOTH", "SOFT_BODY"))
_SMOOTH_BY_ANGLE = "Smooth by Angle"


def role(modifier: bpy.types.Modifier) -> Role:
    """What the modifier means for a bake, as far as its settings tell."""
    kind = modifier.type
    if modifier.use_pin_to_last and kind not in _GENERATE:
        return Role.FOLLOW
    if isinstance(modifier, bpy.types.NodesModifier):
        group = modifier.node_group
        harmless = group is None or group.name.startswith(_SMOOTH_BY_ANGLE)
        return Role.FOLLOW if harmless else Role.UNKNOWN
    if isinstance(modifier, bpy.types.OceanModifier):
        return Role.DEFORM if modifier.geometry_mode == "DISPLACE" else Role.GENERATE
    if isinstance(modifier, bpy.types.FluidModifier):
        return Role.GENERATE if modifier.fluid_type == "DOMAIN" else Role.FOLLOW
    for kinds, meaning in (
        (_GENERATE, Role.GENERATE),
        (_POSE | _FINISH, Role.DEFORM),
        (_WEIGHTS, Role.WEIGHTS),
        (_FOLLOW | _BYSTANDERS, Role.FOLLOW),
        (_RIVALS, Role.RIVAL),
    ):
        if kind in kinds:
            return meaning
    return Role.UNKNOWN


def is_bystander(modifier: bpy.types.Modifier) -> bool:
    """Whether the modifier only watches the mesh, so that it need not be switched off."""
    return modifier.type in _BYSTANDERS or (
        isinstance(modifier, bpy.types.FluidModifier) and modifier.fluid_type != "DOMAIN"
    )


def may_be_on(modifier: bpy.types.Modifier, *attributes: str) -> bool:
    """Whether the modifier is switched on somewhere, or may be at another frame.

    Args:
        modifier: the modifier.
        attributes: switches to look at; all by default.
    """
    ob = modifier.id_data
    assert ob is not None
    return any(
        getattr(modifier, attribute)
        or animation.is_animated(ob, animation.property_path("modifiers", modifier.name, attribute))
        for attribute in attributes or ("show_viewport", "show_render")
    )


def find_cache(ob: bpy.types.Object) -> bpy.types.MeshCacheModifier | None:
    """The Mesh Cache modifier that plays the bake, or None. It may have been renamed."""
    caches = [m for m in ob.modifiers if isinstance(m, bpy.types.MeshCacheModifier)]
    for modifier in caches:
        if modifier.name == MODIFIER_NAME:
            return modifier
    uid = cloth_settings(ob).uid
    for modifier in caches:
        if uid and modifier.filepath.endswith(f"{uid}.pc2"):
            return modifier
    return None


def others(ob: bpy.types.Object) -> list[bpy.types.Modifier]:
    """The object's modifiers without the one that plays the bake."""
    own = find_cache(ob)
    return [m for m in ob.modifiers if m != own]


def rivals(ob: bpy.types.Object) -> list[bpy.types.Modifier]:
    """Cloth and Soft Body modifiers that are switched on."""
    return [m for m in ob.modifiers if m.type in _RIVALS and (m.show_viewport or m.show_render)]


@dataclass(frozen=True)
class Place:
    """Where the cache belongs.

    Attributes:
        index: among the other modifiers.
        before: names of the modifiers whose result is simulated or that write weights.
        deforming: names of those among them that move vertices and are on in the viewport,
            at some frame at least.
        error: why it cannot be placed, and the way out; empty if it can.
    """

    index: int
    before: tuple[str, ...]
    deforming: tuple[str, ...]
    error: str = ""


def place(ob: bpy.types.Object, generates: Callable[[bpy.types.Modifier], bool]) -> Place:
    """Find where the cache belongs in the object's stack.

    Args:
        ob: the object.
        generates: whether a modifier of unknown role changes the mesh.
    """
    index = 0
    deforming: list[str] = []
    before: list[str] = []
    generative: bpy.types.Modifier | None = None
    error = ""
    for position, modifier in enumerate(others(ob)):
        on = may_be_on(modifier)
        meaning = role(modifier)
        if meaning is Role.UNKNOWN and generative is None:
            meaning = Role.GENERATE if on and generates(modifier) else Role.DEFORM
        if meaning is Role.GENERATE:
            if on and generative is None:
                generative = modifier
        elif meaning in (Role.DEFORM, Role.WEIGHTS) and generative is None:
            index = position + 1
            before.append(modifier.name)
            if meaning is Role.DEFORM and may_be_on(modifier, "show_viewport"):
                deforming.append(modifier.name)
        elif generative is not None and on and modifier.type in _POSE and not error:
            error = (
                f'"{ob.name}": the modifier "{modifier.name}" moves the mesh after '
                f'"{generative.name}" has changed it, but cloth is simulated on the base mesh. '
                f'Move "{modifier.name}" above "{generative.name}", or apply "{generative.name}".'
            )
    return Place(index, tuple(before), tuple(deforming), error)


def unknown(ob: bpy.types.Object) -> list[bpy.types.Modifier]:
    """Modifiers whose evaluation must tell whether they change the mesh, in order."""
    found: list[bpy.types.Modifier] = []
    own = find_cache(ob)
    for modifier in ob.modifiers:
        if modifier == own or not may_be_on(modifier):
            continue
        meaning = role(modifier)
        if meaning is Role.GENERATE:
            break
        if meaning is Role.UNKNOWN:
            found.append(modifier)
    return found


def later(ob: bpy.types.Object, before: Iterable[str]) -> list[bpy.types.Modifier]:
    """Modifiers that must be off in the viewport while the simulated shape is read."""
    kept = set(before)
    own = find_cache(ob)
    return [
        m
        for m in ob.modifiers
        if m == own or m.type in _RIVALS or (m.name not in kept and not is_bystander(m))
    ]
