# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a bake that stopped early can go on."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ..engine.model import ClothState
from . import pc2, sidecar
from .arrays import JobError
from .checkpoint import read_state
from .files import BakeFiles, settle
from .job import (
    Job,
    JobCloth,
    job_folder,
    read_frame,
    read_job,
    write_frame,
    write_job,
    write_state,
)
from .storage import CacheError, LockedError, explain, make_folder


@dataclass(frozen=True)
class ResumePlan:
    """What a bake goes on from.

    Attributes:
        frame: the last frame kept; the next one is simulated first.
        state: of the engine at that frame.
        files: of each cloth: what to append to.
    """

    frame: int
    state: ClothState
    files: tuple[BakeFiles, ...]


def plan_resume(folder: Path | str, job: Job) -> ResumePlan | None:
    """Find the checkpoint and check that it fits the job and the frames on disk.

    Whatever a kill left half-done is settled first, so no worker may be writing.

    Returns:
        The plan, or None if no frame was finished yet.

    Raises:
        JobError: the checkpoint does not fit. The text says why.
        CacheError: the disk refuses.
    """
    for cloth in job.cloths:
        with suppress(LockedError):  # then the part is complete and goes on waiting
            settle(cloth.pc2)
    found = read_state(folder)
    if found is None:
        return None
    frame, state = found
    vertices = sum(cloth.part.mesh.vertex_count for cloth in job.cloths)
    if not job.frame_start <= frame <= job.frame_end or len(state.positions) != vertices:
        raise JobError(
            f'The checkpoint in "{folder}" (frame {frame}, {len(state.positions)} vertices) does '
            "not fit the job. Bake again from the start."
        )
    return ResumePlan(frame, state, tuple(_target(job, cloth, frame) for cloth in job.cloths))


def resume_frame(folder: Path | str) -> int | None:
    """Return the last frame that Resume would keep, or None if there is nothing to resume.

    None too where nothing is left to simulate and the result is in its place. Settles what a
    kill left half-done, so no worker may be writing.
    """
    try:
        job = read_job(folder)
        plan = plan_resume(folder, job)
        if plan is None:
            return None
        pairs = zip(job.cloths, plan.files, strict=True)
        unfinished = any(_unfinished(cloth, files) for cloth, files in pairs)
    except CacheError:
        return None
    return plan.frame if unfinished else None


def is_interrupted(folder: Path | str) -> bool:
    """Whether a bake of another file stopped there. Touches nothing: it may be running."""
    try:
        job, state = read_job(folder), read_state(folder)
    except CacheError:
        return False
    return state is not None and all(_work(cloth).sidecar.exists() for cloth in job.cloths)


def _work(cloth: JobCloth) -> BakeFiles:
    """What the bake of a cloth wrote last."""
    final = BakeFiles(Path(cloth.pc2))
    return final.part if final.part.pc2.exists() else final


def carry(folder: Path | str, targets: Sequence[Path]) -> Path:
    """Copy a bake that stopped early, so that it can go on in the name of another file.

    Args:
        folder: of the job, which stays as it is.
        targets: the finished point cache of each cloth there.

    Returns:
        The new job folder.

    Raises:
        CacheError: something is missing or the disk refuses.
    """
    job, found = read_job(folder), read_state(folder)
    if found is None:
        raise JobError(f'"{folder}" has no checkpoint to go on from. Bake again.')
    frame, state = found
    block = read_frame(folder, frame, cloth_count=len(job.cloths), pin_count=job.pin_count)
    for cloth, target in zip(job.cloths, targets, strict=True):
        old, new = _work(cloth), BakeFiles(target).part
        make_folder(target.parent)
        new.delete()
        for source, copy in ((old.pc2, new.pc2), (old.sidecar, new.sidecar), (old.log, new.log)):
            try:
                if source.exists() or source != old.log:
                    shutil.copyfile(source, copy)
            except OSError as error:
                raise CacheError(explain(error, "copied", source)) from error
        settle(target)
    pairs = zip(job.cloths, targets, strict=True)
    cloths = tuple(replace(cloth, pc2=str(target)) for cloth, target in pairs)
    place = job_folder(targets[0].parent, job.cloths[0].uid)
    write_job(place, replace(job, cloths=cloths))
    if block is not None:
        write_frame(place, block)
    write_state(place, frame, state)
    return place


def _unfinished(cloth: JobCloth, files: BakeFiles) -> bool:
    return files.pc2 != Path(cloth.pc2) or not sidecar.read(files.sidecar).complete


def _target(job: Job, cloth: JobCloth, frame: int) -> BakeFiles:
    final = BakeFiles(Path(cloth.pc2))
    files = final.part if final.part.pc2.exists() else final
    header = pc2.read_header(files.pc2, cloth.part.mesh.vertex_count)
    known = sidecar.read(files.sidecar)
    belongs = (
        known.uid == cloth.uid
        and known.topology_hash == cloth.topology_hash
        and sidecar.what_of(known.settings_hash) == sidecar.what_of(job.settings_hash)
        and known.frame_first == job.frame_start == round(header.start)
        # A cloth may be one frame ahead of the checkpoint, the last one too.
        and (not known.complete or frame >= job.frame_end - 1)
        and header.count > frame - job.frame_start
    )
    if not belongs:
        raise JobError(
            f'"{files.pc2}" does not belong to the bake of "{cloth.part.name}" that was stopped '
            f"at frame {frame}. Bake again from the start."
        )
    return files
