# SPDX-License-Identifier: GPL-3.0-or-later
"""Registering and unregistering."""

import subprocess
import sys
from pathlib import Path

import bpy
import pytest

from tests.blender import support


@pytest.mark.skipif(support.INSTALLED, reason="the package test does it with the zip")
def test_unregister_leaves_nothing_and_register_works_again() -> None:
    handlers = support.ours("blender.handlers")
    package = support.ours()
    counts = {name: len(getattr(bpy.app.handlers, name, ())) for name, _ in handlers._HANDLERS}
    package.unregister()
    try:
        assert not hasattr(bpy.types.Object, "taichi_cloth")
        assert not hasattr(bpy.types.Object, "taichi_cloth_status")
        assert not hasattr(bpy.types.Scene, "taichi_cloth")
        assert not hasattr(bpy.types, "TAICHI_CLOTH_OT_bake")
        assert not hasattr(bpy.types, "TAICHI_CLOTH_PT_main")
        for name, function in handlers._HANDLERS:
            assert function not in getattr(bpy.app.handlers, name, ())
    finally:
        package.register()
    after = {name: len(getattr(bpy.app.handlers, name, ())) for name, _ in handlers._HANDLERS}
    assert after == counts
    assert support.cloth().taichi_cloth.enabled


@pytest.mark.skipif(support.INSTALLED, reason="the package test does it with the zip")
def test_disabling_while_baking_ends_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    support.fake_command(monkeypatch, 0.05)
    ob = support.cloth(frames=(1, 100))
    session = support.ours("blender.bake").BakeSession(bpy.context.scene, [ob])
    session.start()
    support.pump(session, lambda: session.progress.done >= 2)
    process = session._worker._process
    support.ours().unregister()
    try:
        assert process.poll() is not None
        assert support.ours("blender.bake").current() is None
    finally:
        support.ours().register()


def test_operators_have_names_and_tooltips() -> None:
    names = {
        "add", "remove", "bake", "resume", "delete_bake", "to_shape_keys", "check_mesh", "cancel",
        "subdivide", "pin_selected", "apply_preset",
    }  # fmt: skip
    assert set(dir(bpy.ops.taichi_cloth)) == names
    for name in names:
        rna = getattr(bpy.ops.taichi_cloth, name).get_rna_type()
        assert rna.name
        assert rna.description
        assert not rna.description.endswith(".")
    assert bpy.ops.taichi_cloth.bake.get_rna_type().name == "Bake Cloth"


@pytest.mark.skipif(support.INSTALLED, reason="of a checkout")
def test_package_imports_without_blender() -> None:
    root = Path(next(iter(support.ours().__path__))).parent
    code = (
        "import sys\n"
        "sys.modules['bpy'] = None\n"
        f"sys.path.insert(0, {str(root)!r})\n"
        "import taichi_cloth_addon, taichi_cloth_addon.worker\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
