# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules by which one bake takes the place of another."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from taichi_cloth_addon.cache import pc2, sidecar, storage
from taichi_cloth_addon.cache.files import BakeFiles, Outcome, remove, settle
from taichi_cloth_addon.cache.job import Job, JobError, clear_state, read_state
from taichi_cloth_addon.cache.resume import plan_resume, resume_frame
from taichi_cloth_addon.cache.storage import CacheError, LockedError
from tests.cache.jobs import make_job, make_part, write_all
from tests.cache.recurrence import bake

LAST = 8


class Bakes:
    """A cache folder with one job."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.job: Job = make_job(cache, make_part(3), end=LAST)
        self.files = BakeFiles(Path(self.job.cloths[0].pc2))
        self.folder = write_all(self.job, cache)

    def new_job(self) -> None:
        write_all(self.job, self.cache)

    def names(self) -> set[str]:
        return {path.name for path in self.cache.iterdir()}


@pytest.fixture
def bakes(tmp_path: Path) -> Bakes:
    cache = tmp_path / "кэш"
    cache.mkdir()
    return Bakes(cache)


@pytest.fixture
def reference(tmp_path: Path) -> bytes:
    cache = tmp_path / "reference"
    cache.mkdir()
    whole = Bakes(cache)
    bake(whole.folder, whole.job)
    return whole.files.pc2.read_bytes()


def test_a_finished_bake(bakes: Bakes, reference: bytes) -> None:
    bake(bakes.folder, bakes.job)
    assert bakes.names() == {"a0.pc2", "a0.json", "a0.job"}
    assert bakes.files.pc2.read_bytes() == reference
    known = sidecar.read(bakes.files.sidecar)
    assert known.complete
    assert known.frame_last == LAST
    assert [entry.frame for entry in known.statistics] == list(range(1, LAST + 1))
    assert known.warnings == ("Warning 1.", "Warning 2.", "Warning 0.")
    assert settle(bakes.files.pc2) is Outcome.COMPLETE
    assert resume_frame(bakes.folder) is None


def test_a_first_bake_that_stops_plays_and_resumes(bakes: Bakes, reference: bytes) -> None:
    bake(bakes.folder, bakes.job, stop_after=3)
    assert settle(bakes.files.pc2) is Outcome.PARTIAL
    assert bakes.names() == {"a0.pc2", "a0.json", "a0.job"}
    assert pc2.read_header(bakes.files.pc2).count == 3
    known = sidecar.read(bakes.files.sidecar)
    assert not known.complete
    assert known.frame_last == 3
    assert resume_frame(bakes.folder) == 3
    bake(bakes.folder, bakes.job, resume=True, stop_after=5)
    assert settle(bakes.files.pc2) is Outcome.PARTIAL
    assert resume_frame(bakes.folder) == 5
    bake(bakes.folder, bakes.job, resume=True)
    assert bakes.files.pc2.read_bytes() == reference
    known = sidecar.read(bakes.files.sidecar)
    assert known.complete
    assert [entry.frame for entry in known.statistics] == list(range(1, LAST + 1))
    assert bakes.names() == {"a0.pc2", "a0.json", "a0.job"}


def test_a_rebake_that_stops_keeps_the_old_result(bakes: Bakes, reference: bytes) -> None:
    bake(bakes.folder, bakes.job)
    old = bakes.files.sidecar.read_bytes()
    bakes.new_job()
    bake(bakes.folder, bakes.job, stop_after=4)
    assert settle(bakes.files.pc2) is Outcome.COMPLETE
    assert bakes.files.pc2.read_bytes() == reference
    assert bakes.files.sidecar.read_bytes() == old
    assert pc2.read_header(bakes.files.part.pc2).count == 4
    assert resume_frame(bakes.folder) == 4
    bake(bakes.folder, bakes.job, resume=True)
    assert bakes.files.pc2.read_bytes() == reference
    assert bakes.names() == {"a0.pc2", "a0.json", "a0.job"}


def test_a_bake_without_a_frame_leaves_nothing(bakes: Bakes) -> None:
    def stop(frame: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bake(bakes.folder, bakes.job, before_frame=stop)
    assert settle(bakes.files.pc2) is Outcome.NONE
    assert bakes.names() == {"a0.job"}
    assert resume_frame(bakes.folder) is None


def test_a_frame_ahead_of_the_checkpoint_is_not_doubled(bakes: Bakes, reference: bytes) -> None:
    bake(bakes.folder, bakes.job, stop_after=5)
    checkpoint = (bakes.folder / "state.npz").read_bytes()
    settle(bakes.files.pc2)
    bake(bakes.folder, bakes.job, resume=True, stop_after=6)
    settle(bakes.files.pc2)
    (bakes.folder / "state.npz").write_bytes(checkpoint)
    assert resume_frame(bakes.folder) == 5
    bake(bakes.folder, bakes.job, resume=True)
    assert bakes.files.pc2.read_bytes() == reference
    known = sidecar.read(bakes.files.sidecar)
    assert [entry.frame for entry in known.statistics] == list(range(1, LAST + 1))


def test_lost_frames_are_not_resumed(bakes: Bakes) -> None:
    bake(bakes.folder, bakes.job, stop_after=5)
    settle(bakes.files.pc2)
    data = bakes.files.pc2.read_bytes()
    bakes.files.pc2.write_bytes(data[:-200])
    with pytest.raises(JobError, match=r"does not belong to the bake of .* Bake again"):
        plan_resume(bakes.folder, bakes.job)
    assert resume_frame(bakes.folder) is None


def test_only_its_own_bake_is_resumed(bakes: Bakes) -> None:
    bake(bakes.folder, bakes.job, stop_after=5)
    settle(bakes.files.pc2)
    other = replace(sidecar.read(bakes.files.sidecar), settings_hash="other")
    sidecar.write(bakes.files.sidecar, other)
    assert resume_frame(bakes.folder) is None


def test_a_checkpoint_of_another_mesh_is_not_resumed(bakes: Bakes) -> None:
    bake(bakes.folder, bakes.job, stop_after=5)
    job = make_job(bakes.cache, make_part(4), end=LAST)
    with pytest.raises(JobError, match=r"frame 5, 9 vertices.* does not fit the job"):
        plan_resume(bakes.folder, job)


def test_no_checkpoint_no_plan(bakes: Bakes) -> None:
    bake(bakes.folder, bakes.job, stop_after=5)
    clear_state(bakes.folder)
    assert plan_resume(bakes.folder, bakes.job) is None


def test_a_kill_between_the_two_renames(bakes: Bakes, reference: bytes) -> None:
    bake(bakes.folder, bakes.job, stop_after=3)
    os.replace(bakes.files.part.pc2, bakes.files.pc2)
    assert settle(bakes.files.pc2) is Outcome.PARTIAL
    assert resume_frame(bakes.folder) == 3
    bake(bakes.folder, bakes.job, resume=True)
    assert bakes.files.pc2.read_bytes() == reference
    assert bakes.names() == {"a0.pc2", "a0.json", "a0.job"}


def test_settling_twice_changes_nothing(bakes: Bakes) -> None:
    bake(bakes.folder, bakes.job, stop_after=3)
    settle(bakes.files.pc2)
    before = {path: path.read_bytes() for path in bakes.cache.glob("a0.*") if path.is_file()}
    settle(bakes.files.pc2)
    assert before == {p: p.read_bytes() for p in bakes.cache.glob("a0.*") if p.is_file()}


def test_a_locked_result(bakes: Bakes, reference: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    bake(bakes.folder, bakes.job)
    bakes.files.pc2.write_bytes(reference[:-1])  # tell old and new apart
    real = os.replace
    attempts = []

    def locked(source: Path, target: Path) -> None:
        if Path(target) == bakes.files.pc2:
            attempts.append(target)
            raise PermissionError(13, "The process cannot access the file")
        real(source, target)

    monkeypatch.setattr(storage, "REPLACE_PAUSE", 0.001)
    monkeypatch.setattr(os, "replace", locked)
    bakes.new_job()
    with pytest.raises(LockedError, match=r'kept beside it as ".*a0.part.pc2"') as error:
        bake(bakes.folder, bakes.job)
    assert str(bakes.files.pc2) in str(error.value)
    assert len(attempts) == storage.REPLACE_ATTEMPTS
    assert bakes.files.pc2.read_bytes() == reference[:-1]
    assert bakes.files.part.pc2.read_bytes() == reference
    assert resume_frame(bakes.folder) == LAST
    monkeypatch.setattr(os, "replace", real)
    assert settle(bakes.files.pc2) is Outcome.COMPLETE
    assert bakes.files.pc2.read_bytes() == reference
    assert bakes.names() == {"a0.pc2", "a0.json", "a0.job"}


def test_a_result_locked_for_a_moment(
    bakes: Bakes, reference: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.replace
    refusals = [2]

    def busy(source: Path, target: Path) -> None:
        if Path(target) == bakes.files.pc2 and refusals[0]:
            refusals[0] -= 1
            raise PermissionError(13, "in use")
        real(source, target)

    monkeypatch.setattr(storage, "REPLACE_PAUSE", 0.001)
    monkeypatch.setattr(os, "replace", busy)
    bake(bakes.folder, bakes.job)
    assert bakes.files.pc2.read_bytes() == reference


def test_remove(bakes: Bakes) -> None:
    remove(bakes.files.pc2, bakes.cache / "nope.job")
    bake(bakes.folder, bakes.job)
    bakes.new_job()
    bake(bakes.folder, bakes.job, stop_after=3)
    (bakes.cache / "a0.json.tmp").write_text("left by a kill")
    (bakes.cache / "other.pc2").write_text("stays")
    remove(bakes.files.pc2, bakes.folder)
    assert bakes.names() == {"other.pc2"}
    remove(bakes.files.pc2, bakes.folder)


def test_remove_deletes_what_it_can(bakes: Bakes) -> None:
    bake(bakes.folder, bakes.job)
    bakes.files.sidecar.unlink()
    bakes.files.sidecar.mkdir()  # cannot be unlinked
    with pytest.raises(CacheError, match=r'a0.json" could not be deleted'):
        remove(bakes.files.pc2, bakes.folder)
    assert not bakes.folder.exists()


def test_the_folder_vanishes_while_baking(bakes: Bakes) -> None:
    def vanish(frame: int) -> None:
        if frame == 3:
            os.rename(bakes.cache, bakes.cache.with_name("away"))

    with pytest.raises(CacheError, match="folder is missing"):
        bake(bakes.folder, bakes.job, before_frame=vanish)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX permissions")
def test_a_read_only_folder() -> None:
    # Not in tmp_path: as root the test becomes another user, who may not enter that.
    with tempfile.TemporaryDirectory() as name:
        bakes = Bakes(Path(name))
        Path(name).chmod(0o555)
        user = os.geteuid()
        try:
            if user == 0:
                os.seteuid(65534)
            with pytest.raises(CacheError, match="Allow writing there"):
                bake(bakes.folder, bakes.job)
        finally:
            os.seteuid(user)
            Path(name).chmod(0o755)


def test_the_state_on_disk_is_that_of_the_last_frame(bakes: Bakes) -> None:
    bake(bakes.folder, bakes.job, stop_after=4)
    found = read_state(bakes.folder)
    assert found is not None
    np.testing.assert_array_equal(pc2.read_frames(bakes.files.part.pc2)[-1], found[1].positions)
