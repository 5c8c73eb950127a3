# SPDX-License-Identifier: GPL-3.0-or-later
"""The job folder: the whole input of a bake, and the checkpoint it resumes from.

    job.json                     version, range, options, one entry per cloth; for people to read
    mesh_0.npz, mesh_1.npz ...   polygons, shapes and pins of each cloth
    frames/frame_+000001.npz     what that frame brings, appended while the worker simulates
    state.npz                    checkpoint: the engine's state after the last frame written

Every file takes its name in one step, so a reader sees it whole or not at all; job.json is
written last and makes the folder a job. All of it is checked when written and when read.
"""

import math
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engine.material import Fabric, fabric_names
from ..engine.mesh import Mesh
from ..engine.model import ClothPart
from ..engine.solver import Device, SolverOptions
from .arrays import ArrayFile, JobError, write_arrays
from .checkpoint import clear_state, read_state, write_state
from .frames import FOLDER as _FRAMES
from .frames import FrameBlock, frame_path, last_frame, read_frame, remove_frames, write_frame
from .storage import CacheError, delete, make_folder, read_json, write_json

__all__ = [
    "VERSION",
    "FrameBlock",
    "Job",
    "JobCloth",
    "JobError",
    "clear_state",
    "frame_path",
    "job_folder",
    "last_frame",
    "read_frame",
    "read_job",
    "read_state",
    "remove_frames",
    "update_job",
    "write_frame",
    "write_job",
    "write_state",
]

VERSION = 2
SUFFIX = ".job"
_JOB = "job.json"


@dataclass(frozen=True)
class JobCloth:
    """One cloth of a job.

    Attributes:
        part: what the engine simulates.
        uid: identity of the object (hexadecimal), also names its files.
        pc2: path of the finished point cache. Relative means relative to the cache folder,
            the one that holds the job folder; after read_job it is never relative.
        topology_hash: of its mesh, for the sidecar.
    """

    part: ClothPart
    uid: str
    pc2: str
    topology_hash: str


@dataclass(frozen=True)
class Job:
    """What does not change from frame to frame.

    Attributes:
        version: of the job folder; see VERSION.
        fps: frames per second, exact (30 / 1.001 for NTSC).
        frame_start: first frame of the bake: the shape it starts from.
        frame_end: last frame of the bake.
        options: choices of the user for the solver.
        device: where to run.
        kernel_cache: folder for compiled kernels; empty for none.
        settings_hash: of the settings, for the sidecar.
        cloths: C cloths, one model together.
        notes: sentences for the user that go into the sidecars.
    """

    version: int
    fps: float
    frame_start: int
    frame_end: int
    options: SolverOptions
    device: Device
    kernel_cache: str
    settings_hash: str
    cloths: tuple[JobCloth, ...]
    notes: tuple[str, ...] = ()

    @property
    def frame_count(self) -> int:
        """Frames of the bake, the first one included."""
        return self.frame_end - self.frame_start + 1

    @property
    def pin_count(self) -> int:
        """Pinned vertices of all cloths."""
        return sum(len(cloth.part.pin_vertices) for cloth in self.cloths)


def job_folder(cache_folder: Path | str, uid: str) -> Path:
    """Return the place of a job: beside the point caches, named after its first cloth."""
    return Path(cache_folder) / (uid + SUFFIX)


def write_job(folder: Path | str, job: Job) -> None:
    """Write a new job; frames and checkpoint of an older job in that folder are deleted.

    Raises:
        JobError: the job contradicts itself.
        CacheError: the folder cannot be written.
    """
    folder = Path(folder)
    _check_job(job, f'The job for "{folder}"')
    make_folder(folder)
    clear(folder)
    make_folder(folder / _FRAMES)
    _write(folder, job)


def update_job(folder: Path | str, job: Job) -> None:
    """Write another version of the job that is in a folder; frames and checkpoint stay.

    Args:
        folder: the job folder.
        job: as many vertices and pins as the one before.

    Raises:
        JobError: the job contradicts itself.
        CacheError: the folder cannot be written.
    """
    folder = Path(folder)
    _check_job(job, f'The job for "{folder}"')
    _write(folder, job)


def _write(folder: Path, job: Job) -> None:
    for index, cloth in enumerate(job.cloths):
        part = cloth.part
        arrays: dict[str, npt.ArrayLike] = {
            "offsets": part.mesh.offsets,
            "corners": part.mesh.corners,
            "loose_edges": part.mesh.loose_edges,
            "rest": part.rest,
            "positions": part.positions,
            "pin_vertices": part.pin_vertices,
            "pin_weights": part.pin_weights,
        }
        write_arrays(folder / _mesh_name(index), arrays)
    write_json(folder / _JOB, _job_to_json(folder, job), durable=True)


def clear(folder: Path) -> None:
    """Delete what an older job left in its folder; job.json first, so it is a job no more.

    Raises:
        CacheError: something cannot be deleted.
    """
    delete(folder / _JOB)
    clear_state(folder)
    remove_frames(folder)
    for path in folder.glob("mesh_*.npz"):
        delete(path)


def read_job(folder: Path | str) -> Job:
    """Read and check a job.

    Raises:
        JobError: missing, of another version, damaged, or it contradicts itself.
        CacheError: it cannot be read.
    """
    folder = Path(folder)
    path = folder / _JOB
    try:
        content = read_json(path)
    except FileNotFoundError as error:
        raise JobError(f'"{folder}" is no job folder: it has no {_JOB}. Bake again.') from error
    version = content.get("version")
    if version != VERSION:
        raise JobError(
            f'"{path}" has version {version!r}; this program reads version {VERSION}. Bake again, '
            "or use the release of the extension that wrote it."
        )
    try:
        job = _job_from_json(folder, content)
    except CacheError:
        raise
    except FileNotFoundError as error:
        raise JobError(f'"{error.filename}" is missing. Bake again.') from error
    except (KeyError, TypeError, ValueError) as error:
        what = f"no entry {error}" if isinstance(error, KeyError) else str(error)
        raise JobError(f'"{path}" is damaged ({what}). Bake again.') from error
    _check_job(job, f'"{path}"')
    return job


def _mesh_name(index: int) -> str:
    return f"mesh_{index}.npz"


def _job_to_json(folder: Path, job: Job) -> dict[str, Any]:
    return {
        "format": "Taichi Cloth job",
        "version": job.version,
        "fps": float(job.fps),
        "frame_start": job.frame_start,
        "frame_end": job.frame_end,
        "options": _options_to_json(job.options),
        "device": job.device.value,
        "kernel_cache": job.kernel_cache,
        "settings_hash": job.settings_hash,
        "notes": list(job.notes),
        "cloths": [
            {
                "name": cloth.part.name,
                "uid": cloth.uid,
                "pc2": _stored_path(folder, cloth.pc2),
                "topology_hash": cloth.topology_hash,
                "mesh": _mesh_name(index),
                "vertex_count": cloth.part.mesh.vertex_count,
                "fabric": {name: getattr(cloth.part.fabric, name) for name in fabric_names()},
                "pin_stiffness": float(cloth.part.pin_stiffness),
                "use_fields": cloth.part.use_fields,
                "strain_limit": float(cloth.part.strain_limit),
            }
            for index, cloth in enumerate(job.cloths)
        ],
    }


def _stored_path(folder: Path, pc2: str) -> str:
    """Shorten a path inside the cache folder, so that the folder can be moved."""
    cache = folder.absolute().parent
    path = Path(pc2)
    return path.relative_to(cache).as_posix() if path.is_relative_to(cache) else pc2


def _job_from_json(folder: Path, content: dict[str, Any]) -> Job:
    cache = folder.absolute().parent
    cloths = []
    for entry in content["cloths"]:
        vertex_count = _integer(entry["vertex_count"])
        file = ArrayFile(folder / str(entry["mesh"]))
        mesh = Mesh(
            vertex_count,
            file.integers("offsets", None),
            file.integers("corners", None),
            file.integers("loose_edges", None, 2),
        )
        rest = file.floats("rest", vertex_count, 3)
        positions = file.floats("positions", vertex_count, 3)
        part = ClothPart(
            name=_text(entry["name"]),
            mesh=mesh,
            rest=rest,
            # Most cloths start at rest: one array is enough then.
            positions=rest if np.array_equal(rest, positions) else positions,
            fabric=Fabric(**{name: float(entry["fabric"][name]) for name in fabric_names()}),
            pin_vertices=file.integers("pin_vertices", None),
            pin_weights=file.floats("pin_weights", None),
            pin_stiffness=float(entry["pin_stiffness"]),
            use_fields=bool(entry["use_fields"]),
            strain_limit=float(entry["strain_limit"]),
        )
        pc2 = str(cache / _text(entry["pc2"]))
        cloths.append(JobCloth(part, _text(entry["uid"]), pc2, _text(entry["topology_hash"])))
    return Job(
        version=VERSION,
        fps=float(content["fps"]),
        frame_start=_integer(content["frame_start"]),
        frame_end=_integer(content["frame_end"]),
        options=_options_from_json(content["options"]),
        device=Device(content["device"]),
        kernel_cache=_text(content["kernel_cache"]),
        settings_hash=_text(content["settings_hash"]),
        cloths=tuple(cloths),
        notes=tuple(_text(note) for note in content.get("notes", ())),
    )


def _options_to_json(options: SolverOptions) -> dict[str, Any]:
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return {
        name: value.value if isinstance(value, Enum) else value for name, value in values.items()
    }


def _options_from_json(content: dict[str, Any]) -> SolverOptions:
    default = SolverOptions()
    values: dict[str, Any] = {}
    for field in fields(default):
        kind = type(getattr(default, field.name))
        values[field.name] = kind(content[field.name])
    return SolverOptions(**values)


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is no whole number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _check_job(job: Job, where: str) -> None:
    if job.version != VERSION:
        raise JobError(f"{where} has version {job.version}, expected {VERSION}.")
    if not (math.isfinite(job.fps) and job.fps > 0):
        raise JobError(f"{where} has {job.fps} frames per second. Set the scene's frame rate.")
    if job.frame_end < job.frame_start:
        raise JobError(
            f"{where} ends at frame {job.frame_end}, before its start {job.frame_start}. "
            "Set the frame range."
        )
    if job.options.substeps < 0:
        raise JobError(f"{where} has {job.options.substeps} substeps. Set 0 or more.")
    if not job.cloths:
        raise JobError(f"{where} has no cloth. Select a mesh object and bake again.")
    for what, names in (
        ("identities", [cloth.uid for cloth in job.cloths]),
        ("point cache paths", [cloth.pc2 for cloth in job.cloths]),
    ):
        if not all(names) or len(set(names)) < len(names):
            raise JobError(f"{where} has empty or equal {what} of cloths. Bake again.")
    for cloth in job.cloths:
        if not cloth.pc2.endswith(".pc2"):
            raise JobError(f'{where}: the point cache "{cloth.pc2}" must end in .pc2.')
        _check_part(cloth.part, f'{where}, cloth "{cloth.part.name}":')


def _check_part(part: ClothPart, where: str) -> None:
    _check_mesh(part, where)
    if len(np.unique(part.pin_vertices)) < len(part.pin_vertices):
        raise JobError(f"{where} a vertex is pinned twice. Bake again.")
    if part.pin_weights.shape != part.pin_vertices.shape or part.pin_weights.ndim != 1:
        raise JobError(f"{where} {len(part.pin_weights)} pin weights do not fit the pins.")
    if not ((part.pin_weights >= 0.0) & (part.pin_weights <= 1.0)).all():
        raise JobError(f"{where} pin weights must lie between 0 and 1. Bake again.")
    for what, value in (("pin stiffness", part.pin_stiffness), ("strain limit", part.strain_limit)):
        if not (math.isfinite(value) and value >= 0.0):
            raise JobError(f"{where} {what} {value}. Set 0 or more.")


def _check_mesh(part: ClothPart, where: str) -> None:
    mesh = part.mesh
    count = mesh.vertex_count
    if count < 1:
        raise JobError(f"{where} the mesh has no vertices. Add a mesh to it.")
    for what, array in (("rest shape", part.rest), ("shape", part.positions)):
        if array.shape != (count, 3):
            raise JobError(f"{where} {what} of shape {array.shape}, expected ({count}, 3).")
        if not np.isfinite(array).all():
            vertex = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
            raise JobError(
                f"{where} the {what} has coordinates that are not finite (vertex {vertex} "
                "first). Repair the mesh or the modifier that makes them."
            )
    offsets = mesh.offsets
    if (
        offsets.ndim != 1
        or not len(offsets)
        or offsets[0] != 0
        or offsets[-1] != len(mesh.corners)
        or (np.diff(offsets) < 0).any()
    ):
        raise JobError(f"{where} the polygons do not fit their corners. Bake again.")
    if mesh.loose_edges.ndim != 2 or mesh.loose_edges.shape[1] != 2:  # noqa: PLR2004
        raise JobError(f"{where} loose edges of shape {mesh.loose_edges.shape}, expected (E, 2).")
    for what, indices in (
        ("polygon corners", mesh.corners),
        ("loose edges", mesh.loose_edges),
        ("pins", part.pin_vertices),
    ):
        if ((indices < 0) | (indices >= count)).any():
            raise JobError(f"{where} {what} name vertices that do not exist. Bake again.")
