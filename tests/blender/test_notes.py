# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bake has to say about its scene."""

from pathlib import Path

import bpy
import numpy as np
import pytest

from tests.blender import support

pytestmark = pytest.mark.usefixtures("fake_worker")


def warnings_of(ob: object) -> tuple[str, ...]:
    return tuple(support.ours("blender.status").view(ob).warnings)


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize(("distance", "told"), [(0.0, False), (900.0, False), (10_000.0, True)])
def test_far_from_the_origin(local: bool, distance: float, told: bool) -> None:
    """The object or its vertices are far away: the rounding is the same."""
    ob = support.cloth(8, frames=(1, 3))
    if local:
        places = np.array([v.co[:] for v in ob.data.vertices], np.float32)
        places[:, 1] -= distance
        ob.data.vertices.foreach_set("co", places.ravel())
        ob.data.update()
    else:
        ob.location.y = -distance
    bpy.ops.taichi_cloth.bake()
    found = warnings_of(ob)
    assert len(found) == told
    if told:
        assert "Cloth is 10 km from the world's origin" in found[0]
        assert "0.98 mm" in found[0]
        # That is what a place there loses.
        spacing = float(np.spacing(np.float32(distance)))
        assert f"{1000.0 * spacing:.2g} mm" in found[0]


def test_a_huge_cloth_is_not_far_away() -> None:
    ob = support.cloth(8, frames=(1, 3), size=4000.0, pinned=False)
    bpy.ops.taichi_cloth.bake()
    assert warnings_of(ob) == ()


def test_wind_from_a_surface_is_told_of(tmp_path: Path) -> None:
    bpy.ops.mesh.primitive_plane_add()
    blower = bpy.context.object
    blower.name = "Fan"
    bpy.ops.object.forcefield_toggle()
    blower.field.type = "WIND"
    blower.field.shape = "SURFACE"
    ob = support.cloth(8, frames=(1, 3))
    bpy.ops.taichi_cloth.bake()
    assert warnings_of(ob) == (
        "The wind of Fan comes from its surface; it is taken to come from its origin, along its "
        "Z axis",
    )
    ob.taichi_cloth.use_force_fields = False
    bpy.ops.taichi_cloth.bake()
    assert warnings_of(ob) == ()
