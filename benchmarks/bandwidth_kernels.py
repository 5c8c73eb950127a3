# SPDX-License-Identifier: GPL-3.0-or-later
"""Device code of the triad."""

from taichi_cloth_addon.engine import runtime

ti = runtime.import_taichi()
Floats = ti.types.ndarray(dtype=ti.f32, ndim=1)


@ti.kernel
def triad(a: Floats, b: Floats, c: Floats, s: ti.f32):
    """Set a to b + s c."""
    for i in range(a.shape[0]):
        a[i] = b[i] + s * c[i]
