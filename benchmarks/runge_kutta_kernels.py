# SPDX-License-Identifier: GPL-3.0-or-later
"""Device code of the classical Runge-Kutta method on the engine's springs, bending and air.

The product does not ship it: it is the explicit method of the comparison in single
precision, and the reference of the accuracy tables in double precision. Shapes with curved
rest hinges are not supported.
"""

from typing import Any

from taichi_cloth_addon.engine import runtime
from taichi_cloth_addon.engine.hybrid.air_kernels import AIR_DENSITY, SKIN_FRICTION

ti = runtime.import_taichi()

# Steps per launch.
STEPS = 2


def make_kernel(real: Any) -> Any:
    """The kernel for ti.f32 or ti.f64."""
    vec3 = ti.types.vector(3, real)
    vec2 = ti.types.vector(2, real)
    vectors = ti.types.ndarray(dtype=vec3, ndim=1)
    pairs = ti.types.ndarray(dtype=vec2, ndim=1)
    floats = ti.types.ndarray(dtype=real, ndim=1)
    ints = ti.types.ndarray(dtype=ti.i32, ndim=1)

    @ti.func
    def air(
        x: ti.template(),
        v: ti.template(),
        triangles: ti.template(),
        drag: ti.template(),
        forces: ti.template(),
        wind,
        t,
    ):
        a = triangles[3 * t]
        b = triangles[3 * t + 1]
        c = triangles[3 * t + 2]
        normal = (x[b] - x[a]).cross(x[c] - x[a])
        double_area = normal.norm()
        n = normal / double_area
        u = wind - (v[a] + v[b] + v[c]) / ti.cast(3, real)
        across = u.dot(n)
        along = u - across * n
        scale = ti.cast(AIR_DENSITY / 12.0, real) * double_area * drag[t]
        skin = ti.cast(SKIN_FRICTION, real) * u.norm()
        forces[t] = scale * (ti.abs(across) * across * n + skin * along)

    @ti.func
    def acceleration(
        i,
        x: ti.template(),
        v: ti.template(),
        inverse_mass: ti.template(),
        offsets: ti.template(),
        neighbours: ti.template(),
        springs: ti.template(),
        bending: ti.template(),
        triangle_offsets: ti.template(),
        triangle_entries: ti.template(),
        triangle_forces: ti.template(),
        gravity,
        has_air: ti.template(),
    ):
        result = vec3(0)
        if inverse_mass[i] > 0:
            xi = x[i]
            vi = v[i]
            force = vec3(0)
            for entry in range(offsets[i], offsets[i + 1]):
                j = neighbours[entry]
                spring = springs[entry]
                bend = bending[entry]
                dx = x[j] - xi
                dv = v[j] - vi
                if spring[1] > 0:
                    length2 = dx.dot(dx)
                    pull = spring[1] * (1 - spring[0] / ti.sqrt(length2))
                    pull += spring[2] * dv.dot(dx) / length2
                    force += pull * dx
                force -= bend[0] * dx + bend[1] * dv
            if ti.static(has_air):
                for entry in range(triangle_offsets[i], triangle_offsets[i + 1]):
                    force += triangle_forces[triangle_entries[entry]]
            result = inverse_mass[i] * force + gravity
        return result

    @ti.kernel
    def steps(
        x: vectors,
        v: vectors,
        xa: vectors,
        va: vectors,
        xb: vectors,
        vb: vectors,
        sum_x: vectors,
        sum_v: vectors,
        inverse_mass: floats,
        offsets: ints,
        neighbours: ints,
        springs: vectors,
        bending: pairs,
        triangles: ints,
        drag: floats,
        triangle_offsets: ints,
        triangle_entries: ints,
        triangle_forces: vectors,
        gravity: vec3,
        wind: vec3,
        h: real,
        has_air: ti.template(),
    ):
        """STEPS steps of h seconds with a steady wind and pins that do not move."""
        for _ in ti.static(range(STEPS)):
            if ti.static(has_air):
                for t in range(drag.shape[0]):
                    air(x, v, triangles, drag, triangle_forces, wind, t)
            for i in range(x.shape[0]):
                kv = acceleration(
                    i, x, v, inverse_mass, offsets, neighbours, springs, bending,
                    triangle_offsets, triangle_entries, triangle_forces, gravity, has_air,
                )  # fmt: skip
                kx = v[i]
                sum_x[i] = kx
                sum_v[i] = kv
                xa[i] = x[i] + h / 2 * kx
                va[i] = v[i] + h / 2 * kv
            if ti.static(has_air):
                for t in range(drag.shape[0]):
                    air(xa, va, triangles, drag, triangle_forces, wind, t)
            for i in range(x.shape[0]):
                kv = acceleration(
                    i, xa, va, inverse_mass, offsets, neighbours, springs, bending,
                    triangle_offsets, triangle_entries, triangle_forces, gravity, has_air,
                )  # fmt: skip
                kx = va[i]
                sum_x[i] += 2 * kx
                sum_v[i] += 2 * kv
                xb[i] = x[i] + h / 2 * kx
                vb[i] = v[i] + h / 2 * kv
            if ti.static(has_air):
                for t in range(drag.shape[0]):
                    air(xb, vb, triangles, drag, triangle_forces, wind, t)
            for i in range(x.shape[0]):
                kv = acceleration(
                    i, xb, vb, inverse_mass, offsets, neighbours, springs, bending,
                    triangle_offsets, triangle_entries, triangle_forces, gravity, has_air,
                )  # fmt: skip
                kx = vb[i]
                sum_x[i] += 2 * kx
                sum_v[i] += 2 * kv
                xa[i] = x[i] + h * kx
                va[i] = v[i] + h * kv
            if ti.static(has_air):
                for t in range(drag.shape[0]):
                    air(xa, va, triangles, drag, triangle_forces, wind, t)
            for i in range(x.shape[0]):
                kv = acceleration(
                    i, xa, va, inverse_mass, offsets, neighbours, springs, bending,
                    triangle_offsets, triangle_entries, triangle_forces, gravity, has_air,
                )  # fmt: skip
                x[i] += h / 6 * (sum_x[i] + va[i])
                v[i] += h / 6 * (sum_v[i] + kv)

    return steps
