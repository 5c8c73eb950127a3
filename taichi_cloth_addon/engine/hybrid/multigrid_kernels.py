# SPDX-License-Identifier: GPL-3.0-or-later
"""Device code of conjugate gradients with a multigrid V-cycle as preconditioner.

Nodes of all levels are numbered through: the vertices, then each coarse level's nodes. A level
is a range of numbers, given at run time, so nothing is compiled anew for another mesh. Springs
are numbered likewise. The finest level multiplies with the Hessian itself (bending included);
coarse ones with their springs' tensors, stored as (xx, yy, zz) and (xy, xz, yz).
"""

from .. import launch, runtime
from .cycle_kernels import OMEGA, prolong, restrict
from .implicit_kernels import hessian_times
from .linear_kernels import CHUNK, sum_partial
from .rows_kernels import Floats, Integer, Ints, Real, Vec3s, Vec4s, symmetric_times

ti = runtime.import_taichi()

# Places in the array of scalars.
RZ = 0  # r^T D^-1 r now
RZ_START = 1  # and at the start, with which the stop is measured
ALPHA = 2
BETA = 3
DONE = 4
COUNT = 5
RY = 6  # r^T z with the V-cycle's z
SCALARS = 7


@launch.kernel
def start_cycle(
    gradient: Vec3s,
    offsets: Ints,
    neighbours: Ints,
    couplings: Vec4s,
    own: Vec3s,
    inverse: Vec3s,
    child_offsets: Ints,
    children: Ints,
    child_weights: Floats,
    coarse: Integer,
    step: Vec3s,
    b: Vec3s,
    x: Vec3s,
    y: Vec3s,
    partial: Floats,
    scalars: Floats,
    tolerance2: Real,
):
    """Residual of a zero step, and the first half of the finest level's V-cycle."""
    n = gradient.shape[0]
    chunks = (n + CHUNK - 1) // CHUNK
    ti.loop_config(serialize=runtime.one_thread)
    for c in range(chunks):
        total = 0.0
        for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
            r = -gradient[i]
            z = symmetric_times(inverse, i, r)
            step[i] = ti.math.vec3(0.0)
            b[i] = r
            x[i] = OMEGA * z
            total += r.dot(z)
        partial[c] = total
    ti.loop_config(serialize=True)
    for _ in range(1):
        rz = sum_partial(partial, chunks)
        scalars[RZ] = rz
        scalars[RZ_START] = rz
        scalars[RY] = 0.0
        scalars[DONE] = ti.select(rz > 0.0, 0.0, 1.0)
        scalars[COUNT] = 0.0
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(n):
        y[i] = b[i] - hessian_times(i, x, offsets, neighbours, couplings, own)
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(n, coarse):
        b[i] = restrict(i, n, child_offsets, children, child_weights, y)


@launch.kernel
def finish_cycle(
    offsets: Ints,
    neighbours: Ints,
    couplings: Vec4s,
    own: Vec3s,
    inverse: Vec3s,
    parents: Ints,
    weights: Floats,
    direction: Vec3s,
    b: Vec3s,
    x: Vec3s,
    y: Vec3s,
    partial: Floats,
    scalars: Floats,
):
    """The second half of the finest level's V-cycle, and the next direction."""
    n = direction.shape[0]
    chunks = (n + CHUNK - 1) // CHUNK
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(n):
        x[i] += prolong(i, parents, weights, y)
    ti.loop_config(serialize=runtime.one_thread)
    for c in range(chunks):
        total = 0.0
        for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
            r = b[i] - hessian_times(i, x, offsets, neighbours, couplings, own)
            z = x[i] + OMEGA * symmetric_times(inverse, i, r)
            y[i] = z
            total += z.dot(b[i])
        partial[c] = total
    ti.loop_config(serialize=True)
    for _ in range(1):
        ry = sum_partial(partial, chunks)
        scalars[BETA] = ti.select(scalars[RY] > 0.0, ry / scalars[RY], 0.0)
        scalars[RY] = ry
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(n):
        direction[i] = y[i] + scalars[BETA] * direction[i]


@launch.kernel
def iterate(
    offsets: Ints,
    neighbours: Ints,
    couplings: Vec4s,
    own: Vec3s,
    inverse: Vec3s,
    child_offsets: Ints,
    children: Ints,
    child_weights: Floats,
    coarse: Integer,
    step: Vec3s,
    direction: Vec3s,
    product: Vec3s,
    b: Vec3s,
    x: Vec3s,
    y: Vec3s,
    partial: Floats,
    scalars: Floats,
    tolerance2: Real,
):
    """One step of conjugate gradients, and the first half of the finest level's V-cycle.

    Once r^T D^-1 r has fallen by ``tolerance2`` the V-cycle is left out.
    """
    n = step.shape[0]
    chunks = (n + CHUNK - 1) // CHUNK
    ti.loop_config(serialize=runtime.one_thread)
    for c in range(chunks):
        total = 0.0
        for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
            z = hessian_times(i, direction, offsets, neighbours, couplings, own)
            product[i] = z
            total += z.dot(direction[i])
        partial[c] = total
    ti.loop_config(serialize=True)
    for _ in range(1):
        curvature = sum_partial(partial, chunks)
        scalars[ALPHA] = ti.select(curvature > 0.0, scalars[RY] / curvature, 0.0)
        scalars[COUNT] += 1.0
    ti.loop_config(serialize=runtime.one_thread)
    for c in range(chunks):
        total = 0.0
        alpha = scalars[ALPHA]
        for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
            step[i] += alpha * direction[i]
            r = b[i] - alpha * product[i]
            z = symmetric_times(inverse, i, r)
            b[i] = r
            x[i] = OMEGA * z
            total += r.dot(z)
        partial[c] = total
    ti.loop_config(serialize=True)
    for _ in range(1):
        rz = sum_partial(partial, chunks)
        scalars[RZ] = rz
        if rz <= tolerance2 * scalars[RZ_START] or scalars[ALPHA] == 0.0:
            scalars[DONE] = 1.0
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(n):
        if scalars[DONE] == 0.0:
            y[i] = b[i] - hessian_times(i, x, offsets, neighbours, couplings, own)
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(n, coarse):
        if scalars[DONE] == 0.0:
            b[i] = restrict(i, n, child_offsets, children, child_weights, y)
