# SPDX-License-Identifier: GPL-3.0-or-later
"""The job folder: exact round trip, whole or not at all, and clear about what is wrong."""

import json
import shutil
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from taichi_cloth_addon.cache.job import (
    VERSION,
    FrameBlock,
    Job,
    JobError,
    clear_state,
    frame_path,
    job_folder,
    last_frame,
    read_frame,
    read_job,
    read_state,
    remove_frames,
    write_frame,
    write_job,
    write_state,
)
from taichi_cloth_addon.cache.storage import CacheError
from taichi_cloth_addon.engine.inputs import (
    FieldFalloff,
    FieldShape,
    FrameInputs,
    Sample,
    WindField,
)
from taichi_cloth_addon.engine.material import Fabric
from taichi_cloth_addon.engine.model import ClothState
from taichi_cloth_addon.engine.solver import Device, Integrator, SolverOptions
from tests.cache.jobs import make_block, make_job, make_part, with_mesh, write_all


def assert_same(a: object, b: object) -> None:
    """Equal to the last bit, arrays and their types included."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert isinstance(b, np.ndarray)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes()
    elif is_dataclass(a):
        for field in fields(a):
            assert_same(getattr(a, field.name), getattr(b, field.name))
    elif isinstance(a, tuple):
        assert isinstance(b, tuple)
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            assert_same(left, right)
    else:
        assert a == b


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "тест 布"
    folder.mkdir()
    return folder


def rich_block(job: Job, frame: int) -> FrameBlock:
    random = np.random.default_rng(3)
    wind = WindField(
        origin=random.normal(size=3),
        axis=np.array([0.6, 0.0, 0.8]),
        speed=-1.0 / 3.0,
        shape=FieldShape.POINT,
        falloff=FieldFalloff.CONE,
        noise=0.1,
        seed=77,
        power=2.5,
        minimum_distance=0.25,
        radial_power=1.5,
        radial_minimum=0.125,
        radial_maximum=12.0,
        unit=0.01,
        one_sided=-1,
    )
    samples = tuple(
        Sample(
            random.normal(size=3),
            random.normal(size=(len(job.cloths), 3)),
            random.normal(size=(job.pin_count, 3)),
            winds,
        )
        for winds in ((wind, replace(wind, maximum_distance=4.0)), (), (wind,))
    )
    inputs = FrameInputs(samples, tuple(Fabric() for _ in job.cloths), random.random(2))
    return FrameBlock(frame, inputs, random.normal(size=(2, 4, 4)))


def test_round_trip_of_a_job(cache: Path) -> None:
    job = replace(
        make_job(cache, make_part(3), make_part(4, "布", (1, 5, 6)), start=-20, fps=30 / 1.001),
        options=SolverOptions(Integrator.SOR, 7),
        device=Device.VULKAN,
        kernel_cache="/кэш/k",
    )
    folder = job_folder(cache, "a0")
    write_job(folder, job)
    assert_same(read_job(folder), job)


def test_job_json_is_for_people(cache: Path) -> None:
    folder = write_all(make_job(cache), cache)
    text = (folder / "job.json").read_text("utf-8")
    assert '"name": "Ткань"' in text
    content = json.loads(text)
    assert content["version"] == VERSION
    assert content["options"]["integrator"] == "AUTO"
    assert content["cloths"][0]["fabric"]["tension_stiffness"] == 1234.5


def test_a_job_can_be_moved(cache: Path, tmp_path: Path) -> None:
    write_all(make_job(cache), cache)
    elsewhere = tmp_path / "moved"
    shutil.copytree(cache, elsewhere)
    assert read_job(job_folder(elsewhere, "a0")).cloths[0].pc2 == str(elsewhere / "a0.pc2")


def test_a_relative_folder(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cache)
    job = make_job(Path("sub"))
    Path("sub").mkdir()
    write_job("sub/a0.job", replace(job, cloths=(replace(job.cloths[0], pc2="a0.pc2"),)))
    assert read_job("sub/a0.job").cloths[0].pc2 == str(cache / "sub" / "a0.pc2")


def test_round_trip_of_a_frame(cache: Path) -> None:
    job = make_job(cache, make_part(), make_part())
    folder = job_folder(cache, "a0")
    write_job(folder, job)
    block = rich_block(job, -7)
    write_frame(folder, block)
    read = read_frame(folder, -7, cloth_count=2, pin_count=job.pin_count)
    assert_same(read, block)


def test_a_frame_that_is_not_there_yet(cache: Path) -> None:
    job = make_job(cache)
    folder = write_all(job, cache, last=3)
    assert read_frame(folder, 4) is None
    assert last_frame(folder, 1) == 3
    assert last_frame(folder, 4) is None
    remove_frames(folder, after=2)
    assert last_frame(folder, 1) == 2


def test_frames_have_names_of_their_own(tmp_path: Path) -> None:
    names = {frame_path(tmp_path, frame).name for frame in range(-1100, 1100)}
    assert len(names) == 2200
    assert frame_path(tmp_path, -20).name == "frame_-000020.npz"
    assert frame_path(tmp_path, 1001).name == "frame_+001001.npz"


def test_no_pins_no_wind(cache: Path) -> None:
    job = make_job(cache, make_part(pins=()))
    folder = write_all(job, cache)
    assert_same(read_job(folder), job)
    assert_same(read_frame(folder, 1, cloth_count=1, pin_count=0), make_block(job, 1))


def test_a_new_job_forgets_the_old_one(cache: Path) -> None:
    job = make_job(cache, make_part(), make_part())
    folder = write_all(job, cache)
    write_state(folder, 2, ClothState(np.zeros((18, 3), "f4"), np.zeros((18, 3), "f4")))
    write_job(folder, make_job(cache))
    assert read_state(folder) is None
    assert read_frame(folder, 1) is None
    assert not (folder / "mesh_1.npz").exists()


def test_the_state_is_exact(cache: Path) -> None:
    random = np.random.default_rng(5)
    state = ClothState(
        random.normal(size=(9, 3)).astype("f4"), random.normal(size=(9, 3)).astype("f4"), 1 / 3
    )
    assert read_state(cache) is None
    write_state(cache, -5, state)
    found = read_state(cache)
    assert found is not None
    assert found[0] == -5
    assert_same(found[1], state)
    clear_state(cache)
    assert read_state(cache) is None


def test_a_damaged_state(cache: Path) -> None:
    state = ClothState(np.full((9, 3), np.nan, "f4"), np.zeros((9, 3), "f4"))
    write_state(cache, 1, state)
    with pytest.raises(JobError, match=r"not finite.*Bake again from the start"):
        read_state(cache)
    path = cache / "state.npz"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(JobError, match=r"damaged.*Bake again from the start"):
        read_state(cache)


# What must be refused ----------------------------------------------------------------------


def test_no_job(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="is no job folder"):
        read_job(tmp_path / "nope")


Edit = Callable[[dict[str, object]], object]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: c.update(version=1), "version 1; this program reads version 2"),
        (lambda c: c.pop("version"), "version None"),
        (lambda c: c.pop("fps"), "no entry 'fps'"),
        (lambda c: c.update(fps=0), "0.0 frames per second"),
        (lambda c: c.update(fps=float("nan")), "frames per second"),
        (lambda c: c.update(frame_end=-3), "before its start"),
        (lambda c: c.update(frame_end=2.5), "2.5 is no whole number"),
        (lambda c: c.update(device="ABACUS"), "ABACUS"),
        (lambda c: c["options"].update(integrator="GUESS"), "GUESS"),
        (lambda c: c["options"].update(substeps=-1), "-1 substeps"),
        (lambda c: c.update(cloths=[]), "no cloth"),
        (lambda c: c["cloths"].append(c["cloths"][0]), "equal identities"),
        (lambda c: c["cloths"][0].update(vertex_count=10), r"shape \(9, 3\)"),
        (lambda c: c["cloths"][0].update(pc2="a0.job"), "must end in .pc2"),
        (lambda c: c["cloths"][0]["fabric"].update(density=-1), "Density is -1"),
        (lambda c: c["cloths"][0]["fabric"].pop("density"), "no entry 'density'"),
        (lambda c: c["cloths"][0].update(mesh="mesh_7.npz"), 'mesh_7.npz" is missing'),
    ],
)
def test_a_wrong_job_json(cache: Path, edit: Edit, message: str) -> None:
    folder = write_all(make_job(cache), cache)
    path = folder / "job.json"
    content = json.loads(path.read_text("utf-8"))
    edit(content)
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(CacheError, match=message) as error:
        read_job(folder)
    assert str(folder) in str(error.value)


def test_a_cut_job_json(cache: Path) -> None:
    folder = write_all(make_job(cache), cache)
    path = folder / "job.json"
    path.write_text(path.read_text("utf-8")[:200], "utf-8")
    with pytest.raises(CacheError, match=r'job.json" is damaged'):
        read_job(folder)


def test_a_cut_mesh(cache: Path) -> None:
    folder = write_all(make_job(cache), cache)
    path = folder / "mesh_0.npz"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(JobError, match=r'mesh_0.npz" is damaged'):
        read_job(folder)


def test_a_mesh_of_objects_is_not_unpickled(cache: Path) -> None:
    folder = write_all(make_job(cache), cache)
    np.savez(folder / "mesh_0.npz", rest=np.array([{"a": 1}], object))
    with pytest.raises(JobError, match=r'mesh_0.npz" is damaged'):
        read_job(folder)


NAN = np.where(np.arange(27).reshape(9, 3) == 13, np.nan, 0.0)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (replace(make_part(), rest=np.zeros((8, 3))), r"rest shape of shape \(8, 3\)"),
        (replace(make_part(), positions=NAN), "not finite .vertex 4"),
        (replace(make_part(), pin_weights=np.array([0.5, 1.5])), "between 0 and 1"),
        (replace(make_part(), pin_weights=np.array([0.5, np.nan])), "between 0 and 1"),
        (replace(make_part(), pin_weights=np.array([0.5])), "1 pin weights"),
        (make_part(pins=(0, 9)), "pins name vertices that do not exist"),
        (make_part(pins=(-1, 2)), "pins name vertices that do not exist"),
        (make_part(pins=(3, 3)), "pinned twice"),
        (replace(make_part(), pin_stiffness=float("inf")), "pin stiffness"),
        (with_mesh(make_part(), offsets=np.array([0, 3], np.int32)), "polygons do not fit"),
        (with_mesh(make_part(), offsets=np.array([0, 9, 5, 16], np.int32)), "polygons"),
        (with_mesh(make_part(), corners=np.full(16, 9, np.int32)), "corners name vertices"),
        (with_mesh(make_part(), loose_edges=np.array([[0, 99]], np.int32)), "loose edges name"),
        (with_mesh(make_part(), vertex_count=0), "no vertices"),
    ],
)
def test_a_part_that_contradicts_itself(cache: Path, part: object, message: str) -> None:
    job = make_job(cache)
    job = replace(job, cloths=(replace(job.cloths[0], part=part),))
    with pytest.raises(JobError, match=f'"Ткань".*{message}'):
        write_job(job_folder(cache, "a0"), job)
    assert not job_folder(cache, "a0").exists()


def test_a_frame_that_contradicts_itself(cache: Path) -> None:
    job = make_job(cache)
    folder = write_all(job, cache, last=0)
    block = make_block(job, 5)
    sample = block.inputs.samples[0]
    for change, message in (
        ({"gravity": np.array([0.0, np.nan, 0.0])}, "gravity that are not finite"),
        ({"wind": np.zeros((2, 3))}, r"wind of shape \(2, 3\)"),
        ({"pin_targets": np.full((2, 3), np.inf)}, "pin targets that are not finite"),
    ):
        inputs = replace(block.inputs, samples=(replace(sample, **change),))
        with pytest.raises(JobError, match=f"Frame 5 .*{message}"):
            write_frame(folder, replace(block, inputs=inputs))
    assert read_frame(folder, 5) is None


def test_a_frame_that_does_not_fit_the_job(cache: Path) -> None:
    job = make_job(cache)
    folder = write_all(job, cache)
    with pytest.raises(JobError, match=r"pin_targets.*expected \(1, 3, 3\)"):
        read_frame(folder, 2, cloth_count=1, pin_count=3)
    with pytest.raises(JobError, match="'wind'"):
        read_frame(folder, 2, cloth_count=2, pin_count=2)
    shutil.copy(frame_path(folder, 2), frame_path(folder, 3))
    with pytest.raises(JobError, match="belongs to frame 2"):
        read_frame(folder, 3)
    frame_path(folder, 3).write_bytes(b"")
    with pytest.raises(JobError, match=r'frame_\+000003.npz" is damaged'):
        read_frame(folder, 3)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match="choose another cache folder"):
        write_job(tmp_path / "file" / "a0.job", make_job(tmp_path))
