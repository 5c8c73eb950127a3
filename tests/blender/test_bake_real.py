# SPDX-License-Identifier: GPL-3.0-or-later
"""Bakes with the real solver, through the operators."""

import sys
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from tests.blender import support

pytestmark = pytest.mark.slow


def positions_in(ob: Any) -> Any:
    """(F, V, 3) world positions in the point cache that the object plays."""
    path = support.ours("blender.results").playing_path(ob)
    frames = np.asarray(support.ours("cache.pc2").read_frames(path))
    matrix = np.array(ob.matrix_world)
    return frames @ matrix[:3, :3].T + matrix[:3, 3]


def test_bake_shows_what_was_simulated(tmp_path: Path) -> None:
    support.save(tmp_path / "real.blend")
    ob = support.cloth(8, frames=(1001, 1006))
    ob.rotation_euler = (0.3, -0.2, 0.5)
    ob.scale = (1.0, -2.0, 1.0)
    ob.location = (3.0, 0.0, 1.0)
    bpy.context.view_layer.update()
    assert bpy.ops.taichi_cloth.bake() == {"FINISHED"}
    status = ob.taichi_cloth_status
    assert (status.state, status.frame_first, status.frame_last) == ("BAKED", 1001, 1006)
    baked = positions_in(ob)
    for index, frame in enumerate(range(1001, 1007)):
        np.testing.assert_allclose(support.evaluated(ob, frame), baked[index], atol=2e-6)
    middle = (baked[2] + baked[3]) / 2
    np.testing.assert_allclose(support.evaluated(ob, 1003, 0.5), middle, atol=2e-6)
    assert np.isfinite(baked).all()
    assert baked[-1, :, 2].min() < baked[0, :, 2].min() - 0.01
    assert "taichi" not in sys.modules
    view = support.ours("blender.status").view(ob)
    assert view.device
    assert view.seconds_per_frame > 0.0


def test_resume_continues_to_the_last_bit() -> None:
    whole = support.cloth(8, frames=(1, 12), name="Whole")
    bpy.ops.taichi_cloth.bake()
    ob = support.cloth(8, frames=(1, 12))
    session = support.ours("blender.bake").BakeSession(bpy.context.scene, [ob])
    session.start()
    support.pump(session, lambda: session.progress.done >= 3, 60.0)
    session.cancel()
    support.finish(session)
    if session.outcome.value == "DONE":
        pytest.skip("the solver was quicker than the cancel")
    assert ob.taichi_cloth_status.state == "PARTIAL"
    bpy.ops.taichi_cloth.resume()
    assert ob.taichi_cloth_status.state == "BAKED"
    np.testing.assert_array_equal(positions_in(ob), positions_in(whole))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ten_bakes_leave_memory_flat() -> None:
    def resident() -> float:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * 4096 / 2**20

    support.cloth(16, frames=(1, 2))
    sizes = []
    for _ in range(10):
        bpy.ops.taichi_cloth.bake()
        sizes.append(resident())
    assert sizes[-1] - sizes[2] < 3.0, sizes
    assert not [m for m in bpy.data.meshes if not m.users]
