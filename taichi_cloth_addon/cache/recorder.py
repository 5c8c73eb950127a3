# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes one cloth's point cache, statistics and sidecar, frame by frame."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from . import sidecar
from .arrays import JobError
from .files import BakeFiles, consolidate, promote
from .pc2 import Pc2Writer
from .sidecar import FrameStatistics, Sidecar, StatisticsLog

MAX_WARNINGS = 50
SINGULAR = 1e-12
"""Smallest ratio of an object's scales along its axes at which its matrix can be inverted."""

Array = npt.NDArray[np.float64]


def to_local(positions: Array, matrix: Array, frame: int, name: str) -> Array:
    """Return positions in the space of an object's mesh.

    Args:
        positions: (V, 3) world space, m.
        matrix: (4, 4) from the object's space to the world.
        frame: for the message.
        name: of the object, for the message.

    Raises:
        JobError: the matrix cannot be inverted.
    """
    linear = matrix[:3, :3]
    scales = np.linalg.svd(linear, compute_uv=False)
    if not scales[-1] > SINGULAR * scales[0]:
        raise JobError(
            f'Frame {frame}: "{name}" is scaled to zero along an axis, so its shape cannot be '
            "stored. Give it and its parents a scale other than 0 in the whole frame range."
        )
    # Not by matmul: its threads spin on the cores that the solver needs.
    local: Array = np.einsum("ij,kj->ik", positions - matrix[:3, 3], np.linalg.inv(linear))
    return local


class Recorder:
    """The files of one cloth in a running bake.

    After each frame: ``append``, then the checkpoint is written by the caller, then
    ``publish``. In that order the checkpoint never is ahead of the files.
    """

    def __init__(
        self, files: BakeFiles, writer: Pc2Writer, log: StatisticsLog, head: Sidecar
    ) -> None:
        """Take over files that are open; see ``begin`` and ``resume``."""
        self.files = files
        self._writer = writer
        self._log = log
        self._sidecar = head

    @classmethod
    def begin(cls, final: Path | str, head: Sidecar) -> Self:
        """Start a bake in the part of a result.

        Args:
            final: path of the finished point cache.
            head: the sidecar, with no frames.

        Raises:
            CacheError: the files cannot be created.
        """
        part = BakeFiles(Path(final)).part
        part.delete()
        writer = Pc2Writer(part.pc2, head.vertex_count, head.frame_first)
        try:
            log = StatisticsLog(part.log)
            sidecar.write_running(part.sidecar, head)
        except BaseException:
            writer.close()
            raise
        return cls(part, writer, log, head)

    @classmethod
    def resume(cls, files: BakeFiles, head: Sidecar, keep_frames: int) -> Self:
        """Go on in a result or part after its first ``keep_frames`` frames.

        Args:
            files: what to go on in.
            head: the sidecar; warnings and statistics are taken from the file.
            keep_frames: frames that stay; later ones are cut off.

        Raises:
            CacheError: the files cannot be opened or do not fit.
        """
        old = sidecar.read(files.sidecar)
        last = head.frame_first + keep_frames - 1
        kept = tuple(entry for entry in old.statistics if entry.frame <= last)
        writer = Pc2Writer.reopen(files.pc2, keep_frames, vertex_count=head.vertex_count)
        try:
            log = StatisticsLog(files.log, kept)
            head = replace(head, frame_last=last, warnings=old.warnings, complete=False)
            if not head.device:
                head = replace(head, device=old.device)
            sidecar.write_running(files.sidecar, head)
        except BaseException:
            writer.close()
            raise
        return cls(files, writer, log, head)

    def append(self, positions: Array, matrix: Array, statistics: FrameStatistics) -> None:
        """Write the next frame, in the object's space, and its statistics.

        Args:
            positions: (V, 3) world space, m.
            matrix: (4, 4) from the object's space to the world at that frame.
            statistics: of that frame.

        Raises:
            JobError: the matrix cannot be inverted.
            CacheError: not finite, or the disk refuses. The frames before stay intact.
        """
        name = self._sidecar.object_name
        self._writer.append(to_local(positions, matrix, statistics.frame, name))
        self._log.append(statistics)
        self._sidecar = replace(self._sidecar, frame_last=statistics.frame)

    def publish(self, warnings: Sequence[str] = ()) -> None:
        """Bring the sidecar up to date.

        Args:
            warnings: sentences to add; those already there are not repeated.

        Raises:
            CacheError: the disk refuses.
        """
        new = [text for text in warnings if text not in self._sidecar.warnings]
        kept = (*self._sidecar.warnings, *new)[:MAX_WARNINGS]
        self._sidecar = replace(self._sidecar, warnings=kept)
        sidecar.write_running(self.files.sidecar, self._sidecar)

    def close(self) -> None:
        """Close the files as they are; closing again does nothing."""
        self._writer.close()
        self._log.close()

    def finish(self, final: Path | str) -> None:
        """Close the files and let them take the place of the result.

        Raises:
            LockedError: another program holds the result; the bake is kept beside it.
            CacheError: the disk refuses.
        """
        self.close()
        consolidate(self.files)
        if self.files.pc2 != Path(final):
            promote(self.files, BakeFiles(Path(final)))
