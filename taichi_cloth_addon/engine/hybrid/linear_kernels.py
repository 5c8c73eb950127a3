# SPDX-License-Identifier: GPL-3.0-or-later
"""Device code of the linear solvers: conjugate gradients and coloured block SOR.

Sums run over chunks of consecutive vertices in a fixed order, so that a result does not
depend on threads.
"""

from .. import runtime
from .implicit_kernels import hessian_times
from .rows_kernels import Floats, Given, Integer, Ints, Real, Vec3s, Vec4s, symmetric_times

ti = runtime.import_taichi()

# Vertices summed up by one thread.
CHUNK = 64
# Conjugate gradient iterations per launch.
ITERATIONS = 4
# Colours per launch of a sweep; those that a mesh lacks are empty loops.
COLORS = 16

# Places in the array of scalars.
RZ = 0  # r^T D^-1 r now
RZ_START = 1  # and at the start, with which the stop is measured
ALPHA = 2
BETA = 3
DONE = 4
COUNT = 5
SCALARS = 6


@ti.func
def _sum(partial: Given, count):
    total = 0.0
    for c in range(count):
        total += partial[c]
    return total


@ti.kernel
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
    for c in range(chunks):
        total = 0.0
        for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
            total += gradient[i].dot(symmetric_times(inverse, i, gradient[i]))
        partial[c] = total
    for _ in range(1):
        scalars[RZ_START] = _sum(partial, chunks)
    for c in range(chunks):
        total = 0.0
        for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
            r = -gradient[i] - hessian_times(i, step, offsets, neighbours, couplings, own)
            z = symmetric_times(inverse, i, r)
            residual[i] = r
            direction[i] = z
            total += r.dot(z)
        partial[c] = total
    for _ in range(1):
        rz = _sum(partial, chunks)
        scalars[RZ] = rz
        scalars[DONE] = ti.select(rz > tolerance2 * scalars[RZ_START], 0.0, 1.0)
        scalars[COUNT] = 0.0


@ti.kernel
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
        for c in range(chunks):
            total = 0.0
            if scalars[DONE] == 0.0:
                for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
                    y = hessian_times(i, direction, offsets, neighbours, couplings, own)
                    product[i] = y
                    total += y.dot(direction[i])
            partial[c] = total
        for _ in range(1):
            curvature = _sum(partial, chunks)
            alpha = 0.0
            if scalars[DONE] == 0.0 and curvature > 0.0:
                alpha = scalars[RZ] / curvature
                scalars[COUNT] += 1.0
            scalars[ALPHA] = alpha
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
        for _ in range(1):
            if scalars[DONE] == 0.0:
                rz = _sum(partial, chunks)
                scalars[BETA] = rz / scalars[RZ]
                scalars[RZ] = rz
                if rz <= tolerance2 * scalars[RZ_START] or scalars[ALPHA] == 0.0:
                    scalars[DONE] = 1.0
        for i in range(n):
            if scalars[DONE] == 0.0:
                z = symmetric_times(inverse, i, residual[i])
                direction[i] = z + scalars[BETA] * direction[i]


@ti.kernel
def sweep_colors(
    gradient: Vec3s,
    offsets: Ints,
    neighbours: Ints,
    couplings: Vec4s,
    own: Vec3s,
    inverse: Vec3s,
    color_order: Ints,
    color_offsets: Ints,
    first_color: Integer,
    omega: Real,
    step: Vec3s,
    defect: Floats,
):
    """Block SOR over COLORS colours: each vertex solves its own 3x3 system, over-relaxed.

    ``defect`` receives r_i^T D_i^-1 r_i as each vertex found it.
    """
    for color in ti.static(range(COLORS)):
        for k in range(color_offsets[first_color + color], color_offsets[first_color + color + 1]):
            i = color_order[k]
            r = -gradient[i] - hessian_times(i, step, offsets, neighbours, couplings, own)
            z = symmetric_times(inverse, i, r)
            step[i] += omega * z
            defect[i] = r.dot(z)


@ti.kernel
def sum_values(values: Floats, count: Integer, partial: Floats) -> Real:
    """Sum of the first ``count`` values, in a fixed order."""
    chunks = (count + CHUNK - 1) // CHUNK
    for c in range(chunks):
        total = 0.0
        for i in range(c * CHUNK, ti.min(count, (c + 1) * CHUNK)):
            total += values[i]
        partial[c] = total
    result = 0.0
    for _ in range(1):
        result += _sum(partial, chunks)
    return result


@ti.kernel
def residual_norm2(gradient: Vec3s, inverse: Vec3s, partial: Floats) -> Real:
    """g^T D^-1 g, the squared residual of the nonlinear problem in the block-Jacobi norm."""
    n = gradient.shape[0]
    chunks = (n + CHUNK - 1) // CHUNK
    for c in range(chunks):
        total = 0.0
        for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
            total += gradient[i].dot(symmetric_times(inverse, i, gradient[i]))
        partial[c] = total
    result = 0.0
    for _ in range(1):
        result += _sum(partial, chunks)
    return result
