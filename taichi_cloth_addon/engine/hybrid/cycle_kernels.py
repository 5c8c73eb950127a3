# SPDX-License-Identifier: GPL-3.0-or-later
"""Device code of the coarse levels of the V-cycle; see multigrid_kernels for the numbering."""

from collections.abc import Sequence

from .. import launch, runtime
from .implicit_kernels import inverse_of
from .rows_kernels import Floats, Given, Integer, Ints, Vec3s, Vec4s, symmetric_times

ti = runtime.import_taichi()

# Damping of the Jacobi smoother; every coarse spring and block is positive semidefinite, so
# lambda_max(D^-1 A) <= 2 and this converges on every level.
OMEGA = 2.0 / 3.0
# Nodes that a node interpolates from.
PARENTS = 3
# Symmetric Gauss-Seidel sweeps on the last level.
SWEEPS = 4
# Tasks of the small levels.
BEGIN, RESIDUAL, RESTRICT, CLEAR, FORWARD, BACKWARD, PROLONG, SMOOTH = range(8)


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
def restrict(node, fine, child_offsets: Given, children: Given, child_weights: Given, y: Given):
    """P^T y at a coarse node."""
    result = ti.math.vec3(0.0)
    for entry in range(child_offsets[node - fine], child_offsets[node - fine + 1]):
        result += child_weights[entry] * y[children[entry]]
    return result


@ti.func
def prolong(node, parents: Given, weights: Given, y: Given):
    """P y at a node of the level before."""
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
        b[i] = restrict(i, fine, child_offsets, children, child_weights, y)


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
        x[i] += prolong(i, parents, weights, y)
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(first, last):
        r = b[i] - _coarse_times(
            i, fine, x, offsets, links, bend_offsets, bend_neighbours, bend_weights, tensors, own
        )
        y[i] = x[i] + OMEGA * symmetric_times(inverse, i, r)


@launch.kernel
def coarse_cycle(
    fine: Integer,
    tasks: Ints,
    count: Integer,
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
    """The V-cycle of the small levels by one thread, as a list of tasks.

    A task is (what, first node, last node); see small_tasks. All of them share one product with
    the matrix, which keeps the compiled code small.
    """
    ti.loop_config(serialize=True)
    for _ in range(1):
        for task in range(count):
            what = tasks[3 * task]
            first = tasks[3 * task + 1]
            last = tasks[3 * task + 2]
            for k in range(last - first):
                i = ti.select(what == BACKWARD, last - 1 - k, first + k)
                if what == RESTRICT:
                    b[i] = restrict(i, fine, child_offsets, children, child_weights, y)
                elif what == PROLONG:
                    x[i] += prolong(i, parents, weights, y)
                elif what == BEGIN:
                    x[i] = OMEGA * symmetric_times(inverse, i, b[i])
                elif what == CLEAR:
                    x[i] = ti.math.vec3(0.0)
                else:
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
                    if what == RESIDUAL:
                        y[i] = r
                    elif what == SMOOTH:
                        y[i] = x[i] + OMEGA * symmetric_times(inverse, i, r)
                    else:
                        x[i] += symmetric_times(inverse, i, r)
                        y[i] = x[i]


def small_tasks(bounds: Sequence[int], level: int) -> list[tuple[int, int, int]]:
    """The V-cycle of the levels from ``level`` on; level l has nodes bounds[l] .. bounds[l + 1].

    The last level is solved by symmetric block Gauss-Seidel.
    """
    down, up = [], []
    for first, last, after in zip(
        bounds[level:-2], bounds[level + 1 : -1], bounds[level + 2 :], strict=True
    ):
        down += [(BEGIN, first, last), (RESIDUAL, first, last), (RESTRICT, last, after)]
        up += [(SMOOTH, first, last), (PROLONG, first, last)]
    coarsest = (bounds[-2], bounds[-1])
    sweeps = [(FORWARD, *coarsest), (BACKWARD, *coarsest)] * SWEEPS
    return [*down, (CLEAR, *coarsest), *sweeps, *reversed(up)]
