# SPDX-License-Identifier: GPL-3.0-or-later
"""Device code of the air: drag and wind on triangles, gathered to the vertices."""

from .. import launch, runtime
from .rows_kernels import Floats, Ints, Real, Vec3s

ti = runtime.import_taichi()

AIR_DENSITY = 1.204  # kg/m³, at 20 °C and sea level
# Share of the drag coefficient that acts along the sheet. Skin friction of a flat plate in
# turbulent flow is a few thousandths on each side, against about 1.2 across it.
SKIN_FRICTION = 0.01


@launch.kernel
def triangle_air(
    x: Vec3s,
    v: Vec3s,
    triangles: Ints,
    drag: Floats,
    air_before: Vec3s,
    air_after: Vec3s,
    share: Real,
    triangle_force: Vec3s,
    triangle_drag: Vec3s,
):
    """Force of the air on each triangle and its derivative, a third for each corner.

    F = 1/2 rho A (c_n |u_n| u_n n + c_t |u| u_t), u the wind relative to the triangle, written
    as F(v) = force - D v about the present velocity, with D = 1/2 rho A (2 c_n |u_n| n n^T +
    c_t |u| (1 - n n^T)) positive semidefinite.
    """
    ti.loop_config(serialize=runtime.one_thread)
    for t in range(drag.shape[0]):
        a = triangles[3 * t]
        b = triangles[3 * t + 1]
        c = triangles[3 * t + 2]
        normal = (x[b] - x[a]).cross(x[c] - x[a])
        double_area = normal.norm()
        force = ti.math.vec3(0.0)
        diagonal = ti.math.vec3(0.0)
        off_diagonal = ti.math.vec3(0.0)
        if double_area > 0.0 and drag[t] > 0.0:
            n = normal / double_area
            before = air_before[a] + air_before[b] + air_before[c]
            after = air_after[a] + air_after[b] + air_after[c]
            air = (before + share * (after - before)) / 3.0
            velocity = (v[a] + v[b] + v[c]) / 3.0
            u = air - velocity
            across = u.dot(n)
            along = u - across * n
            scale = AIR_DENSITY * double_area / 12.0 * drag[t]
            skin = SKIN_FRICTION * u.norm()
            force = scale * (ti.abs(across) * across * n + skin * along)
            # D = scale * (slope n n^T + skin)
            slope = 2.0 * ti.abs(across) - skin
            diagonal = scale * (slope * n * n + skin)
            off_diagonal = scale * slope * ti.math.vec3(n[0] * n[1], n[0] * n[2], n[1] * n[2])
            force += scale * (slope * n.dot(velocity) * n + skin * velocity)
        triangle_force[t] = force
        triangle_drag[2 * t] = diagonal
        triangle_drag[2 * t + 1] = off_diagonal


@launch.kernel
def gather_air(
    offsets: Ints,
    entries: Ints,
    triangle_force: Vec3s,
    triangle_drag: Vec3s,
    share: Floats,
    air_force: Vec3s,
    air_drag: Vec3s,
):
    """Add up the triangles around each vertex; ``entries`` are triangles.

    ``share`` scales the sum to the vertex's own area: a quad gives its corners a quarter each,
    its two triangles a third and a sixth.
    """
    ti.loop_config(serialize=runtime.one_thread)
    for i in range(air_force.shape[0]):
        force = ti.math.vec3(0.0)
        diagonal = ti.math.vec3(0.0)
        off_diagonal = ti.math.vec3(0.0)
        for entry in range(offsets[i], offsets[i + 1]):
            t = entries[entry]
            force += triangle_force[t]
            diagonal += triangle_drag[2 * t]
            off_diagonal += triangle_drag[2 * t + 1]
        air_force[i] = share[i] * force
        air_drag[2 * i] = share[i] * diagonal
        air_drag[2 * i + 1] = share[i] * off_diagonal
