# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in the zip, and what is not."""

import hashlib
import re
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ADDON = ROOT / "taichi_cloth_addon"
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def names(zip_file: Path) -> list[str]:
    with zipfile.ZipFile(zip_file) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def manifest(zip_file: Path) -> dict[str, Any]:
    with zipfile.ZipFile(zip_file) as archive:
        return tomllib.loads(archive.read("blender_manifest.toml").decode("utf-8"))


def wheels(names: list[str]) -> list[str]:
    return [name.removeprefix("wheels/") for name in names if name.endswith(".whl")]


def test_only_what_is_needed_at_run_time(names: list[str]) -> None:
    projects = {wheel.split("-", maxsplit=1)[0] for wheel in wheels(names)}
    assert projects == {"taichi", "colorama", "dill"}


def test_both_pythons(names: list[str]) -> None:
    abis = {wheel.split("-")[2] for wheel in wheels(names) if wheel.startswith("taichi-")}
    assert abis == {"cp311", "cp313"}


def test_one_platform_alone(names: list[str], manifest: dict[str, Any], zip_file: Path) -> None:
    assert len(manifest["platforms"]) == 1
    assert manifest["platforms"][0].replace("-", "_") in zip_file.name
    tags = {wheel.removesuffix(".whl").split("-")[-1] for wheel in wheels(names)}
    assert len(tags - {"any"}) == 1
    expected = {"linux-x64": "manylinux", "windows-x64": "win_amd64", "macos-arm64": "macosx"}
    assert (tags - {"any"}).pop().startswith(expected[manifest["platforms"][0]])


def test_wheels_are_the_locked_ones(zip_file: Path, names: list[str]) -> None:
    lock = (ROOT / "requirements" / "wheels.lock").read_text("utf-8")
    locked = {
        name: digest
        for digest, name in (
            line.split() for line in lock.splitlines() if line and not line.startswith("#")
        )
    }
    with zipfile.ZipFile(zip_file) as archive:
        for name in wheels(names):
            digest = hashlib.sha256(archive.read(f"wheels/{name}")).hexdigest()
            assert digest == locked[name]


def test_manifest_lists_its_wheels(names: list[str], manifest: dict[str, Any]) -> None:
    assert manifest["wheels"] == [f"./wheels/{name}" for name in sorted(wheels(names))]


def test_manifest(manifest: dict[str, Any]) -> None:
    assert manifest["id"] == "taichi_cloth"
    assert manifest["name"] == "Taichi Cloth"
    assert manifest["license"] == ["SPDX:GPL-3.0-or-later"]
    assert manifest["blender_version_min"] == "4.2.0"
    assert list(manifest["permissions"]) == ["files"]
    for text in (manifest["tagline"], manifest["permissions"]["files"]):
        assert len(text) <= 64
        assert text[-1].isalnum()


def test_sources_are_flat_and_complete(names: list[str]) -> None:
    sources = {path.relative_to(ADDON).as_posix() for path in ADDON.rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == sources


def test_nothing_else(names: list[str]) -> None:
    known = re.compile(
        r"LICENSE|README\.md|blender_manifest\.toml|wheels/.+\.whl|.+\.(py|json|png)"
    )
    assert [name for name in names if not known.fullmatch(name)] == []
    assert "LICENSE" in names
    assert len(names) == len(set(names))


def test_size(zip_file: Path) -> None:
    assert 90 * MEGABYTE < zip_file.stat().st_size < 200 * MEGABYTE


def test_no_date_of_the_day(zip_file: Path) -> None:
    """The same sources give the same bytes."""
    with zipfile.ZipFile(zip_file) as archive:
        assert len({entry.date_time for entry in archive.infolist()}) == 1
