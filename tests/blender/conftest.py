# SPDX-License-Identifier: GPL-3.0-or-later
"""Real Blender for the tests: the package registered, a fresh file for each test."""

from collections.abc import Iterator
from typing import Any

import pytest

bpy = pytest.importorskip("bpy")

from tests.blender import support  # noqa: E402 (needs bpy)


@pytest.fixture(scope="session", autouse=True)
def extension() -> Iterator[None]:
    """Register a checkout; an installed extension is enabled in the profile of the run."""
    support.new_file()
    if support.INSTALLED:
        import addon_utils

        addon_utils.enable(support.PACKAGE, default_set=True)
        yield
        return
    support.ours().register()
    yield
    support.ours().unregister()


@pytest.fixture(autouse=True)
def fresh_file(extension: None) -> Iterator[None]:
    """An empty, unsaved file; no bake outlives its test."""
    support.new_file()
    yield
    support.ours("blender.bake").shutdown()


@pytest.fixture(autouse=True)
def user_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, kernel_cache: str
) -> Any:
    """Keep the user's own folder out of it; compiled kernels outlive the test."""
    folder = tmp_path_factory.mktemp("user")
    monkeypatch.setattr(support.ours("blender.cache_paths"), "user_folder", lambda: folder)
    preferences = support.ours("blender.preferences")
    real = preferences.user_folder

    def user_folder(name: str, *, create: bool = True) -> Any:
        return kernel_cache if name == "kernels" else real(name, create=create)

    monkeypatch.setattr(preferences, "user_folder", user_folder)
    return folder


@pytest.fixture
def fake_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bake with a stand-in for the solver."""
    support.fake_command(monkeypatch)
