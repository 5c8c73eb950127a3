# SPDX-License-Identifier: GPL-3.0-or-later
"""PC2 point caches: one sample of all vertex positions per frame, float32, little-endian.

Layout: a header of 32 bytes (12-byte tag, int32 version 1, int32 vertex count, float32 start,
float32 sampling, int32 sample count), then samples x vertices x 3 float32.

A sample is written and flushed before the count in the header is raised, so a reader
never sees half a frame and a kill loses at most the frame in work. The readers here also
take a file whose end is missing: they count the samples that are whole.
"""

import os
import struct
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from .storage import CacheError, explain

TAG = b"POINTCACHE2\0"
VERSION = 1
_HEADER = struct.Struct("<12siiffi")
HEADER_SIZE = _HEADER.size
_COUNT_OFFSET = HEADER_SIZE - 4
_COUNT = struct.Struct("<i")
_BYTES_PER_VERTEX = 12

Positions = npt.NDArray[np.float32]


class Pc2Error(CacheError):
    """A point cache cannot be read or written. The text names it and the way out."""


@dataclass(frozen=True)
class Pc2Header:
    """What a point cache says of itself.

    Attributes:
        vertex_count: V.
        start: frame of the first sample.
        sampling: frames per sample.
        stated_count: samples according to the header.
        count: samples that are really there: never more than stated.
    """

    vertex_count: int
    start: float
    sampling: float
    stated_count: int
    count: int


def read_header(path: Path | str, vertex_count: int | None = None) -> Pc2Header:
    """Read and check the header of a point cache.

    Args:
        path: the file.
        vertex_count: how many vertices it must have, if known.

    Raises:
        Pc2Error: missing, unreadable, no point cache, or of another vertex count.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(HEADER_SIZE)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise Pc2Error(f'The point cache "{path}" is missing. Bake again.') from error
    except OSError as error:
        raise Pc2Error(explain(error, "read", path)) from error
    return _parse_header(path, head, size, vertex_count)


def _parse_header(path: Path, head: bytes, size: int, vertex_count: int | None) -> Pc2Header:
    if head[: len(TAG)] != TAG[: len(head)]:
        raise Pc2Error(f'"{path}" is no PC2 point cache. Choose another file, or bake again.')
    if len(head) < HEADER_SIZE:
        raise Pc2Error(f'"{path}" ends inside its header. Bake again.')
    _, version, vertices, start, sampling, stated = _HEADER.unpack(head)
    if version != VERSION:
        raise Pc2Error(f'"{path}" is a PC2 file of version {version}, not {VERSION}. Bake again.')
    if vertices < 1 or stated < 0:
        raise Pc2Error(f'"{path}" is damaged ({vertices} vertices, {stated} frames). Bake again.')
    if vertex_count is not None and vertices != vertex_count:
        raise Pc2Error(
            f'"{path}" has {vertices} vertices, but the mesh has {vertex_count}. '
            "The mesh was edited since: bake again, or undo the edit."
        )
    whole = (size - HEADER_SIZE) // (vertices * _BYTES_PER_VERTEX)
    return Pc2Header(vertices, start, sampling, stated, min(stated, whole))


def read_frames(path: Path | str, first: int = 0, count: int | None = None) -> Positions:
    """Return samples of a point cache, read-only and memory-mapped.

    On Windows a file cannot be replaced while such an array is alive: drop it soon.

    Args:
        path: the file.
        first: index of the first sample wanted, counted from 0.
        count: how many; None takes all that follow.

    Returns:
        (count, V, 3) positions, object space.

    Raises:
        Pc2Error: as read_header, or the file has no such samples.
    """
    path = Path(path)
    header = read_header(path)
    if count is None:
        count = header.count - first
    if first < 0 or count < 0 or first + count > header.count:
        raise Pc2Error(
            f'"{path}" has {header.count} frames; frames {first} to {first + count - 1} '
            "(counted from 0) are not all there. Bake again."
        )
    shape = (count, header.vertex_count, 3)
    if count == 0:
        return np.empty(shape, np.dtype("<f4"))
    offset = HEADER_SIZE + first * header.vertex_count * _BYTES_PER_VERTEX
    try:
        return np.memmap(path, np.dtype("<f4"), "r", offset, shape)
    except (OSError, ValueError) as error:
        raise Pc2Error(f'"{path}" could not be read ({error}). Bake again.') from error


class Pc2Writer:
    """Writes a point cache frame by frame; a context manager."""

    def __init__(self, path: Path | str, vertex_count: int, start: int) -> None:
        """Create the file, with no frames; one of that name is overwritten.

        Args:
            path: the file.
            vertex_count: V.
            start: frame number of the first sample.

        Raises:
            Pc2Error: it cannot be created.
        """
        if vertex_count < 1:
            raise Pc2Error(f'"{path}": a point cache needs at least one vertex.')
        header = _HEADER.pack(TAG, VERSION, vertex_count, float(start), 1.0, 0)
        self._open(Path(path), "w+", vertex_count, start, 0)
        self._write(0, header)

    @classmethod
    def reopen(
        cls, path: Path | str, keep_frames: int | None = None, *, vertex_count: int | None = None
    ) -> Self:
        """Open a file to append to it, after its first ``keep_frames`` frames.

        What follows them is cut off. This also repairs a file whose end is missing.

        Args:
            path: the file.
            keep_frames: None keeps all that are whole.
            vertex_count: how many vertices it must have, if known.

        Raises:
            Pc2Error: it cannot be opened, or has fewer frames.
        """
        path = Path(path)
        header = read_header(path, vertex_count)
        keep = header.count if keep_frames is None else keep_frames
        if not 0 <= keep <= header.count:
            raise Pc2Error(
                f'"{path}" has {header.count} frames, fewer than the {keep} to go on from. '
                "Bake again from the start."
            )
        writer = cls.__new__(cls)
        writer._open(path, "r+", header.vertex_count, round(header.start), keep)
        try:
            writer._write(_COUNT_OFFSET, _COUNT.pack(keep))
            writer._file.truncate(writer._end)
        except OSError as error:
            writer._file.close()
            raise Pc2Error(explain(error, "cut", path)) from error
        return writer

    def _open(self, path: Path, mode: str, vertex_count: int, start: int, count: int) -> None:
        self.path = path
        self.vertex_count = vertex_count
        self.start = start
        self.count = count
        try:
            # Unbuffered: what is written is the system's at once, in this order.
            self._file = FileIO(path, mode)
        except OSError as error:
            raise Pc2Error(explain(error, "written", path)) from error

    @property
    def _end(self) -> int:
        return HEADER_SIZE + self.count * self.vertex_count * _BYTES_PER_VERTEX

    @property
    def frame(self) -> int:
        """Number of the frame that the next sample belongs to."""
        return self.start + self.count

    def append(self, positions: npt.ArrayLike) -> None:
        """Write the next frame.

        Args:
            positions: (V, 3), object space.

        Raises:
            Pc2Error: wrong shape, a number that is not finite, or the disk refuses. The frames
                before it stay intact.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            sample = np.ascontiguousarray(positions, np.dtype("<f4"))
        if sample.shape != (self.vertex_count, 3):
            raise Pc2Error(
                f'Frame {self.frame} of "{self.path}": positions of shape {sample.shape}, '
                f"expected ({self.vertex_count}, 3)."
            )
        bad = np.flatnonzero(~np.isfinite(sample).all(axis=1))
        if bad.size:
            raise Pc2Error(
                f"Frame {self.frame}: {bad.size} of {self.vertex_count} vertices have positions "
                f"that are not finite (vertex {bad[0]} first), so the frame was not written. "
                f'The frames before it are in "{self.path}". Try more substeps or less stiffness.'
            )
        self._write(self._end, sample)
        self._write(_COUNT_OFFSET, _COUNT.pack(self.count + 1))
        self.count += 1

    def _write(self, offset: int, data: bytes | Positions) -> None:
        rest = memoryview(data).cast("B")
        try:
            self._file.seek(offset)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise Pc2Error(explain(error, "written", self.path)) from error

    def sync(self) -> None:
        """Wait until the disk has what was written.

        Raises:
            Pc2Error: the disk refuses.
        """
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise Pc2Error(explain(error, "written", self.path)) from error

    def close(self) -> None:
        """Close the file; closing again does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        """Return the writer."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()
