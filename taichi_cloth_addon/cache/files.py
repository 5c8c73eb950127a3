# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files a bake has, and the rules by which a new result takes the place of an old one.

    <uid>.pc2       <uid>.json                          the result that plays
    <uid>.part.pc2  <uid>.part.json  <uid>.part.jsonl   the bake in work
    <uid>.job/                                          the job, with the checkpoint for Resume

* A bake writes into its part. Done, the part replaces the result.
* A first bake that stops early leaves its frames as the result, marked incomplete; Resume goes
  on in that result, which is safe because a point cache grows by append-then-count.
* A re-bake that stops early leaves the old result as it is, and the part for Resume.

The point cache is renamed before its sidecar, and a part's point cache is created before its
sidecar; so a part sidecar without a part point cache always is the other half of a rename.
``settle`` finishes whatever a kill left half-done.
"""

import shutil
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from . import pc2, sidecar, storage
from .pc2 import Pc2Error, Pc2Writer
from .sidecar import Sidecar
from .storage import CacheError, LockedError


@dataclass(frozen=True)
class BakeFiles:
    """A point cache and what lies beside it.

    Attributes:
        pc2: the point cache.
    """

    pc2: Path

    @property
    def sidecar(self) -> Path:
        """The JSON file of the point cache."""
        return self.pc2.with_suffix(".json")

    @property
    def log(self) -> Path:
        """The statistics of a running bake."""
        return sidecar.log_path(self.sidecar)

    @property
    def part(self) -> "BakeFiles":
        """The files of the bake in work that will replace these."""
        return BakeFiles(self.pc2.with_suffix(".part.pc2"))

    def delete(self) -> None:
        """Delete these files; those that are missing do not matter.

        Raises:
            CacheError: one cannot be deleted.
        """
        for path in (self.sidecar, self.log, self.pc2):
            storage.delete(storage.temporary(path))
            storage.delete(path)


class Outcome(Enum):
    """What there is for an object after its bake ended in whatever way."""

    NONE = "NONE"
    """No result."""
    COMPLETE = "COMPLETE"
    """A result with all its frames."""
    PARTIAL = "PARTIAL"
    """A result with the frames up to where the bake stopped."""


def settle(final: Path | str) -> Outcome:
    """Bring the files of a bake that has ended, or was killed, into a state that plays.

    No worker may be writing them. Calling it again changes nothing.

    Args:
        final: path of the finished point cache.

    Returns:
        What plays now.

    Raises:
        LockedError: the result is held by another program; the part stays, complete.
        CacheError: the disk refuses.
    """
    files = BakeFiles(Path(final))
    part = files.part
    if not part.pc2.exists() and part.sidecar.exists():
        _promote_rest(part, files)
    elif part.pc2.exists():
        found = consolidate(part)
        if found is None:
            part.delete()
        elif found.complete or not files.pc2.exists():
            promote(part, files)
    if not files.pc2.exists():
        return Outcome.NONE
    result = consolidate(files)
    if result is None:
        return Outcome.NONE
    return Outcome.COMPLETE if result.complete else Outcome.PARTIAL


def consolidate(files: BakeFiles) -> Sidecar | None:
    """Make point cache and sidecar agree, and merge the log of statistics into the sidecar.

    A bake that has all frames it was asked for is marked complete.

    Args:
        files: a result or a part that nobody is writing.

    Returns:
        The sidecar as it is now; None if there are no frames to speak of, or no sidecar.

    Raises:
        CacheError: the disk refuses.
    """
    try:
        header = pc2.read_header(files.pc2)
        known = sidecar.read(files.sidecar)
    except (Pc2Error, sidecar.SidecarError):
        return None
    if header.count == 0:
        return None
    last = known.frame_first + header.count - 1
    settled = replace(
        known,
        frame_last=last,
        complete=last >= known.frame_end_wanted,
        statistics=tuple(entry for entry in known.statistics if entry.frame <= last),
    )
    if header.stated_count != header.count or settled != known or files.log.exists():
        with Pc2Writer.reopen(files.pc2) as writer:
            writer.sync()
    if settled != known or files.log.exists():
        sidecar.write(files.sidecar, settled, durable=True)
        storage.delete(files.log)
    return settled


def promote(part: BakeFiles, final: BakeFiles) -> None:
    """Let a part take the place of the result.

    Raises:
        LockedError: another program holds the result; the part stays beside it.
        CacheError: the disk refuses.
    """
    try:
        storage.replace(part.pc2, final.pc2)
    except LockedError as error:
        raise LockedError(
            f'{error} The new bake is complete and kept beside it as "{part.pc2}". '
            "Close what uses the old one and press Resume: nothing is simulated again."
        ) from error
    _promote_rest(part, final)


def _promote_rest(part: BakeFiles, final: BakeFiles) -> None:
    storage.replace(part.sidecar, final.sidecar)
    storage.delete(final.log)
    storage.delete(part.log)


def remove(final: Path | str, job_folder: Path | str | None = None) -> None:
    """Delete all files of a bake; those that are missing do not matter.

    Args:
        final: path of the finished point cache.
        job_folder: the job to delete as well, if any.

    Raises:
        CacheError: one cannot be deleted; the others are deleted all the same.
    """
    files = BakeFiles(Path(final))
    problems = []
    for group in (files.part, files):
        try:
            group.delete()
        except CacheError as error:
            problems.append(str(error))
    if job_folder is not None and Path(job_folder).exists():
        try:
            shutil.rmtree(job_folder)
        except OSError as error:
            problems.append(
                f'"{job_folder}" could not be deleted ({error.strerror or error}). '
                "Close the program that uses it and try again."
            )
    if problems:
        raise CacheError("\n".join(problems))
