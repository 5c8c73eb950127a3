# SPDX-License-Identifier: GPL-3.0-or-later
"""Array files (.npz) of a job folder: written in one step, checked when read."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .storage import CacheError, explain, write_atomically


class JobError(CacheError):
    """A job folder is incomplete, damaged or contradictory. The text names file and way out."""


def write_arrays(path: Path, arrays: Mapping[str, npt.ArrayLike]) -> None:
    """Write arrays to an .npz file in one step.

    Raises:
        CacheError: it cannot be written.
    """
    content: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in content.items():
        if array.dtype.hasobject:
            raise JobError(f'"{path}": {name!r} is no array of numbers.')
    write_atomically(path, lambda file: np.savez(file, **content))


class ArrayFile:
    """The arrays of an .npz file, handed out only after a check of type and shape."""

    def __init__(self, path: Path, advice: str = "Bake again.") -> None:
        """Load the file.

        Args:
            path: the file.
            advice: the way out, for messages.

        Raises:
            FileNotFoundError: there is none.
            JobError: it cannot be read.
        """
        self.path = path
        self.advice = advice
        try:
            with np.load(path, allow_pickle=False) as file:
                self._arrays: dict[str, npt.NDArray[Any]] = {name: file[name] for name in file}
        except FileNotFoundError:
            raise
        except OSError as error:
            raise JobError(explain(error, "read", path)) from error
        except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
            raise self.error(f"is damaged ({error})") from error

    def error(self, problem: str) -> JobError:
        """Return an error that names the file, says ``problem`` and the way out."""
        return JobError(f'"{self.path}" {problem}. {self.advice}')

    def __contains__(self, name: str) -> bool:
        """Whether there is an array of that name."""
        return name in self._arrays

    def floats(self, name: str, *shape: int | None, finite: bool = True) -> npt.NDArray[np.float64]:
        """Return a float64 array.

        Args:
            name: of the array.
            shape: expected lengths; None takes any.
            finite: refuse NaN and infinity.

        Raises:
            JobError: missing, wrong type, wrong shape, not finite.
        """
        array = self._get(name, "f", shape)
        if finite and not np.isfinite(array).all():
            raise self.error(f"has numbers in {name!r} that are not finite")
        return array.astype(np.float64, copy=False)

    def integers(self, name: str, *shape: int | None) -> npt.NDArray[np.int32]:
        """Return an int32 array; see floats.

        Raises:
            JobError: missing, wrong type, wrong shape.
        """
        return self._get(name, "i", shape).astype(np.int32, copy=False)

    def texts(self, name: str, *shape: int | None) -> list[str]:
        """Return an array of strings as a list; see floats.

        Raises:
            JobError: missing, wrong type, wrong shape.
        """
        return [str(text) for text in self._get(name, "U", shape)]

    def raw(self, name: str) -> npt.NDArray[Any]:
        """Return an array as it is.

        Raises:
            JobError: missing.
        """
        if name not in self._arrays:
            raise self.error(f"has no array {name!r}")
        return self._arrays[name]

    def _get(self, name: str, kind: str, shape: tuple[int | None, ...]) -> npt.NDArray[Any]:
        array = self.raw(name)
        if array.dtype.kind != kind:
            raise self.error(f"has {name!r} of type {array.dtype}")
        fits = array.ndim == len(shape) and all(
            want is None or want == have for want, have in zip(shape, array.shape, strict=True)
        )
        if not fits:
            wanted = ", ".join("any" if n is None else str(n) for n in shape)
            raise self.error(f"has {name!r} of shape {array.shape}, expected ({wanted})")
        return array
