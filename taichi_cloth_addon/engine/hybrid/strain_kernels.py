# SPDX-License-Identifier: GPL-3.0-or-later
"""Device code of the strain limit."""

from .. import launch, runtime
from .rows_kernels import Floats, Ints, Vec2s, Vec3s

ti = runtime.import_taichi()

# How much below the limit a correction aims.
LIMIT_MARGIN = 1e-3


@launch.kernel
def shorten(
    displacement: Vec3s,
    x: Vec3s,
    inverse_mass: Floats,
    offsets: Ints,
    middles: Ints,
    neighbours: Ints,
    limits: Vec2s,
    result: Vec3s,
    excess: Floats,
):
    """Move vertices so that springs beyond their limit shorten; the excess each one had.

    A Jacobi sweep of position corrections, each vertex's averaged.
    """
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(x.shape[0]):
        ui = displacement[i]
        w = inverse_mass[i]
        change = ti.math.vec3(0.0)
        count = 0.0
        worst = 0.0
        for entry in range(offsets[i], middles[i]):
            longest = limits[entry][1]
            if longest > 0.0:
                j = neighbours[entry]
                dx = x[j] - x[i] + (displacement[j] - ui)
                length = dx.norm()
                both = w + inverse_mass[j]
                if length > longest and both > 0.0:
                    worst = ti.max(worst, length / longest - 1.0)
                    wanted = (1.0 - LIMIT_MARGIN) * longest
                    change += w / both * (1.0 - wanted / length) * dx
                    count += 1.0
        result[i] = ui + change / ti.max(count, 1.0)
        excess[i] = worst
