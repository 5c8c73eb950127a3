# SPDX-License-Identifier: GPL-3.0-or-later
"""Device code of the forces: springs, bending, hinges with a curved rest shape, air.

A vertex gathers over its row: entries ``offsets[i] .. offsets[i + 1]`` name its neighbours.
Up to ``middles[i]`` an entry is a spring (and perhaps bending), after it bending alone.
Gathers need no atomics, so the result does not depend on the order of threads.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

from .. import runtime

ti = runtime.import_taichi()
if TYPE_CHECKING:
    Ints: TypeAlias = Any
    Floats: TypeAlias = Any
    Vec2s: TypeAlias = Any
    Vec3s: TypeAlias = Any
    Vec4s: TypeAlias = Any
    Integer: TypeAlias = Any
    Real: TypeAlias = Any
    Vec3: TypeAlias = Any
    Given: TypeAlias = Any
else:
    Ints = ti.types.ndarray(dtype=ti.i32, ndim=1)
    Floats = ti.types.ndarray(dtype=ti.f32, ndim=1)
    Vec2s = ti.types.ndarray(dtype=ti.math.vec2, ndim=1)
    Vec3s = ti.types.ndarray(dtype=ti.math.vec3, ndim=1)
    Vec4s = ti.types.ndarray(dtype=ti.math.vec4, ndim=1)
    Integer = ti.i32
    Real = ti.f32
    Vec3 = ti.math.vec3
    # Arrays and constants that a kernel hands on to a function.
    Given = ti.template()

# A spring shorter than this (m) has no direction.
SHORTEST = 1e-12
# Slots of a hinge: its edge's two ends and its two wings of two vertices each.
SLOTS = 6
FORCES = 4


@ti.func
def row_force(
    i,
    x: Given,
    v: Given,
    offsets: Given,
    middles: Given,
    neighbours: Given,
    springs: Given,
    bending: Given,
    bend_rate,
):
    """Spring and flat bending force on vertex i, N.

    ``springs`` holds rest length (m), stiffness (N/m) and damping (N s/m); ``bending`` the
    off-diagonal entries of the bending matrix (N/m); ``bend_rate`` its damping time (s).
    """
    xi = x[i]
    vi = v[i]
    force = ti.math.vec3(0.0)
    for entry in range(offsets[i], middles[i]):
        j = neighbours[entry]
        spring = springs[entry]
        dx = x[j] - xi
        dv = v[j] - vi
        length2 = dx.dot(dx)
        if length2 > SHORTEST * SHORTEST:
            length = ti.sqrt(length2)
            pull = spring[1] * (1.0 - spring[0] / length) + spring[2] * dv.dot(dx) / length2
            force += pull * dx
        force -= bending[entry] * (dx + bend_rate * dv)
    for entry in range(middles[i], offsets[i + 1]):
        j = neighbours[entry]
        force -= bending[entry] * ((x[j] - xi) + bend_rate * (v[j] - vi))
    return force


@ti.func
def symmetric_times(matrix: Given, i, v):
    """Symmetric matrix i, stored as the two vectors (xx, yy, zz) and (xy, xz, yz), times v."""
    d = matrix[2 * i]
    o = matrix[2 * i + 1]
    return ti.math.vec3(
        d[0] * v[0] + o[0] * v[1] + o[1] * v[2],
        o[0] * v[0] + d[1] * v[1] + o[2] * v[2],
        o[1] * v[0] + o[2] * v[1] + d[2] * v[2],
    )


@ti.func
def hinge_shape(k, x: Given, hinges: Given):
    """Edge vector and the two wing vectors of hinge k, from the edge's first end."""
    origin = x[hinges[SLOTS * k]]
    edge = x[hinges[SLOTS * k + 1]] - origin
    p = 0.5 * (x[hinges[SLOTS * k + 2]] + x[hinges[SLOTS * k + 3]]) - origin
    q = 0.5 * (x[hinges[SLOTS * k + 4]] + x[hinges[SLOTS * k + 5]]) - origin
    return edge, p, q


@ti.func
def curved_hinge(k, edge, p, q, stiffness: Given, forces: Given):
    """Forces of the curved part of hinge k, which pulls it towards its rest angle.

    Its energy is -stiffness * det(edge, p, q), a cubic polynomial (the volume between the
    two flaps), see "Cubic shells" (Garg, Grinspun, Wardetzky, Zorin 2007).
    """
    c = stiffness[k]
    on_edge = c * p.cross(q)
    on_p = c * q.cross(edge)
    on_q = c * edge.cross(p)
    forces[FORCES * k] = -(on_edge + on_p + on_q)
    forces[FORCES * k + 1] = on_edge
    forces[FORCES * k + 2] = on_p
    forces[FORCES * k + 3] = on_q


@ti.func
def hinge_force(i, offsets: Given, entries: Given, forces: Given):
    """Sum of the curved hinges' forces on vertex i.

    An entry is 2 * (index into forces), plus 1 where the vertex is half of a wing.
    """
    force = ti.math.vec3(0.0)
    for entry in range(offsets[i], offsets[i + 1]):
        code = entries[entry]
        share = 1.0 - 0.5 * (code % 2)
        force += share * forces[code // 2]
    return force
