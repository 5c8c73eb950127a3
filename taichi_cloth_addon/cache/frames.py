# SPDX-License-Identifier: GPL-3.0-or-later
"""What each frame brings, as files of the job folder: frames/frame_+000001.npz and so on."""

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..engine.inputs import FieldFalloff, FieldShape, FrameInputs, Sample, WindField
from ..engine.material import Fabric, fabric_names
from .arrays import ArrayFile, JobError, write_arrays
from .storage import delete

FOLDER = "frames"

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FrameBlock:
    """What one frame brings.

    Attributes:
        frame: its number.
        inputs: for the engine (world space).
        matrices: (C, 4, 4) world matrix of each cloth's object at that frame, from the space
            of its mesh to the engine's world.
    """

    frame: int
    inputs: FrameInputs
    matrices: Array


def frame_path(folder: Path | str, frame: int) -> Path:
    """Return the file of one frame's inputs."""
    return Path(folder) / FOLDER / f"frame_{frame:+07d}.npz"


def write_frame(folder: Path | str, block: FrameBlock) -> None:
    """Write what one frame brings; one of that number is replaced.

    Raises:
        JobError: the block contradicts itself.
        CacheError: it cannot be written.
    """
    path = frame_path(folder, block.frame)
    _check_block(block, f'Frame {block.frame} for "{path.parent.parent}"')
    inputs = block.inputs
    winds = [field for sample in inputs.samples for field in sample.fields]
    write_arrays(
        path,
        {
            "frame": block.frame,
            "matrices": np.asarray(block.matrices, np.float64),
            "gravity": np.array([sample.gravity for sample in inputs.samples], np.float64),
            "wind": np.array([sample.wind for sample in inputs.samples], np.float64),
            "pin_targets": np.array([s.pin_targets for s in inputs.samples], np.float64),
            "gusts": np.asarray(inputs.gusts, np.float64),
            "fabrics": np.array(
                [[getattr(fabric, name) for name in fabric_names()] for fabric in inputs.fabrics],
                np.float64,
            ),
            "fabric_names": list(fabric_names()),
            "field_counts": np.array([len(s.fields) for s in inputs.samples], np.int64),
            "field_vectors": _array([(f.origin, f.axis) for f in winds], (-1, 2, 3)),
            "field_numbers": _array([_field_numbers(f) for f in winds], (-1, 9)),
            "field_integers": np.array([(f.seed, f.one_sided) for f in winds], np.int64).reshape(
                -1, 2
            ),
            "field_kinds": np.array(
                [(f.shape.value, f.falloff.value) for f in winds], np.str_
            ).reshape(-1, 2),
        },
    )


def read_frame(
    folder: Path | str,
    frame: int,
    *,
    cloth_count: int | None = None,
    pin_count: int | None = None,
) -> FrameBlock | None:
    """Read and check what one frame brings.

    Args:
        folder: the job folder.
        frame: number of the frame.
        cloth_count: how many cloths it must have, if known.
        pin_count: how many pinned vertices it must have, if known.

    Returns:
        The block, or None if it is not there yet.

    Raises:
        JobError: it is damaged or does not fit the job.
        CacheError: it cannot be read.
    """
    path = frame_path(folder, frame)
    try:
        file = ArrayFile(path)
    except FileNotFoundError:
        return None
    if int(file.integers("frame")) != frame:
        raise file.error(f"belongs to frame {int(file.integers('frame'))}")
    if file.texts("fabric_names", None) != list(fabric_names()):
        raise file.error("has fabrics of another release of the extension")
    gravity = file.floats("gravity", None, 3)
    count = len(gravity)
    wind = file.floats("wind", count, cloth_count, 3)
    targets = file.floats("pin_targets", count, pin_count, 3)
    try:
        fabrics = tuple(
            Fabric(*row.tolist())
            for row in file.floats("fabrics", cloth_count, len(fabric_names()))
        )
        fields_of = _read_fields(file, count)
    except ValueError as error:
        raise file.error(f"is damaged ({error})") from error
    samples = tuple(Sample(gravity[i], wind[i], targets[i], fields_of[i]) for i in range(count))
    inputs = FrameInputs(samples, fabrics, file.floats("gusts", cloth_count))
    block = FrameBlock(frame, inputs, file.floats("matrices", cloth_count, 4, 4))
    _check_block(block, f'"{path}"')
    return block


def last_frame(folder: Path | str, first: int) -> int | None:
    """Return the last frame of the unbroken run of frames that starts at ``first``."""
    frame = first
    while frame_path(folder, frame).exists():
        frame += 1
    return frame - 1 if frame > first else None


def remove_frames(folder: Path | str, after: int | None = None) -> None:
    """Delete the inputs of frames past ``after``, or of all frames.

    Raises:
        CacheError: one cannot be deleted.
    """
    frames = Path(folder) / FOLDER
    if after is None:
        shutil.rmtree(frames, ignore_errors=True)
        paths = list(frames.glob("*"))
    else:
        paths = [
            p for p in frames.glob("frame_*.npz") if int(p.stem.removeprefix("frame_")) > after
        ]
    for path in paths:
        delete(path)


def _array(values: Sequence[object], shape: tuple[int, ...]) -> Array:
    return np.array(values, np.float64).reshape(shape)


def _field_numbers(field: WindField) -> tuple[float, ...]:
    return (
        field.speed,
        field.noise,
        field.power,
        field.minimum_distance,
        field.radial_power,
        field.radial_minimum,
        field.unit,
        field.maximum_distance,
        field.radial_maximum,
    )


def _read_fields(file: ArrayFile, samples: int) -> list[tuple[WindField, ...]]:
    counts = file.integers("field_counts", samples)
    total = int(counts.sum())
    vectors = file.floats("field_vectors", total, 2, 3)
    numbers = file.floats("field_numbers", total, 9, finite=False)
    integers = file.integers("field_integers", total, 2)
    kinds = file.raw("field_kinds")
    if kinds.shape != (total, 2) or (counts < 0).any():
        raise file.error("has wind fields of wrong shape")
    winds = []
    for i in range(total):
        speed, noise, power, least, radial_power, radial_least, unit, *most = numbers[i].tolist()
        winds.append(
            WindField(
                origin=vectors[i, 0],
                axis=vectors[i, 1],
                speed=speed,
                shape=FieldShape(str(kinds[i, 0])),
                falloff=FieldFalloff(str(kinds[i, 1])),
                noise=noise,
                seed=int(integers[i, 0]),
                power=power,
                minimum_distance=least,
                maximum_distance=most[0],
                radial_power=radial_power,
                radial_minimum=radial_least,
                radial_maximum=most[1],
                unit=unit,
                one_sided=int(integers[i, 1]),
            )
        )
    ends = np.cumsum(counts)
    return [tuple(winds[end - n : end]) for n, end in zip(counts, ends, strict=True)]


def _check_block(block: FrameBlock, where: str) -> None:
    inputs = block.inputs
    cloths = len(inputs.fabrics)
    if not cloths or not inputs.samples:
        raise JobError(f"{where} has no cloths or no samples. Bake again.")
    pins = len(inputs.samples[0].pin_targets)
    arrays: list[tuple[str, Array, tuple[int, ...]]] = [
        ("matrices", block.matrices, (cloths, 4, 4)),
        ("gusts", inputs.gusts, (cloths,)),
    ]
    for sample in inputs.samples:
        arrays += [
            ("gravity", sample.gravity, (3,)),
            ("wind", sample.wind, (cloths, 3)),
            ("pin targets", sample.pin_targets, (pins, 3)),
        ]
        for field in sample.fields:
            arrays += [
                ("wind fields", field.origin, (3,)),
                ("wind fields", field.axis, (3,)),
                ("wind fields", np.array(_field_numbers(field)[:7]), (7,)),
            ]
            if math.isnan(field.maximum_distance) or math.isnan(field.radial_maximum):
                raise JobError(f"{where} has wind fields whose distance is not a number.")
    for what, array, shape in arrays:
        if array.shape != shape:
            raise JobError(f"{where} has {what} of shape {array.shape}, expected {shape}.")
        if not np.isfinite(array).all():
            raise JobError(
                f"{where} has {what} that are not finite. Look for a broken animation curve, "
                "driver or modifier at that frame."
            )
