# SPDX-License-Identifier: GPL-3.0-or-later
"""PC2 files: exact, append-then-count, and clear about what is wrong."""

import struct
from pathlib import Path

import numpy as np
import pytest

from taichi_cloth_addon.cache.pc2 import (
    HEADER_SIZE,
    Pc2Error,
    Pc2Writer,
    read_frames,
    read_header,
)

FRAMES = np.random.default_rng(1).normal(size=(5, 4, 3)).astype(np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "тест 布"
    folder.mkdir()
    return folder / "ткань.pc2"


def write(path: Path, frames: np.ndarray = FRAMES, start: int = 1) -> None:
    with Pc2Writer(path, frames.shape[1], start) as writer:
        for frame in frames:
            writer.append(frame)


def test_the_bytes_are_those_of_the_format(path: Path) -> None:
    write(path, start=-20)
    head = struct.pack("<12siiffi", b"POINTCACHE2\0", 1, 4, -20.0, 1.0, 5)
    assert path.read_bytes() == head + FRAMES.astype("<f4").tobytes()


def test_round_trip(path: Path) -> None:
    write(path, start=1001)
    header = read_header(path, 4)
    assert (header.vertex_count, header.start, header.count) == (4, 1001.0, 5)
    np.testing.assert_array_equal(read_frames(path), FRAMES)
    np.testing.assert_array_equal(read_frames(path, 2, 2), FRAMES[2:4])
    assert read_frames(path, 5, 0).shape == (0, 4, 3)


def test_each_frame_is_readable_at_once(path: Path) -> None:
    with Pc2Writer(path, 4, 1) as writer:
        assert read_header(path).count == 0
        for i, frame in enumerate(FRAMES):
            assert writer.frame == i + 1
            writer.append(frame)
            np.testing.assert_array_equal(read_frames(path), FRAMES[: i + 1])


def test_the_count_is_raised_after_the_frame_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Pc2Writer(path, 4, 1) as writer:
        writer.append(FRAMES[0])
        offsets: list[int] = []
        original = Pc2Writer._write

        def spy(self: Pc2Writer, offset: int, data: object) -> None:
            assert read_header(path).stated_count == 1
            offsets.append(offset)
            original(self, offset, data)  # type: ignore[arg-type]

        monkeypatch.setattr(Pc2Writer, "_write", spy)
        writer.append(FRAMES[1])
    assert offsets == [HEADER_SIZE + 48, HEADER_SIZE - 4]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_numbers_that_are_not_finite_are_refused(path: Path, bad: float) -> None:
    with Pc2Writer(path, 4, 10) as writer:
        writer.append(FRAMES[0])
        broken = FRAMES[1].astype(np.float64)
        broken[2, 1] = bad
        with pytest.raises(Pc2Error, match=r"Frame 11: 1 of 4 .*vertex 2"):
            writer.append(broken)
        writer.append(FRAMES[1])
    np.testing.assert_array_equal(read_frames(path), FRAMES[:2])


def test_a_wrong_shape_is_refused(path: Path) -> None:
    with Pc2Writer(path, 4, 1) as writer, pytest.raises(Pc2Error, match=r"\(3, 3\)"):
        writer.append(np.zeros((3, 3)))


@pytest.mark.parametrize("cut", [1, 47, 48, 49])
def test_a_cut_file_has_the_frames_that_are_whole(path: Path, cut: int) -> None:
    write(path)
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    left = 4 if cut <= 48 else 3
    header = read_header(path)
    assert (header.stated_count, header.count) == (5, left)
    np.testing.assert_array_equal(read_frames(path), FRAMES[:left])
    with Pc2Writer.reopen(path) as writer:
        for frame in FRAMES[left:]:
            writer.append(frame)
    assert path.read_bytes() == data


def test_a_frame_that_was_not_counted_is_ignored_and_cut_off(path: Path) -> None:
    write(path, FRAMES[:3])
    data = path.read_bytes()
    path.write_bytes(data + b"half a frame")
    assert read_header(path).count == 3
    Pc2Writer.reopen(path).close()
    assert path.read_bytes() == data


@pytest.mark.parametrize("keep", [0, 2, 5])
def test_reopen_equals_the_uninterrupted_file(path: Path, keep: int) -> None:
    write(path)
    data = path.read_bytes()
    with Pc2Writer.reopen(path, keep, vertex_count=4) as writer:
        assert writer.frame == keep + 1
        for frame in FRAMES[keep:]:
            writer.append(frame)
    assert path.read_bytes() == data


def test_reopen_refuses_more_frames_than_there_are(path: Path) -> None:
    write(path)
    with pytest.raises(Pc2Error, match="has 5 frames, fewer than the 6"):
        Pc2Writer.reopen(path, 6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "ends inside its header"),
        (b"POINTCACHE2\0\1\0", "ends inside its header"),
        (b"no point cache at all, but long enough", "is no PC2 point cache"),
        (struct.pack("<12siiffi", b"POINTCACHE2\0", 2, 4, 0, 1, 0), "version 2"),
        (struct.pack("<12siiffi", b"POINTCACHE2\0", 1, 0, 0, 1, 0), "damaged"),
        (struct.pack("<12siiffi", b"POINTCACHE2\0", 1, 4, 0, 1, -1), "damaged"),
    ],
)
def test_what_is_no_point_cache_is_named(path: Path, content: bytes, message: str) -> None:
    path.write_bytes(content)
    with pytest.raises(Pc2Error, match=message) as error:
        read_header(path)
    assert str(path) in str(error.value)
    assert "ake again" in str(error.value)


def test_another_vertex_count_is_refused(path: Path) -> None:
    write(path)
    with pytest.raises(Pc2Error, match="has 4 vertices, but the mesh has 5"):
        read_header(path, 5)
    with pytest.raises(Pc2Error, match="has 4 vertices, but the mesh has 5"):
        Pc2Writer.reopen(path, vertex_count=5)


def test_missing_file_and_missing_frames(path: Path) -> None:
    with pytest.raises(Pc2Error, match=r"is missing. Bake again"):
        read_header(path)
    write(path)
    with pytest.raises(Pc2Error, match="has 5 frames"):
        read_frames(path, 4, 2)


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(Pc2Error, match="folder is missing: choose another cache folder"):
        Pc2Writer(tmp_path / "nope" / "a.pc2", 4, 1)


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Pc2Error, match="choose another cache folder"):
        Pc2Writer(tmp_path / "file" / "a.pc2", 4, 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk() -> None:
    with pytest.raises(Pc2Error, match="disk is full: free some space"):
        Pc2Writer("/dev/full", 4, 1)
