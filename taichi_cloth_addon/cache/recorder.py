# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes one cloth's point cache, statistics and sidecar, frame by frame."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy.typing as npt

from . import sidecar
from .files import BakeFiles, consolidate, promote
from .pc2 import Pc2Writer
from .sidecar import FrameStatistics, Sidecar, StatisticsLog

MAX_WARNINGS = 50


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
            sidecar.write_running(files.sidecar, head)
        except BaseException:
            writer.close()
            raise
        return cls(files, writer, log, head)

    def append(self, positions: npt.ArrayLike, statistics: FrameStatistics) -> None:
        """Write the next frame and its statistics.

        Args:
            positions: (V, 3), object space.
            statistics: of that frame.

        Raises:
            CacheError: not finite, or the disk refuses; the frames before stay intact.
        """
        self._writer.append(positions)
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
        """Mark the bake complete and let it take the place of the result.

        Raises:
            LockedError: another program holds the result; the bake is kept beside it.
            CacheError: the disk refuses.
        """
        self.close()
        consolidate(self.files, complete=True)
        if self.files.pc2 != Path(final):
            promote(self.files, BakeFiles(Path(final)))
