# SPDX-License-Identifier: GPL-3.0-or-later
"""Device code of conjugate gradients with a multigrid V-cycle as preconditioner.

Nodes of all levels are numbered through: the vertices, then each coarse level's nodes. A level
is a range of numbers, given at run time, so nothing is compiled anew for another mesh. Springs
are numbered likewise. The finest level multiplies with the Hessian itself (bending included);
coarse ones with their springs' tensors, stored as (xx, yy, zz) and (xy, xz, yz).
"""

from .. import launch, runtime
from .implicit_kernels import hessian_times, inverse_of
from .linear_kernels import CHUNK, sum_partial
from .rows_kernels import Floats, Given, Integer, Ints, Real, Vec3s, Vec4s, symmetric_times

ti = runtime.import_taichi()

# Damping of the Jacobi smoother; every coarse spring and block is positive semidefinite, so
# lambda_max(D^-1 A) <= 2 and this converges on every level.
OMEGA = 2.0 / 3.0
# Nodes that a node interpolates from.
PARENTS = 3
# Symmetric Gauss-Seidel sweeps on the last level.
SWEEPS = 4
# Places in the array of scalars.
RZ = 0  # r^T D^-1 r now
RZ_START = 1  # and at the start, with which the stop is measured
ALPHA = 2
BETA = 3
DONE = 4
COUNT = 5
RY = 6  # r^T z with the V-cycle's z
SCALARS = 7


@ti.func
def _add_fine(s, base, map_offsets: Given, map_sources: Given, map_shares: Given, fine: Given):
    """Tensor of a spring of the first coarse level, from the springs' w w^T + a 1."""
    diagonal = ti.math.vec3(0.0)
    off_diagonal = ti.math.vec3(0.0)
    for entry in range(map_offsets[s - base], map_offsets[s - base + 1]):
        c = fine[map_sources[entry]]
        share = map_shares[entry]
        diagonal += share * (c[3] + ti.math.vec3(c[0] * c[0], c[1] * c[1], c[2] * c[2]))
        off_diagonal += share * ti.math.vec3(c[0] * c[1], c[0] * c[2], c[1] * c[2])
    return diagonal, off_diagonal


@ti.func
def _add_coarse(s, base, map_offsets: Given, map_sources: Given, map_shares: Given, tensors: Given):
    """Tensor of a spring of a later level."""
    diagonal = ti.math.vec3(0.0)
    off_diagonal = ti.math.vec3(0.0)
    for entry in range(map_offsets[s - base], map_offsets[s - base + 1]):
        source = map_sources[entry] - base
        diagonal += map_shares[entry] * tensors[2 * source]
        off_diagonal += map_shares[entry] * tensors[2 * source + 1]
    return diagonal, off_diagonal


@ti.func
def _block(
    node,
    fine,
    child_offsets: Given,
    children: Given,
    child_weights: Given,
    offsets: Given,
    links: Given,
    bend_offsets: Given,
    bend_weights: Given,
    tensors: Given,
    free: Given,
    own: Given,
    inverse: Given,
):
    diagonal = ti.math.vec3(0.0)
    off_diagonal = ti.math.vec3(0.0)
    c = node - fine
    for entry in range(child_offsets[c], child_offsets[c + 1]):
        child = children[entry]
        diagonal += child_weights[entry] * own[2 * child]
        off_diagonal += child_weights[entry] * own[2 * child + 1]
    own[2 * node] = diagonal
    own[2 * node + 1] = off_diagonal
    for entry in range(offsets[c], offsets[c + 1]):
        s = links[2 * entry + 1]
        diagonal += tensors[2 * s]
        off_diagonal += tensors[2 * s + 1]
    for entry in range(bend_offsets[c], bend_offsets[c + 1]):
        diagonal += ti.max(bend_weights[entry], 0.0)
    d = ti.math.vec3(0.0)
    o = ti.math.vec3(0.0)
    if free[c] == 1:
        d, o = inverse_of(diagonal, off_diagonal)
    inverse[2 * node] = d
    inverse[2 * node + 1] = o


@launch.kernel
def coarsen(
    fine: Integer,
    fine_springs: Integer,
    first_node: Integer,
    last_node: Integer,
    first_spring: Integer,
    last_spring: Integer,
    map_offsets: Ints,
    map_sources: Ints,
    map_shares: Floats,
    child_offsets: Ints,
    children: Ints,
    child_weights: Floats,
    offsets: Ints,
    links: Ints,
    bend_offsets: Ints,
    bend_weights: Floats,
    free: Ints,
    fine_tensors: Vec4s,
    tensors: Vec3s,
    own: Vec3s,
    inverse: Vec3s,
):
    """Tensors and blocks of one coarse level from the level before.

    ``tensors`` begins with the first coarse level's springs.
    """
    ti.loop_config(serialize=runtime.one_thread)
    for s in range(first_spring, last_spring):
        diagonal = ti.math.vec3(0.0)
        off_diagonal = ti.math.vec3(0.0)
        if first_spring == fine_springs:
            diagonal, off_diagonal = _add_fine(
                s, fine_springs, map_offsets, map_sources, map_shares, fine_tensors
            )
        else:
            diagonal, off_diagonal = _add_coarse(
                s, fine_springs, map_offsets, map_sources, map_shares, tensors
            )
        tensors[2 * (s - fine_springs)] = diagonal
        tensors[2 * (s - fine_springs) + 1] = off_diagonal
    ti.loop_config(serialize=runtime.one_thread)
    for node in range(first_node, last_node):
        _block(
            node,
            fine,
            child_offsets,
            children,
            child_weights,
            offsets,
            links,
            bend_offsets,
            bend_weights,
            tensors,
            free,
            own,
            inverse,
        )


@ti.func
def _coarse_times(
    node,
    fine,
    u: Given,
    offsets: Given,
    links: Given,
    bend_offsets: Given,
    bend_neighbours: Given,
    bend_weights: Given,
    tensors: Given,
    own: Given,
):
    """Row of a coarse level's matrix times u."""
    un = u[node]
    c = node - fine
    result = symmetric_times(own, node, un)
    for entry in range(offsets[c], offsets[c + 1]):
        s = links[2 * entry + 1]
        result += symmetric_times(tensors, s, un - u[links[2 * entry]])
    for entry in range(bend_offsets[c], bend_offsets[c + 1]):
        result += bend_weights[entry] * (un - u[bend_neighbours[entry]])
    return result


@ti.func
def _restrict(node, fine, child_offsets: Given, children: Given, child_weights: Given, y: Given):
    result = ti.math.vec3(0.0)
    for entry in range(child_offsets[node - fine], child_offsets[node - fine + 1]):
        result += child_weights[entry] * y[children[entry]]
    return result


@ti.func
def _prolong(node, parents: Given, weights: Given, y: Given):
    result = ti.math.vec3(0.0)
    for k in ti.static(range(PARENTS)):
        entry = PARENTS * node + k
        result += weights[entry] * y[parents[entry]]
    return result


@launch.kernel
def go_down(
    fine: Integer,
    first: Integer,
    last: Integer,
    coarse: Integer,
    offsets: Ints,
    links: Ints,
    bend_offsets: Ints,
    bend_neighbours: Ints,
    bend_weights: Floats,
    tensors: Vec3s,
    own: Vec3s,
    inverse: Vec3s,
    child_offsets: Ints,
    children: Ints,
    child_weights: Floats,
    b: Vec3s,
    x: Vec3s,
    y: Vec3s,
):
    """Smooth a coarse level from zero and restrict what is left to the next one."""
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(first, last):
        x[i] = OMEGA * symmetric_times(inverse, i, b[i])
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(first, last):
        y[i] = b[i] - _coarse_times(
            i, fine, x, offsets, links, bend_offsets, bend_neighbours, bend_weights, tensors, own
        )
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(last, coarse):
        b[i] = _restrict(i, fine, child_offsets, children, child_weights, y)


@launch.kernel
def go_up(
    fine: Integer,
    first: Integer,
    last: Integer,
    parents: Ints,
    weights: Floats,
    offsets: Ints,
    links: Ints,
    bend_offsets: Ints,
    bend_neighbours: Ints,
    bend_weights: Floats,
    tensors: Vec3s,
    own: Vec3s,
    inverse: Vec3s,
    b: Vec3s,
    x: Vec3s,
    y: Vec3s,
):
    """Add the next level's correction and smooth once more; the result is in ``y``."""
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(first, last):
        x[i] += _prolong(i, parents, weights, y)
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(first, last):
        r = b[i] - _coarse_times(
            i, fine, x, offsets, links, bend_offsets, bend_neighbours, bend_weights, tensors, own
        )
        y[i] = x[i] + OMEGA * symmetric_times(inverse, i, r)


@ti.func
def _gauss_seidel(
    i,
    fine,
    offsets: Given,
    links: Given,
    bend_offsets: Given,
    bend_neighbours: Given,
    bend_weights: Given,
    tensors: Given,
    own: Given,
    inverse: Given,
    b: Given,
    y: Given,
):
    r = b[i] - _coarse_times(
        i, fine, y, offsets, links, bend_offsets, bend_neighbours, bend_weights, tensors, own
    )
    y[i] += symmetric_times(inverse, i, r)


@launch.kernel
def coarse_cycle(
    fine: Integer,
    level: Integer,
    bounds: Ints,
    levels: Integer,
    parents: Ints,
    weights: Floats,
    child_offsets: Ints,
    children: Ints,
    child_weights: Floats,
    offsets: Ints,
    links: Ints,
    bend_offsets: Ints,
    bend_neighbours: Ints,
    bend_weights: Floats,
    tensors: Vec3s,
    own: Vec3s,
    inverse: Vec3s,
    b: Vec3s,
    x: Vec3s,
    y: Vec3s,
):
    """The V-cycle of the small levels from ``level`` on, by one thread.

    Level l has the nodes bounds[l] .. bounds[l + 1]. The last one is solved by symmetric block
    Gauss-Seidel.
    """
    ti.loop_config(serialize=True)
    for _ in range(1):
        for depth in range(level, levels - 1):
            for i in range(bounds[depth], bounds[depth + 1]):
                x[i] = OMEGA * symmetric_times(inverse, i, b[i])
            for i in range(bounds[depth], bounds[depth + 1]):
                y[i] = b[i] - _coarse_times(
                    i,
                    fine,
                    x,
                    offsets,
                    links,
                    bend_offsets,
                    bend_neighbours,
                    bend_weights,
                    tensors,
                    own,
                )
            for i in range(bounds[depth + 1], bounds[depth + 2]):
                b[i] = _restrict(i, fine, child_offsets, children, child_weights, y)
        first = bounds[levels - 1]
        last = bounds[levels]
        for i in range(first, last):
            y[i] = ti.math.vec3(0.0)
        for _sweep in range(SWEEPS):
            for i in range(first, last):
                _gauss_seidel(
                    i,
                    fine,
                    offsets,
                    links,
                    bend_offsets,
                    bend_neighbours,
                    bend_weights,
                    tensors,
                    own,
                    inverse,
                    b,
                    y,
                )
            for k in range(last - first):
                _gauss_seidel(
                    last - 1 - k,
                    fine,
                    offsets,
                    links,
                    bend_offsets,
                    bend_neighbours,
                    bend_weights,
                    tensors,
                    own,
                    inverse,
                    b,
                    y,
                )
        for k in range(levels - 1 - level):
            depth = levels - 2 - k
            for i in range(bounds[depth], bounds[depth + 1]):
                x[i] += _prolong(i, parents, weights, y)
            for i in range(bounds[depth], bounds[depth + 1]):
                r = b[i] - _coarse_times(
                    i,
                    fine,
                    x,
                    offsets,
                    links,
                    bend_offsets,
                    bend_neighbours,
                    bend_weights,
                    tensors,
                    own,
                )
                y[i] = x[i] + OMEGA * symmetric_times(inverse, i, r)


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
        b[i] = _restrict(i, n, child_offsets, children, child_weights, y)


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
        x[i] += _prolong(i, parents, weights, y)
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
            b[i] = _restrict(i, n, child_offsets, children, child_weights, y)
