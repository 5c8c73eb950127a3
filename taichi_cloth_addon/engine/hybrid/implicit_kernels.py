# SPDX-License-Identifier: GPL-3.0-or-later
"""Device code of the implicit step: incremental energy, its gradient and its Hessian.

The step minimises over the displacement u = x - x_n

    E(u) = 1/(2 h²) |u - y|²_M + U(x_n + u) + 1/(2 h) u^T D u + dashpots + pin springs

(backward Euler; y is the inertial displacement with all constant forces, D the air's drag). The
Hessian is made positive semidefinite: a spring's compressive geometric term is dropped
(Choi and Ko 2002), bending uses its flat quadratic form.
"""

from .. import launch, runtime
from .rows_kernels import (
    SHORTEST,
    Floats,
    Given,
    Integer,
    Ints,
    Real,
    Vec2s,
    Vec3,
    Vec3s,
    Vec4s,
    curved_hinge,
    hinge_force,
    hinge_shape,
    row_force,
    symmetric_times,
)

ti = runtime.import_taichi()

# Stiffness near the strain limit over the spring's own.
LIMIT_STIFFNESS = 100.0


@launch.kernel
def explicit_row_forces(
    x: Vec3s,
    v: Vec3s,
    offsets: Ints,
    middles: Ints,
    neighbours: Ints,
    springs: Vec3s,
    bending: Floats,
    bend_rate: Floats,
    force: Vec3s,
):
    """Forces of the couplings that are explicit, at the step's start; zeroed entries do nothing."""
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(x.shape[0]):
        force[i] = row_force(i, x, v, offsets, middles, neighbours, springs, bending, bend_rate[i])


@launch.kernel
def lag_forces(
    x: Vec3s,
    moved: Vec3s,
    share: Real,
    keep: Real,
    offsets: Ints,
    middles: Ints,
    neighbours: Ints,
    springs: Vec3s,
    bending: Floats,
    bend_rate: Floats,
    air_drag: Vec3s,
    pin_spring: Vec2s,
    h: Real,
    force: Vec3s,
):
    """Force = ``keep`` of it + what damping gains from ``share`` of the last displacement.

    BDF2's velocity is (u - moved / 3) / h; the part with u belongs to the unknowns. Of a damper
    the lengths count, so that one that turned gives nothing.
    """
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(x.shape[0]):
        xi = x[i]
        lag = share * moved[i]
        result = pin_spring[i][1] * lag + symmetric_times(air_drag, i, lag)
        for entry in range(offsets[i], middles[i]):
            damping = springs[entry][2]
            if damping > 0.0:
                j = neighbours[entry]
                direction = x[j] - xi
                change = moved[j] - moved[i]
                before = direction - change
                length = ti.max(direction.norm(), SHORTEST)
                # The difference of the lengths; taken as it stands it would be all rounding.
                grown = change.dot(direction + before) / (length + ti.max(before.norm(), SHORTEST))
                result -= damping * share * grown / length * direction
        if bend_rate[i] > 0.0:
            for entry in range(offsets[i], offsets[i + 1]):
                away = share * moved[neighbours[entry]] - lag
                result += bend_rate[i] * bending[entry] * away
        force[i] = keep * force[i] + result / h


@launch.kernel
def inertial_displacement(
    v: Vec3s,
    v_before: Vec3s,
    moved: Vec3s,
    inverse_mass: Floats,
    air_force: Vec3s,
    force: Vec3s,
    gravity: Vec3,
    h: Real,
    second: Integer,
    inertial: Vec3s,
):
    """How far each vertex would go under the forces that are constant in the step.

    Backward Euler's h v + h² a, or BDF2's moved / 3 + h (4 v - v_before) / 3 + h² a with h two
    thirds of the step.
    """
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(v.shape[0]):
        a = gravity + inverse_mass[i] * (air_force[i] + force[i])
        start = h * v[i]
        if second == 1:
            start = (moved[i] + h * (4.0 * v[i] - v_before[i])) / 3.0
        inertial[i] = start + h * h * a


@launch.kernel
def start_displacement(
    x: Vec3s,
    source: Vec3s,
    share: Real,
    inverse_mass: Floats,
    pin_target: Vec3s,
    pin_velocity: Vec3s,
    time: Real,
    displacement: Vec3s,
):
    """A share of ``source`` for free vertices; fixed ones go where they belong."""
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(x.shape[0]):
        if inverse_mass[i] > 0.0:
            displacement[i] = share * source[i]
        else:
            displacement[i] = pin_target[i] + time * pin_velocity[i] - x[i]


@launch.kernel
def curved_forces(
    x: Vec3s,
    displacement: Vec3s,
    hinges: Ints,
    stiffness: Floats,
    count: Integer,
    forces: Vec3s,
    energy: Floats,
):
    """Forces of the hinges with a curved rest shape, and energies above those at x."""
    ti.loop_config(serialize=runtime.one_thread)
    for k in range(count):
        edge0, p0, q0 = hinge_shape(k, x, hinges)
        d_edge, d_p, d_q = hinge_shape(k, displacement, hinges)
        edge = edge0 + d_edge
        p = p0 + d_p
        q = q0 + d_q
        curved_hinge(k, edge, p, q, stiffness, forces)
        # det(edge, p, q) - det(edge0, p0, q0), one factor after the other.
        change = d_edge.dot(p.cross(q)) + edge0.dot(d_p.cross(q) + p0.cross(d_q))
        energy[k] = -stiffness[k] * change


@launch.kernel
def evaluate(
    displacement: Vec3s,
    x: Vec3s,
    inertial: Vec3s,
    mass: Floats,
    inverse_mass: Floats,
    offsets: Ints,
    middles: Ints,
    neighbours: Ints,
    springs: Vec3s,
    bending: Floats,
    bend_rate: Floats,
    air_drag: Vec3s,
    pin_spring: Vec2s,
    pin_target: Vec3s,
    pin_velocity: Vec3s,
    hinge_offsets: Ints,
    hinge_entries: Ints,
    hinge_forces: Vec3s,
    limits: Vec2s,
    time: Real,
    h: Real,
    curved: Given,
    limited: Given,
    gradient: Vec3s,
    energy: Floats,
):
    """Gradient (N) and energy above that of no displacement (J) of each vertex.

    Half of a coupling's energy belongs to either end. The unknown is the displacement from x,
    and only differences of energies are formed: float32 would leave little of a small step in
    the positions, and nothing in the energies, which are sums that cancel.
    """
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(x.shape[0]):
        xi = x[i]
        ui = displacement[i]
        slope = ti.math.vec3(0.0)
        total = 0.0
        rate = bend_rate[i] / h
        for entry in range(offsets[i], middles[i]):
            j = neighbours[entry]
            spring = springs[entry]
            before = x[j] - xi
            du = displacement[j] - ui
            dx = before + du
            work = du.dot(dx + before)
            length = ti.max(dx.norm(), SHORTEST)
            length_before = ti.max(before.norm(), SHORTEST)
            stretch = length - spring[0]
            growth = work / (length + length_before)
            slope -= (spring[1] - spring[1] * spring[0] / length) * dx
            total += 0.25 * spring[1] * growth * (stretch + length_before - spring[0])
            if ti.static(limited):
                bound = limits[entry][0]
                if bound > 0.0:
                    stiffness = LIMIT_STIFFNESS * spring[1]
                    over = ti.max(0.0, length - bound)
                    over_before = ti.max(0.0, length_before - bound)
                    slope -= stiffness * over / length * dx
                    total += 0.25 * stiffness * (over - over_before) * (over + over_before)
            if spring[2] > 0.0:
                strength = spring[2] / h
                slope -= strength * growth / length * dx
                total += 0.25 * strength * growth * growth
            q = bending[entry]
            slope += q * (dx + rate * du)
            total -= 0.25 * q * (work + rate * du.dot(du))
        # The bending matrix has no row sum, so its quadratic form is one of differences.
        for entry in range(middles[i], offsets[i + 1]):
            j = neighbours[entry]
            before = x[j] - xi
            du = displacement[j] - ui
            q = bending[entry]
            slope += q * (before + (1.0 + rate) * du)
            total -= 0.25 * q * (du.dot(2.0 * before + (1.0 + rate) * du))
        if inverse_mass[i] > 0.0:
            away = ui - inertial[i]
            m = mass[i] / (h * h)
            drag = symmetric_times(air_drag, i, ui) / h
            slope += m * away + drag
            total += 0.5 * m * ui.dot(away - inertial[i]) + 0.5 * drag.dot(ui)
            pin = pin_spring[i]
            if pin[0] > 0.0:
                off = xi - (pin_target[i] + time * pin_velocity[i])
                slip = ui - h * pin_velocity[i]
                slope += pin[0] * (off + ui) + pin[1] / h * slip
                total += 0.5 * pin[0] * ui.dot(2.0 * off + ui)
                total += 0.5 * pin[1] / h * slip.dot(slip)
            if ti.static(curved):
                slope -= hinge_force(i, hinge_offsets, hinge_entries, hinge_forces)
        else:
            slope = ti.math.vec3(0.0)
        gradient[i] = slope
        energy[i] = total


@ti.func
def inverse_of(d, o):
    """Inverse of the symmetric matrix with diagonal d and off-diagonal (xy, xz, yz) o."""
    c00 = d[1] * d[2] - o[2] * o[2]
    c01 = o[1] * o[2] - o[0] * d[2]
    c02 = o[0] * o[2] - o[1] * d[1]
    determinant = d[0] * c00 + o[0] * c01 + o[1] * c02
    scale = 1.0 / determinant
    diagonal = scale * ti.math.vec3(c00, d[0] * d[2] - o[1] * o[1], d[0] * d[1] - o[0] * o[0])
    off_diagonal = scale * ti.math.vec3(c01, c02, o[0] * o[1] - d[0] * o[2])
    return diagonal, off_diagonal


@launch.kernel
def spring_tensors(
    displacement: Vec3s,
    x: Vec3s,
    ends: Ints,
    entries: Ints,
    springs: Vec3s,
    limits: Vec2s,
    count: Integer,
    h: Real,
    limited: Given,
    tensors: Vec4s,
):
    """Vector w and number a of each spring's Hessian w w^T + a 1 at x + displacement.

    ``entries`` names one row entry of each spring.
    """
    ti.loop_config(serialize=runtime.one_thread)
    for s in range(count):
        spring = springs[entries[s]]
        tensor = ti.math.vec4(0.0)
        if spring[1] + spring[2] > 0.0:
            i = ends[2 * s]
            j = ends[2 * s + 1]
            before = x[j] - x[i]
            dx = before + (displacement[j] - displacement[i])
            length = ti.max(dx.norm(), SHORTEST)
            length_before = ti.max(before.norm(), SHORTEST)
            damping = spring[2] / h
            stiffness = spring[1] + damping
            tension = spring[1] * (length - spring[0]) + damping * (length - length_before)
            if ti.static(limited):
                bound = limits[entries[s]][0]
                if bound > 0.0 and length > bound:
                    stiffness += LIMIT_STIFFNESS * spring[1]
                    tension += LIMIT_STIFFNESS * spring[1] * (length - bound)
            a = ti.max(0.0, tension / length)
            w = ti.sqrt(ti.max(0.0, stiffness - a)) / length * dx
            tensor = ti.math.vec4(w[0], w[1], w[2], a)
        tensors[s] = tensor


@launch.kernel
def assemble(
    tensors: Vec4s,
    mass: Floats,
    inverse_mass: Floats,
    offsets: Ints,
    middles: Ints,
    row_springs: Ints,
    bending_upper: Floats,
    bend_rate: Floats,
    air_drag: Vec3s,
    pin_spring: Vec2s,
    h: Real,
    bounding: Integer,
    couplings: Vec4s,
    own: Vec3s,
    inverse: Vec3s,
):
    """Hessian: a tensor a 1 + w w^T per row entry, the rest per vertex.

    ``couplings`` holds (w, a); ``own`` the mass, drag and pin block; ``inverse`` that of the
    diagonal blocks D, zero at fixed vertices, so that a solve leaves them alone. ``bounding``
    leaves the negative a of bending out of D: then the Hessian is not above 2 D.
    """
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(mass.shape[0]):
        shift = mass[i] / (h * h) + pin_spring[i][0] + pin_spring[i][1] / h
        diagonal = air_drag[2 * i] / h + shift
        off_diagonal = air_drag[2 * i + 1] / h
        own[2 * i] = diagonal
        own[2 * i + 1] = off_diagonal
        rate = 1.0 + bend_rate[i] / h
        for entry in range(offsets[i], middles[i]):
            c = tensors[row_springs[entry]]
            c[3] -= rate * bending_upper[entry]
            couplings[entry] = c
            a = ti.select(bounding == 1, ti.max(c[3], 0.0), c[3])
            diagonal += a + ti.math.vec3(c[0] * c[0], c[1] * c[1], c[2] * c[2])
            off_diagonal += ti.math.vec3(c[0] * c[1], c[0] * c[2], c[1] * c[2])
        for entry in range(middles[i], offsets[i + 1]):
            a = -rate * bending_upper[entry]
            couplings[entry] = ti.math.vec4(0.0, 0.0, 0.0, a)
            diagonal += ti.select(bounding == 1, ti.max(a, 0.0), a)
        if inverse_mass[i] > 0.0:
            d, o = inverse_of(diagonal, off_diagonal)
            inverse[2 * i] = d
            inverse[2 * i + 1] = o
        else:
            inverse[2 * i] = ti.math.vec3(0.0)
            inverse[2 * i + 1] = ti.math.vec3(0.0)


@ti.func
def hessian_times(i, u: Given, offsets: Given, neighbours: Given, couplings: Given, own: Given):
    """Row i of the Hessian times u."""
    ui = u[i]
    result = symmetric_times(own, i, ui)
    for entry in range(offsets[i], offsets[i + 1]):
        c = couplings[entry]
        du = ui - u[neighbours[entry]]
        w = ti.math.vec3(c[0], c[1], c[2])
        result += c[3] * du + w.dot(du) * w
    return result


@launch.kernel
def coasting_step(v: Vec3s, inverse_mass: Floats, h: Real, step: Vec3s):
    """The step of a cloth that keeps its velocity; none for fixed vertices."""
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(v.shape[0]):
        step[i] = ti.select(inverse_mass[i] > 0.0, h, 0.0) * v[i]


@launch.kernel
def move_rigidly(label: Ints, shifts: Vec3s, turns: Vec3s, x: Vec3s, displacement: Vec3s):
    """Move every free component by its shift and its small turn about the origin."""
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(label.shape[0]):
        if label[i] >= 0:
            u = displacement[i]
            displacement[i] = u + shifts[label[i]] + turns[label[i]].cross(x[i] + u)


@launch.kernel
def add_scaled(x: Vec3s, step: Vec3s, scale: Real, result: Vec3s):
    """Result = x + scale * step."""
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(x.shape[0]):
        result[i] = x[i] + scale * step[i]


@launch.kernel
def finish_step(
    displacement: Vec3s,
    inverse_mass: Floats,
    pin_velocity: Vec3s,
    h: Real,
    share: Real,
    moved: Vec3s,
    v_before: Vec3s,
    x: Vec3s,
    v: Vec3s,
):
    """Move the cloth, give it its new velocity, and keep what BDF2 needs of the old state."""
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(x.shape[0]):
        u = displacement[i]
        v_before[i] = v[i]
        if inverse_mass[i] > 0.0:
            v[i] = (u - share * moved[i]) / h
        else:
            v[i] = pin_velocity[i]
        moved[i] = u
        x[i] += u
