# SPDX-License-Identifier: GPL-3.0-or-later
"""Device code of plain conjugate gradients, which the product does not ship."""

from taichi_cloth_addon.engine import launch, runtime
from taichi_cloth_addon.engine.hybrid.implicit_kernels import hessian_times
from taichi_cloth_addon.engine.hybrid.linear_kernels import CHUNK, sum_partial
from taichi_cloth_addon.engine.hybrid.rows_kernels import (
    Floats,
    Ints,
    Real,
    Vec3s,
    Vec4s,
    symmetric_times,
)

ti = runtime.import_taichi()

# Conjugate gradient iterations per launch.
ITERATIONS = 4

# Places in the array of scalars.
RZ = 0  # r^T D^-1 r now
RZ_START = 1  # and at the start, with which the stop is measured
ALPHA = 2
BETA = 3
DONE = 4
COUNT = 5
SCALARS = 6


@launch.kernel
def start_gradients(
    gradient: Vec3s,
    offsets: Ints,
    neighbours: Ints,
    couplings: Vec4s,
    own: Vec3s,
    inverse: Vec3s,
    step: Vec3s,
    residual: Vec3s,
    direction: Vec3s,
    partial: Floats,
    scalars: Floats,
    tolerance2: Real,
):
    """Residual of the guess in ``step`` and first direction.

    The stop is measured against the residual of a zero step, so that a good guess counts.
    """
    n = step.shape[0]
    chunks = (n + CHUNK - 1) // CHUNK
    ti.loop_config(serialize=runtime.one_thread)
    for c in range(chunks):
        total = 0.0
        for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
            total += gradient[i].dot(symmetric_times(inverse, i, gradient[i]))
        partial[c] = total
    ti.loop_config(serialize=True)
    for _ in range(1):
        scalars[RZ_START] = sum_partial(partial, chunks)
    ti.loop_config(serialize=runtime.one_thread)
    for c in range(chunks):
        total = 0.0
        for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
            r = -gradient[i] - hessian_times(i, step, offsets, neighbours, couplings, own)
            z = symmetric_times(inverse, i, r)
            residual[i] = r
            direction[i] = z
            total += r.dot(z)
        partial[c] = total
    ti.loop_config(serialize=True)
    for _ in range(1):
        rz = sum_partial(partial, chunks)
        scalars[RZ] = rz
        scalars[DONE] = ti.select(rz > tolerance2 * scalars[RZ_START], 0.0, 1.0)
        scalars[COUNT] = 0.0


@launch.kernel
def gradient_iterations(
    offsets: Ints,
    neighbours: Ints,
    couplings: Vec4s,
    own: Vec3s,
    inverse: Vec3s,
    step: Vec3s,
    residual: Vec3s,
    direction: Vec3s,
    product: Vec3s,
    partial: Floats,
    scalars: Floats,
    tolerance2: Real,
):
    """ITERATIONS of conjugate gradients with the block-Jacobi preconditioner.

    Once r^T D^-1 r has fallen by ``tolerance2`` they change nothing any more.
    """
    n = step.shape[0]
    chunks = (n + CHUNK - 1) // CHUNK
    for _iteration in ti.static(range(ITERATIONS)):
        ti.loop_config(serialize=runtime.one_thread)
        for c in range(chunks):
            total = 0.0
            if scalars[DONE] == 0.0:
                for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
                    y = hessian_times(i, direction, offsets, neighbours, couplings, own)
                    product[i] = y
                    total += y.dot(direction[i])
            partial[c] = total
        ti.loop_config(serialize=True)
        for _ in range(1):
            curvature = sum_partial(partial, chunks)
            alpha = 0.0
            if scalars[DONE] == 0.0 and curvature > 0.0:
                alpha = scalars[RZ] / curvature
                scalars[COUNT] += 1.0
            scalars[ALPHA] = alpha
        ti.loop_config(serialize=runtime.one_thread)
        for c in range(chunks):
            total = 0.0
            if scalars[DONE] == 0.0:
                alpha = scalars[ALPHA]
                for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
                    step[i] += alpha * direction[i]
                    r = residual[i] - alpha * product[i]
                    residual[i] = r
                    total += r.dot(symmetric_times(inverse, i, r))
            partial[c] = total
        ti.loop_config(serialize=True)
        for _ in range(1):
            if scalars[DONE] == 0.0:
                rz = sum_partial(partial, chunks)
                scalars[BETA] = rz / scalars[RZ]
                scalars[RZ] = rz
                if rz <= tolerance2 * scalars[RZ_START] or scalars[ALPHA] == 0.0:
                    scalars[DONE] = 1.0
        ti.loop_config(serialize=runtime.one_thread)
        for i in range(n):
            if scalars[DONE] == 0.0:
                z = symmetric_times(inverse, i, residual[i])
                direction[i] = z + scalars[BETA] * direction[i]
