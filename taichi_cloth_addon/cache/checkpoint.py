# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkpoint of a bake: the engine's state after the last frame written."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.model import ClothState
from .arrays import ArrayFile, write_arrays
from .storage import delete

_STATE = "state.npz"
_PREFIX = "state_"


def write_state(folder: Path | str, frame: int, state: ClothState) -> None:
    """Replace the checkpoint in one step.

    Args:
        folder: the job folder.
        frame: the frame the state belongs to.
        state: every field of it is kept to the last bit.

    Raises:
        CacheError: it cannot be written.
    """
    values = {field.name: getattr(state, field.name) for field in fields(state)}
    arrays = {_PREFIX + name: value for name, value in values.items() if value is not None}
    write_arrays(Path(folder) / _STATE, {"frame": frame, **arrays})


def read_state(folder: Path | str) -> tuple[int, ClothState] | None:
    """Return the checkpoint, or None if there is none.

    Raises:
        JobError: it is damaged.
        CacheError: it cannot be read.
    """
    try:
        file = ArrayFile(Path(folder) / _STATE, "Bake again from the start.")
    except FileNotFoundError:
        return None
    values: dict[str, Any] = {}
    for field in fields(ClothState):
        name = _PREFIX + field.name
        if name not in file:
            continue
        array = file.raw(name)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise file.error(f"has numbers in {field.name!r} that are not finite")
        values[field.name] = array if array.ndim else array.item()
    try:
        state = ClothState(**values)
    except TypeError as error:
        raise file.error(f"is damaged ({error})") from error
    vertices = len(state.positions)
    if state.positions.shape != (vertices, 3) or state.velocities.shape != (vertices, 3):
        raise file.error("has positions and velocities of wrong shape")
    return int(file.integers("frame")), state


def clear_state(folder: Path | str) -> None:
    """Delete the checkpoint.

    Raises:
        CacheError: it cannot be deleted.
    """
    delete(Path(folder) / _STATE)
