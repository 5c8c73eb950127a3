# SPDX-License-Identifier: GPL-3.0-or-later
"""Device code of the explicit steps (velocity Verlet) and of the forces they use."""

from .. import launch, runtime
from .rows_kernels import (
    Floats,
    Given,
    Integer,
    Ints,
    Real,
    Vec2s,
    Vec3,
    Vec3s,
    curved_hinge,
    hinge_force,
    hinge_shape,
    row_force,
    symmetric_times,
)

ti = runtime.import_taichi()

# Operations per launch. Even, so that the state ends in the buffers it started in; more of them
# save launches and cost compile time.
OPERATIONS = 16


@ti.func
def _operate(
    i,
    source_x: Given,
    source_v: Given,
    goal_x: Given,
    goal_v: Given,
    inverse_mass: Given,
    offsets: Given,
    middles: Given,
    neighbours: Given,
    springs: Given,
    bending: Given,
    bend_rate: Given,
    air_force: Given,
    air_drag: Given,
    pin_spring: Given,
    pin_target: Given,
    pin_velocity: Given,
    hinge_offsets: Given,
    hinge_entries: Given,
    hinge_forces: Given,
    gravity,
    time,
    kick,
    drift,
    curved: Given,
):
    """Vertex i: ``kick`` seconds of acceleration, then ``drift`` seconds of the new velocity."""
    v = source_v[i]
    w = inverse_mass[i]
    if w > 0.0:
        force = row_force(
            i, source_x, source_v, offsets, middles, neighbours, springs, bending, bend_rate[i]
        )
        force += air_force[i] - symmetric_times(air_drag, i, v)
        pin = pin_spring[i]
        if pin[0] > 0.0:
            target = pin_target[i] + time * pin_velocity[i]
            force += pin[0] * (target - source_x[i]) + pin[1] * (pin_velocity[i] - v)
        if ti.static(curved):
            force += hinge_force(i, hinge_offsets, hinge_entries, hinge_forces)
        v += kick * (w * force + gravity)
    goal_v[i] = v
    goal_x[i] = source_x[i] + drift * v


@launch.kernel
def explicit_operations(
    x0: Vec3s,
    v0: Vec3s,
    x1: Vec3s,
    v1: Vec3s,
    inverse_mass: Floats,
    offsets: Ints,
    middles: Ints,
    neighbours: Ints,
    springs: Vec3s,
    bending: Floats,
    bend_rate: Floats,
    air_force: Vec3s,
    air_drag: Vec3s,
    pin_spring: Vec2s,
    pin_target: Vec3s,
    pin_velocity: Vec3s,
    hinges: Ints,
    hinge_stiffness: Floats,
    hinge_offsets: Ints,
    hinge_entries: Ints,
    hinge_forces: Vec3s,
    hinge_count: Integer,
    gravity: Vec3,
    time: Real,
    h: Real,
    first_kick: Real,
    last_kick: Real,
    last_drift: Real,
    curved: Given,
):
    """Run OPERATIONS kick-and-drift operations of h seconds.

    Velocity Verlet over a whole interval is half a kick, a drift, then kicks and drifts by
    turns, and half a kick: ``first_kick``, ``last_kick`` and ``last_drift`` are the shares of
    h that the first and last operation take here.
    """
    for s in ti.static(range(OPERATIONS)):
        kick = h
        if ti.static(s == 0):
            kick = h * first_kick
        drift = h
        if ti.static(s == OPERATIONS - 1):
            kick = h * last_kick
            drift = h * last_drift
        if ti.static(s % 2 == 0):
            if ti.static(curved):
                ti.loop_config(serialize=runtime.one_thread)
                for k in range(hinge_count):
                    edge, p, q = hinge_shape(k, x0, hinges)
                    curved_hinge(k, edge, p, q, hinge_stiffness, hinge_forces)
            ti.loop_config(block_dim=256, serialize=runtime.one_thread)
            for i in range(x0.shape[0]):
                _operate(
                    i, x0, v0, x1, v1, inverse_mass, offsets, middles, neighbours, springs,
                    bending, bend_rate, air_force, air_drag, pin_spring, pin_target,
                    pin_velocity, hinge_offsets, hinge_entries, hinge_forces, gravity,
                    time + s * h, kick, drift, curved,
                )  # fmt: skip
        else:
            if ti.static(curved):
                ti.loop_config(serialize=runtime.one_thread)
                for k in range(hinge_count):
                    edge, p, q = hinge_shape(k, x1, hinges)
                    curved_hinge(k, edge, p, q, hinge_stiffness, hinge_forces)
            ti.loop_config(block_dim=256, serialize=runtime.one_thread)
            for i in range(x0.shape[0]):
                _operate(
                    i, x1, v1, x0, v0, inverse_mass, offsets, middles, neighbours, springs,
                    bending, bend_rate, air_force, air_drag, pin_spring, pin_target,
                    pin_velocity, hinge_offsets, hinge_entries, hinge_forces, gravity,
                    time + s * h, kick, drift, curved,
                )  # fmt: skip
