# SPDX-License-Identifier: GPL-3.0-or-later
"""The properties that are saved in a .blend: settings per object and per scene.

Every field stands twice: as a type for the checker and as a property for Blender. A test
compares the two. Defaults and ranges of the fabric come from ``engine.material``.
"""

import uuid
from typing import TYPE_CHECKING, Any

import bpy
from bpy.props import (
    BoolProperty,
    EnumProperty,
    FloatProperty,
    FloatVectorProperty,
    IntProperty,
    StringProperty,
)

from ..engine.material import parameter
from . import changes

if TYPE_CHECKING:
    from .status import ClothStatus

# Other units of fields that are there already.
DISPLAY_ONLY = frozenset(("bending_stiffness_micro", "bending_damping_micro"))

FIRST_FRAME, LAST_FRAME = -1_048_574, 1_048_574

INTEGRATORS = (
    ("AUTO", "Automatic", "Explicit or implicit, whichever takes less work for this cloth"),
    ("EXPLICIT", "Explicit", "Many small steps; the most accurate, keeps the cloth lively"),
    ("IMPLICIT", "Implicit", "Few long steps with a solve each; calms what is quicker than a step"),
    ("SOR", "Hybrid SOR", "Explicit where stable, elsewhere implicit by coloured over-relaxation"),
)
# From the coarsest to the finest.
QUALITIES = (
    ("DRAFT", "Draft", "To see quickly how the cloth falls; within 4 % of its size after 1/2 s"),
    ("NORMAL", "Normal", "For most shots; within 2 % of its size after 1/2 s"),
    ("FINAL", "Final", "Slow, small motion and stiff cloth as well; within 1.2 % after 1/2 s"),
)
DEVICES = (
    ("AUTO", "Automatic", "The fastest device that works on this machine"),
    ("CUDA", "CUDA", "NVIDIA graphics card"),
    ("METAL", "Metal", "Apple graphics processor"),
    ("VULKAN", "Vulkan", "Graphics card of any maker"),
    ("CPU", "CPU", "The processor"),
)
OUTPUTS = (
    ("POINT_CACHE", "Point Cache", "A file that the Mesh Cache modifier plays; fast and exact"),
    ("SHAPE_KEYS", "Shape Keys", "Shape keys inside the .blend; for short shots and export"),
)


def _changed(settings: "ClothSettings", _context: bpy.types.Context) -> None:
    owner = settings.id_data
    if owner is not None:
        changes.mark(owner.session_uid)


def _scene_changed(_settings: "SceneSettings", _context: bpy.types.Context) -> None:
    changes.mark_all()


def _fabric(name: str, precision: int = 3) -> Any:
    spec = parameter(name)
    unit = f" ({spec.unit.value})" if spec.unit.value else ""
    return FloatProperty(
        name=spec.label,
        description=spec.description + unit,
        default=spec.default,
        min=spec.minimum,
        max=spec.maximum,
        soft_min=spec.soft_minimum,
        soft_max=spec.soft_maximum,
        precision=precision,
        step=1,
        update=_changed,
        override={"LIBRARY_OVERRIDABLE"},
    )


def _micro(name: str) -> Any:
    """A millionth of a fabric value's unit, for the panel: Blender shows six decimals at most."""
    spec = parameter(name)

    def read(settings: "ClothSettings") -> float:
        return 1e6 * float(getattr(settings, name))

    def write(settings: "ClothSettings", value: float) -> None:
        setattr(settings, name, 1e-6 * value)

    return FloatProperty(
        name=spec.label,
        description=f"{spec.description} (µ{spec.unit.value})",
        min=1e6 * spec.minimum,
        max=1e6 * spec.maximum,
        soft_min=1e6 * spec.soft_minimum,
        soft_max=1e6 * spec.soft_maximum,
        precision=2,
        step=10,
        options={"SKIP_SAVE"},
        get=read,
        set=write,
    )


# Blender 4.2 does not know the option yet; there a "//" path works all the same.
_FOLDER_OPTIONS = {"PATH_SUPPORTS_BLEND_RELATIVE"} if bpy.app.version >= (4, 5, 0) else set()


class ClothSettings(bpy.types.PropertyGroup):
    """Settings of one cloth: ``Object.taichi_cloth`` (SI units, world space)."""

    if TYPE_CHECKING:
        enabled: bool
        uid: str
        quality: str
        integrator: str
        substeps: int
        motion_samples: int
        use_scene_range: bool
        frame_start: int
        frame_end: int
        density: float
        tension_stiffness: float
        shear_stiffness: float
        bending_stiffness: float
        tension_damping: float
        shear_damping: float
        bending_damping: float
        bending_stiffness_micro: float
        bending_damping_micro: float
        air_drag: float
        strain_limit: float
        pin_group: str
        pin_stiffness: float
        use_wind: bool
        wind_velocity: tuple[float, float, float]
        wind_gusts: float
        use_force_fields: bool
        output: str
        cache_folder: str
    else:
        enabled: BoolProperty(
            name="Cloth",
            description="Bake this mesh as cloth",
            options=set(),
            update=_changed,
        )
        # Overridable, or each opening of the file would give an override its library's again.
        uid: StringProperty(options={"HIDDEN"}, override={"LIBRARY_OVERRIDABLE"})
        quality: EnumProperty(
            name="Quality",
            description="How far implicit steps may be from the exact motion. Explicit steps are "
            "finer than all of these; SOR has its own",
            items=QUALITIES,
            default="NORMAL",
            options=set(),
            update=_changed,
            override={"LIBRARY_OVERRIDABLE"},
        )
        integrator: EnumProperty(
            name="Integrator",
            description="How a step is integrated in time",
            items=INTEGRATORS,
            default="AUTO",
            options=set(),
            update=_changed,
            override={"LIBRARY_OVERRIDABLE"},
        )
        substeps: IntProperty(
            name="Substeps",
            description="Steps per frame; 0 lets the solver choose",
            default=0,
            min=0,
            max=1000,
            soft_max=50,
            options=set(),
            update=_changed,
            override={"LIBRARY_OVERRIDABLE"},
        )
        motion_samples: IntProperty(
            name="Samples",
            description="How often per frame the animation of pins and fields is read",
            default=2,
            min=1,
            max=32,
            soft_max=8,
            options=set(),
            update=_changed,
            override={"LIBRARY_OVERRIDABLE"},
        )
        use_scene_range: BoolProperty(
            name="Scene Range",
            description="Bake the scene's simulation range or, if it has none, its frame range",
            default=True,
            options=set(),
            update=_changed,
            override={"LIBRARY_OVERRIDABLE"},
        )
        frame_start: IntProperty(
            name="Start",
            description="First frame of the bake",
            default=1,
            min=FIRST_FRAME,
            max=LAST_FRAME,
            options=set(),
            update=_changed,
            override={"LIBRARY_OVERRIDABLE"},
        )
        frame_end: IntProperty(
            name="End",
            description="Last frame of the bake",
            default=250,
            min=FIRST_FRAME,
            max=LAST_FRAME,
            options=set(),
            update=_changed,
            override={"LIBRARY_OVERRIDABLE"},
        )
        density: _fabric("density")
        tension_stiffness: _fabric("tension_stiffness", 1)
        shear_stiffness: _fabric("shear_stiffness", 1)
        bending_stiffness: _fabric("bending_stiffness", 6)
        tension_damping: _fabric("tension_damping")
        shear_damping: _fabric("shear_damping")
        bending_damping: _fabric("bending_damping", 6)
        bending_stiffness_micro: _micro("bending_stiffness")
        bending_damping_micro: _micro("bending_damping")
        air_drag: _fabric("air_drag")
        strain_limit: FloatProperty(
            name="Strain Limit",
            description="No edge becomes longer than this, in per cent of its length; 0 sets no "
            "limit. The steps are implicit then",
            default=0.0,
            min=0.0,
            max=100.0,
            soft_max=20.0,
            subtype="PERCENTAGE",
            options=set(),
            update=_changed,
            override={"LIBRARY_OVERRIDABLE"},
        )
        pin_group: StringProperty(
            name="Pin Group",
            description="Vertex group that holds the cloth; it follows the animation of the mesh",
            options=set(),
            update=_changed,
            override={"LIBRARY_OVERRIDABLE"},
        )
        pin_stiffness: FloatProperty(
            name="Stiffness",
            description="Pull on vertices with a pin weight below one, per area (N/m³)",
            default=1000.0,
            min=0.0,
            max=1e9,
            soft_max=100_000.0,
            precision=1,
            options=set(),
            update=_changed,
            override={"LIBRARY_OVERRIDABLE"},
        )
        use_wind: BoolProperty(
            name="Wind",
            description="Blow an even wind on this cloth, besides the force fields of the scene",
            update=_changed,
            override={"LIBRARY_OVERRIDABLE"},
        )
        wind_velocity: FloatVectorProperty(
            name="Velocity",
            description="Velocity of the air in world space (m/s)",
            size=3,
            default=(4.0, 0.0, 0.0),
            soft_min=-30.0,
            soft_max=30.0,
            subtype="XYZ",
            update=_changed,
            override={"LIBRARY_OVERRIDABLE"},
        )
        wind_gusts: FloatProperty(
            name="Gusts",
            description="How much the wind varies, as a share of its speed",
            default=0.3,
            min=0.0,
            max=10.0,
            soft_max=1.0,
            subtype="FACTOR",
            update=_changed,
            override={"LIBRARY_OVERRIDABLE"},
        )
        use_force_fields: BoolProperty(
            name="Force Fields",
            description="Let the Wind force fields of the scene act on this cloth",
            default=True,
            options=set(),
            update=_changed,
            override={"LIBRARY_OVERRIDABLE"},
        )
        output: EnumProperty(
            name="Output",
            description="What a bake leaves on the object",
            items=OUTPUTS,
            default="POINT_CACHE",
            options=set(),
            override={"LIBRARY_OVERRIDABLE"},
        )
        cache_folder: StringProperty(
            name="Folder",
            description="Where the baked files go; empty is cache_taichi_cloth beside the .blend",
            subtype="DIR_PATH",
            options=_FOLDER_OPTIONS,
            update=_changed,
            override={"LIBRARY_OVERRIDABLE"},
        )


class SceneSettings(bpy.types.PropertyGroup):
    """Settings that all cloths of a scene share: ``Scene.taichi_cloth``."""

    if TYPE_CHECKING:
        device: str
    else:
        device: EnumProperty(
            name="Device",
            description="Where this scene's cloth is computed; Automatic follows the preferences",
            items=DEVICES,
            default="AUTO",
            options=set(),
            update=_scene_changed,
        )


def cloth_settings(ob: bpy.types.Object) -> ClothSettings:
    """The cloth settings of an object."""
    return ob.taichi_cloth  # type: ignore[attr-defined, no-any-return]


def cloth_status(ob: bpy.types.Object) -> "ClothStatus":
    """The read-only cloth status of an object."""
    return ob.taichi_cloth_status  # type: ignore[attr-defined, no-any-return]


def scene_settings(scene: bpy.types.Scene) -> SceneSettings:
    """The cloth settings of a scene."""
    return scene.taichi_cloth  # type: ignore[attr-defined, no-any-return]


def is_cloth(ob: bpy.types.Object) -> bool:
    """Whether the object is a mesh with cloth settings switched on."""
    return ob.type == "MESH" and cloth_settings(ob).enabled


def takes_quality(settings: ClothSettings) -> bool:
    """Whether the integrator may take steps that the quality decides.

    A strain limit always takes implicit steps.
    """
    if settings.integrator == "EXPLICIT":
        return settings.strain_limit > 0.0
    return settings.integrator != "SOR"


def ensure_uid(ob: bpy.types.Object) -> str:
    """Give the object a uid of its own if it has none, or shares one with an older object."""
    settings = cloth_settings(ob)
    mine = ob.session_uid
    taken = any(
        cloth_settings(other).uid == settings.uid
        and (other.session_uid < mine or other.library is not None)
        for other in bpy.data.objects
        if other.session_uid != mine
    )
    if not settings.uid or taken:
        settings.uid = uuid.uuid4().hex
        changes.mark(mine)
    return settings.uid
