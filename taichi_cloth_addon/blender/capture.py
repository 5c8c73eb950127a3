# SPDX-License-Identifier: GPL-3.0-or-later
"""Scene to job: the only reader of the depsgraph.

What is simulated is the base mesh with its shape keys and deforming modifiers (``stack`` has
the rule) in world space, in metres (``effectors`` has the rules for units, gravity, wind).
The shape at the first frame is the rest shape. The bake's own modifier or shape keys and all
that follows in the stack are switched off while a shape is read, and on again at once.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import bpy
import numpy as np
import numpy.typing as npt

from ..cache.frames import FrameBlock
from ..cache.job import VERSION, Job, JobCloth
from ..engine.inputs import FrameInputs, Sample
from ..engine.material import Fabric, fabric_names
from ..engine.mesh import Steps, finished
from ..engine.model import ClothPart
from ..engine.solver import Device, Integrator, Quality, SolverOptions
from . import effectors, evaluated
from .cache_paths import cache_path as cache_path
from .checks import Find
from .checks import Problem as Problem
from .checks import check as check
from .checks import check_steps as check_steps
from .checks import frame_range as frame_range
from .evaluated import CaptureError as CaptureError
from .evaluated import KnownWeights as KnownWeights
from .evaluated import base_mesh as base_mesh
from .hashes import settings_hash as settings_hash
from .hashes import topology_hash as topology_hash
from .properties import cloth_settings, ensure_uid

Array = npt.NDArray[np.float64]
Time = tuple[int, float]

_QUICK = 0.08
"""s; a whole frame that takes less is read in one go, and the user's frame put back."""


@dataclass
class _Cloth:
    """How one cloth is read again at every sample."""

    name: str
    uid: str
    before: tuple[str, ...]
    pins: evaluated.Pins
    fixed: evaluated.Positions | None
    """Positions in the mesh's space if nothing deforms it."""


@dataclass
class _Reading:
    """One instant, as read."""

    sample: Sample
    matrices: Array
    fabrics: tuple[Fabric, ...]
    gusts: Array


@dataclass
class Capture:
    """Reads a scene frame by frame. Objects are looked up by uid each time.

    ``block`` reads a whole frame. ``advance`` does so in small bites, one frame change of the
    scene at a time, for use in a window. Both leave the timeline where they read; ``restore``
    puts it back where the user had it, or where the user scrubbed to in the meantime.
    """

    job: Job
    first: FrameBlock
    scene_uid: int
    _cloths: list[_Cloth]
    _winds: list[str]
    _samples: int
    _home: Time
    _left: Time
    _seconds: float = 0.0
    _switched: bool = False
    _pending: list[_Reading] = field(default_factory=list)
    _pending_frame: int | None = None

    # ------------------------------------------------------------------ public

    def block(self, frame: int) -> FrameBlock:
        """Read a frame: its samples since the frame before it.

        Raises:
            CaptureError: an object or the scene is gone or cannot be read now.
        """
        scene = self._arrive()
        self._pending_frame = None
        readings = self._read(scene, self._times(frame))
        return _block(frame, readings)

    def advance(self, frame: int) -> FrameBlock | None:
        """Read a part of a frame: at most one frame change of the scene, if they are slow.

        Returns:
            The frame, or None: call again with the same frame.

        Raises:
            CaptureError: as ``block``.
        """
        times = self._times(frame)
        if self._seconds * (len(times) + 1) < _QUICK:
            return self.block(frame)
        scene = self._arrive()
        if self._pending_frame != frame:
            self._pending_frame = frame
            self._pending = []
        done = len(self._pending)
        self._pending += self._read(scene, times[done : done + 1])
        if len(self._pending) < len(times):
            return None
        readings, self._pending, self._pending_frame = self._pending, [], None
        return _block(frame, readings)

    def restore(self, *, if_quick: bool = False) -> None:
        """Put the timeline back to the user's frame.

        Args:
            if_quick: not if the scene takes long to change its frame; for between two calls
                of ``advance`` in a window.
        """
        slow = self._seconds * (self._samples + 1) >= _QUICK
        scene = self._find_scene()
        if scene is None or (if_quick and slow):
            return
        here = _time_of(scene)
        moved = here == self._left and here != self._home
        if moved or self._switched:
            # Animation that was muted comes back with this as well.
            _go(scene, self._home if moved else here)
            self._left = _time_of(scene)
            self._switched = False

    def __enter__(self) -> "Capture":
        """Return the capture."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Put the timeline back."""
        self.restore()

    # ------------------------------------------------------------------ reading

    def _scene(self) -> bpy.types.Scene:
        scene = self._find_scene()
        if scene is None:
            raise CaptureError("The scene that is being baked was deleted. Bake again.")
        return scene

    def _find_scene(self) -> bpy.types.Scene | None:
        return next((s for s in bpy.data.scenes if s.session_uid == self.scene_uid), None)

    def _arrive(self) -> bpy.types.Scene:
        scene = self._scene()
        here = _time_of(scene)
        if here != self._left:
            self._home = here
        return scene

    def _times(self, frame: int) -> list[Time]:
        count = self._samples
        return [(frame - 1, i / count) if i < count else (frame, 0.0) for i in range(1, count + 1)]

    def _objects(self, scene: bpy.types.Scene) -> list[bpy.types.Object]:
        return [_find(scene, cloth) for cloth in self._cloths]

    def _read(
        self, scene: bpy.types.Scene, times: Sequence[Time], *, stay: bool = False
    ) -> list[_Reading]:
        """Read these instants; with ``stay`` the timeline is at the only one already."""
        objects = self._objects(scene)
        readings = []
        try:
            with ExitStack() as undo:
                for ob, cloth in zip(objects, self._cloths, strict=True):
                    if cloth.fixed is None and len(cloth.pins.vertices):
                        undo.enter_context(evaluated.unbaked(ob, cloth.before))
                        self._switched = True
                for moment in times:
                    if stay:
                        evaluated.view_layer_of(scene, objects[0]).update()
                    else:
                        self._seconds = _go(scene, moment)
                    readings.append(self._read_now(scene, objects))
        finally:
            self._left = _time_of(scene)
        return readings

    def _read_now(self, scene: bpy.types.Scene, objects: Sequence[bpy.types.Object]) -> _Reading:
        view_layer = evaluated.view_layer_of(scene, objects[0])
        depsgraph = evaluated.depsgraph_of(view_layer)
        scale = effectors.unit_scale(scene)
        targets, matrices, winds, fabrics, gusts = [], [], [], [], []
        for ob, cloth in zip(objects, self._cloths, strict=True):
            _check_visible(ob, view_layer)
            result = ob.evaluated_get(depsgraph)
            matrix = effectors.world_matrix(result, scale)
            matrices.append(evaluated.invertible(matrix, ob))
            targets.append(_targets(ob, cloth, depsgraph, matrix, scene.frame_current))
            settings = cloth_settings(result)
            winds.append(
                np.array(settings.wind_velocity, np.float64) if settings.use_wind else np.zeros(3)
            )
            fabrics.append(_fabric(result))
            gusts.append(float(settings.wind_gusts))
        fields = []
        for blower in effectors.visible(view_layer, self._winds):
            wind = effectors.wind_field(blower.evaluated_get(depsgraph), scale)
            if wind is not None:
                fields.append(wind)
        sample = Sample(
            gravity=effectors.gravity(depsgraph.scene_eval or scene),
            wind=np.array(winds),
            pin_targets=np.concatenate(targets),
            fields=tuple(fields),
        )
        return _Reading(sample, np.array(matrices), tuple(fabrics), np.array(gusts))


def begin(
    scene: bpy.types.Scene,
    objects: Sequence[bpy.types.Object],
    frame_start: int,
    frame_end: int,
    *,
    options: SolverOptions | None = None,
    device: Device = Device.AUTO,
    kernel_cache: str = "",
) -> Capture:
    """Read the first frame: the cloths as they are at rest, and where their pins are.

    Leaves the timeline at the first frame; see ``Capture.restore``.

    Args:
        scene: the scene.
        objects: the cloths, one model together.
        frame_start: first frame, the rest shape.
        frame_end: last frame.
        options: for the solver; by default those of the first object.
        device: where to run.
        kernel_cache: folder for compiled kernels.

    Raises:
        CaptureError: an object cannot be read.
    """
    known = evaluated.KnownWeights()
    steps = begin_steps(lambda: (scene, objects), frame_start, frame_end, known)
    captured = finished(steps)
    captured.job = replace(
        captured.job,
        options=options or captured.job.options,
        device=device,
        kernel_cache=kernel_cache,
    )
    return captured


def begin_steps(
    find: Find, frame_start: int, frame_end: int, known: evaluated.KnownWeights
) -> Steps[Capture]:
    """As ``begin``, with pauses.

    What needs the scene at its first frame is done in one step, a frame change apart.

    Args:
        find: finds the scene and the objects.
        frame_start: first frame, the rest shape.
        frame_end: last frame.
        known: pin groups that were read already.
    """
    _be_ready(*find())
    hashes = []
    for index in range(len(find()[1])):
        yield
        hashes.append(_fingerprints(*find(), index, known))
    yield
    scene, objects = find()
    home = _time_of(scene)
    try:
        return _first_capture(scene, objects, (frame_start, frame_end), home, known, hashes)
    except BaseException:
        _go(scene, home)
        raise


def _be_ready(scene: bpy.types.Scene, objects: Sequence[bpy.types.Object]) -> None:
    if not objects:
        raise CaptureError("There is no cloth to bake. Select a mesh object.")
    for ob in objects:
        if evaluated.base_mesh(ob).is_editmode:
            raise CaptureError(f'"{ob.name}" is in Edit Mode. Leave it (Tab) and bake again.')
        ob.update_from_editmode()
        ensure_uid(ob)
    evaluated.settle(scene)


def _fingerprints(
    scene: bpy.types.Scene,
    objects: Sequence[bpy.types.Object],
    index: int,
    known: evaluated.KnownWeights,
) -> tuple[str, str]:
    ob = objects[index]
    return settings_hash(ob, scene, known), topology_hash(ob)


def _first_capture(
    scene: bpy.types.Scene,
    objects: Sequence[bpy.types.Object],
    frames: tuple[int, int],
    home: Time,
    known: evaluated.KnownWeights,
    hashes: Sequence[tuple[str, str]],
) -> Capture:
    """Go to the first frame and read it."""
    view_layer = evaluated.view_layer_of(scene, objects[0])
    for ob in objects:
        _check_visible(ob, view_layer)
    seconds = _go(scene, (frames[0], 0.0))
    scale = effectors.unit_scale(scene)
    shapes = [_first_shape(ob, view_layer, scale, known) for ob in objects]
    job = Job(
        version=VERSION,
        fps=effectors.frames_per_second(scene),
        frame_start=frames[0],
        frame_end=frames[1],
        options=_options(objects),
        device=Device.AUTO,
        kernel_cache="",
        settings_hash=" ".join(settings for settings, _ in hashes),
        cloths=tuple(
            JobCloth(part, cloth.uid, str(cache_path(ob, scene)), topology)
            for ob, (cloth, part), (_, topology) in zip(objects, shapes, hashes, strict=True)
        ),
    )
    captured = Capture(
        job=job,
        first=FrameBlock(frames[0], FrameInputs((), (), np.empty(0)), np.empty(0)),
        scene_uid=scene.session_uid,
        _cloths=[cloth for cloth, _ in shapes],
        _winds=[ob.name for ob in effectors.wind_objects(view_layer)],
        _samples=max(cloth_settings(ob).motion_samples for ob in objects),
        _home=home,
        _left=_time_of(scene),
        _seconds=seconds,
        _switched=True,
    )
    readings = captured._read(scene, [(frames[0], 0.0)], stay=True)
    captured.first = _block(frames[0], readings)
    return captured


def _first_shape(
    ob: bpy.types.Object,
    view_layer: bpy.types.ViewLayer,
    scale: float,
    known: evaluated.KnownWeights,
) -> tuple[_Cloth, ClothPart]:
    settings = cloth_settings(ob)
    place = evaluated.place_of(ob, view_layer)
    if place.error:
        raise CaptureError(place.error)
    with evaluated.unbaked(ob, place.before):
        depsgraph = evaluated.updated_depsgraph(view_layer)
        data = evaluated.evaluated_mesh(ob, depsgraph)
        result = ob.evaluated_get(depsgraph)
        mesh = evaluated.read_mesh(data)
        local = evaluated.read_positions(data)
        weights = None
        if settings.pin_group:
            read = known.of(ob, place.before)
            weights = evaluated.group_weights(result, data, settings.pin_group, read)
            if weights is None:
                raise CaptureError(
                    f'"{ob.name}" has no vertex group or attribute "{settings.pin_group}" to pin '
                    "it by. Choose another pin group, or none."
                )
        matrix = evaluated.invertible(effectors.world_matrix(result, scale), ob)
        fabric = _fabric(result)
    if not len(mesh.offsets) - 1:
        raise CaptureError(f'"{ob.name}" has no faces, so there is no cloth. Add faces.')
    if not np.isfinite(local).all():
        raise CaptureError(
            f'"{ob.name}" has coordinates that are no numbers. Repair the mesh, or the modifier '
            "that makes them."
        )
    pins = evaluated.pins_from(weights, evaluated.loose_vertices(mesh))
    positions = _to_world(local, matrix)
    deforms = bool(place.deforming) or len(evaluated.user_keys(ob)) > 1
    cloth = _Cloth(ob.name, settings.uid, place.before, pins, None if deforms else local)
    part = ClothPart(
        name=ob.name,
        mesh=mesh,
        rest=positions,
        positions=positions,
        fabric=fabric,
        pin_vertices=pins.vertices,
        pin_weights=pins.weights,
        pin_stiffness=float(settings.pin_stiffness),
        use_fields=bool(settings.use_force_fields),
        strain_limit=0.01 * float(settings.strain_limit),
    )
    return cloth, part


def _options(objects: Sequence[bpy.types.Object]) -> SolverOptions:
    settings = [cloth_settings(ob) for ob in objects]
    return SolverOptions(
        integrator=Integrator(settings[0].integrator),
        substeps=max(s.substeps for s in settings),
        quality=max((Quality(s.quality) for s in settings), key=list(Quality).index),
    )


def _fabric(result: bpy.types.Object) -> Fabric:
    settings = cloth_settings(result)
    try:
        return Fabric(**{name: float(getattr(settings, name)) for name in fabric_names()})
    except ValueError as error:
        raise CaptureError(f'"{result.name}": {error}.') from error


def _to_world(local: evaluated.Positions, matrix: Array) -> Array:
    return np.asarray(local.astype(np.float64) @ matrix[:3, :3].T + matrix[:3, 3])


def _targets(
    ob: bpy.types.Object,
    cloth: _Cloth,
    depsgraph: bpy.types.Depsgraph,
    matrix: Array,
    frame: int,
) -> Array:
    if not len(cloth.pins.vertices):
        return np.empty((0, 3))
    local = cloth.fixed
    if local is None:
        local = evaluated.read_positions(evaluated.evaluated_mesh(ob, depsgraph))
    targets = _to_world(local[cloth.pins.vertices], matrix)
    if not np.isfinite(targets).all():
        raise CaptureError(
            f'"{ob.name}" has pinned vertices whose place is no number at frame {frame}. '
            "Repair the modifier or animation that moves them."
        )
    return targets


def _check_visible(ob: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> None:
    if ob.name not in view_layer.objects or not ob.visible_get(view_layer=view_layer):
        raise CaptureError(
            f'"{ob.name}" is hidden or not in the view layer "{view_layer.name}". '
            "Show it while it bakes."
        )


def _find(scene: bpy.types.Scene, cloth: _Cloth) -> bpy.types.Object:
    if cloth.name in scene.objects:
        named = scene.objects[cloth.name]
        if cloth_settings(named).uid == cloth.uid:
            return named
    for ob in scene.objects:
        if ob.type == "MESH" and cloth_settings(ob).uid == cloth.uid:
            cloth.name = ob.name
            return ob
    raise CaptureError(f'"{cloth.name}" was deleted while it was baking.')


def _time_of(scene: bpy.types.Scene) -> Time:
    return scene.frame_current, scene.frame_subframe


def _go(scene: bpy.types.Scene, moment: Time) -> float:
    """Change the scene's frame; the seconds that it took."""
    started = time.perf_counter()
    frame, subframe = moment
    scene.frame_set(frame, subframe=subframe)
    return time.perf_counter() - started


def _block(frame: int, readings: Sequence[_Reading]) -> FrameBlock:
    last = readings[-1]
    inputs = FrameInputs(tuple(r.sample for r in readings), last.fabrics, last.gusts)
    return FrameBlock(frame, inputs, last.matrices)
