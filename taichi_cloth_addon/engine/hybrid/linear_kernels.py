# SPDX-License-Identifier: GPL-3.0-or-later
"""Device code of the linear solvers: norms and sums, and coloured block SOR.

Sums run over chunks of consecutive vertices in a fixed order, so that a result does not
depend on threads.
"""

from .. import launch, runtime
from .implicit_kernels import hessian_times
from .rows_kernels import Floats, Given, Integer, Ints, Real, Vec3s, Vec4s, symmetric_times

ti = runtime.import_taichi()

# Vertices summed up by one thread.
CHUNK = 64
# Colours per launch of a sweep; those that a mesh lacks are empty loops.
COLORS = 16


@ti.func
def sum_partial(partial: Given, count):
    """Sum of the first ``count`` partial sums, one after the other."""
    total = 0.0
    for c in range(count):
        total += partial[c]
    return total


@launch.kernel
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
        ti.loop_config(serialize=runtime.one_thread)
        for k in range(color_offsets[first_color + color], color_offsets[first_color + color + 1]):
            i = color_order[k]
            r = -gradient[i] - hessian_times(i, step, offsets, neighbours, couplings, own)
            z = symmetric_times(inverse, i, r)
            step[i] += omega * z
            defect[i] = r.dot(z)


@launch.kernel
def sum_values(values: Floats, count: Integer, partial: Floats) -> Real:
    """Sum of the first ``count`` values, in a fixed order."""
    chunks = (count + CHUNK - 1) // CHUNK
    ti.loop_config(serialize=runtime.one_thread)
    for c in range(chunks):
        total = 0.0
        for i in range(c * CHUNK, ti.min(count, (c + 1) * CHUNK)):
            total += values[i]
        partial[c] = total
    result = 0.0
    ti.loop_config(serialize=True)
    for _ in range(1):
        result += sum_partial(partial, chunks)
    return result


@launch.kernel
def largest(values: Floats, count: Integer, partial: Floats) -> Real:
    """Largest of the first ``count`` values, none of them negative."""
    chunks = (count + CHUNK - 1) // CHUNK
    ti.loop_config(serialize=runtime.one_thread)
    for c in range(chunks):
        most = 0.0
        for i in range(c * CHUNK, ti.min(count, (c + 1) * CHUNK)):
            most = ti.max(most, values[i])
        partial[c] = most
    result = 0.0
    ti.loop_config(serialize=True)
    for _ in range(1):
        most = 0.0
        for c in range(chunks):
            most = ti.max(most, partial[c])
        result += most
    return result


@launch.kernel
def residual_norm2(gradient: Vec3s, inverse: Vec3s, partial: Floats) -> Real:
    """g^T D^-1 g, the squared residual of the nonlinear problem in the block-Jacobi norm."""
    n = gradient.shape[0]
    chunks = (n + CHUNK - 1) // CHUNK
    ti.loop_config(serialize=runtime.one_thread)
    for c in range(chunks):
        total = 0.0
        for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
            total += gradient[i].dot(symmetric_times(inverse, i, gradient[i]))
        partial[c] = total
    result = 0.0
    ti.loop_config(serialize=True)
    for _ in range(1):
        result += sum_partial(partial, chunks)
    return result


@launch.kernel
def force_norm2(
    mass: Floats, rounding: Floats, inverse: Vec3s, acceleration: Real, noise: Real, partial: Floats
) -> Real:
    """f^T D^-1 f for forces of no direction: an acceleration's and ``noise`` times the rounding."""
    n = mass.shape[0]
    chunks = (n + CHUNK - 1) // CHUNK
    ti.loop_config(serialize=runtime.one_thread)
    for c in range(chunks):
        total = 0.0
        for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
            force = mass[i] * acceleration
            error = noise * rounding[i]
            square = force * force + error * error
            total += square * inverse[2 * i].sum() / 3.0
        partial[c] = total
    result = 0.0
    ti.loop_config(serialize=True)
    for _ in range(1):
        result += sum_partial(partial, chunks)
    return result


@launch.kernel
def curvature_along(
    u: Vec3s,
    inverse_mass: Floats,
    offsets: Ints,
    neighbours: Ints,
    couplings: Vec4s,
    own: Vec3s,
    partial: Floats,
) -> Real:
    """u^T H u over the free vertices, the others held."""
    n = u.shape[0]
    chunks = (n + CHUNK - 1) // CHUNK
    ti.loop_config(serialize=runtime.one_thread)
    for c in range(chunks):
        total = 0.0
        for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
            if inverse_mass[i] > 0.0:
                ui = u[i]
                result = symmetric_times(own, i, ui)
                for entry in range(offsets[i], offsets[i + 1]):
                    j = neighbours[entry]
                    t = couplings[entry]
                    du = ui - ti.select(inverse_mass[j] > 0.0, 1.0, 0.0) * u[j]
                    w = ti.math.vec3(t[0], t[1], t[2])
                    result += t[3] * du + w.dot(du) * w
                total += result.dot(ui)
        partial[c] = total
    result = 0.0
    ti.loop_config(serialize=True)
    for _ in range(1):
        result += sum_partial(partial, chunks)
    return result


@launch.kernel
def step_energies(
    gradient: Vec3s, displacement: Vec3s, mass: Floats, partial: Floats, result: Floats
):
    """Work of the gradient along the displacement, and 1/2 m u², in result[0] and result[1]."""
    n = mass.shape[0]
    chunks = (n + CHUNK - 1) // CHUNK
    ti.loop_config(serialize=runtime.one_thread)
    for c in range(chunks):
        total = 0.0
        for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
            total += gradient[i].dot(displacement[i])
        partial[c] = total
    ti.loop_config(serialize=True)
    for _ in range(1):
        result[0] = sum_partial(partial, chunks)
    ti.loop_config(serialize=runtime.one_thread)
    for c in range(chunks):
        total = 0.0
        for i in range(c * CHUNK, ti.min(n, (c + 1) * CHUNK)):
            total += 0.5 * mass[i] * displacement[i].norm_sqr()
        partial[c] = total
    ti.loop_config(serialize=True)
    for _ in range(1):
        result[1] = sum_partial(partial, chunks)
