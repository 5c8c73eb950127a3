# SPDX-License-Identifier: GPL-3.0-or-later
"""Device code of copies between numpy arrays and device arrays of vectors."""

from typing import TYPE_CHECKING, Any, TypeAlias

from . import runtime

ti = runtime.import_taichi()
if TYPE_CHECKING:
    Vec3s: TypeAlias = Any
    Table: TypeAlias = Any
else:
    Vec3s = ti.types.ndarray(dtype=ti.math.vec3, ndim=1)
    Table = ti.types.ndarray(dtype=ti.f32, ndim=2)


@ti.kernel
def copy_to(values: Table, goal: Vec3s):
    """Rows of ``values`` to the vectors of ``goal``."""
    for i in range(goal.shape[0]):
        goal[i] = ti.math.vec3(values[i, 0], values[i, 1], values[i, 2])


@ti.kernel
def copy_from(source: Vec3s, values: Table):
    """Vectors of ``source`` to the rows of ``values``."""
    for i in range(source.shape[0]):
        for k in ti.static(range(3)):
            values[i, k] = source[i][k]
