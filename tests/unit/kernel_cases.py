# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs every kernel of the hybrid solver on fixed random data and gives back what it wrote.

Run as a program it does so on the device that is named and saves the arrays, so that devices
can be compared: ``python -m tests.unit.kernel_cases DEVICE RESULT.npz KERNELS THREADS``.
"""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from taichi_cloth_addon.engine import runtime
from taichi_cloth_addon.engine.hybrid import (
    air_kernels,
    explicit_kernels,
    implicit_kernels,
    linear_kernels,
    strain_kernels,
)
from taichi_cloth_addon.engine.hybrid.device import DeviceModel
from taichi_cloth_addon.engine.hybrid.linear import SuccessiveOverRelaxation, System
from taichi_cloth_addon.engine.hybrid.multigrid import Multigrid
from taichi_cloth_addon.engine.material import Fabric
from taichi_cloth_addon.engine.model import ClothModel, ClothPart, build_model
from tests.shapes import Shape, cylinder_mesh, jittered_sheet, merge

Array = npt.NDArray[np.float64]
Result = dict[str, npt.NDArray[np.float32]]

H = 1.0 / 120.0
TIME = 0.7 * H
SHARE = 0.3
ACCELERATION = 9.0
NOISE = 0.7
# Longest length over the rest length.
LIMIT = 1.05
OMEGA = 1.3
GRAVITY = [0.3, -0.5, -9.81]
# Components of vertices, none for -1, and where they go, m.
LABELS = np.array([-1, 0, 1])
SHIFTS = np.array([[0.1, 0.0, -0.2], [0.0, 0.3, 0.05]])
TURNS = 0.1 * SHIFTS[::-1].copy()
# Explicit operations want a step that is stable.
H_EXPLICIT = 2e-4

FABRIC = Fabric(
    density=0.2,
    tension_stiffness=300.0,
    shear_stiffness=40.0,
    bending_stiffness=2e-3,
    tension_damping=0.05,
    shear_damping=0.02,
    bending_damping=1e-5,
    air_drag=1.2,
)


@dataclass(frozen=True)
class Data:
    """A model with random states around its rest shape; all arrays in the model's order."""

    model: ClothModel
    seed: int

    def _random(self, number: int, size: float) -> npt.NDArray[np.float32]:
        random = np.random.default_rng(self.seed + number)
        return (size * random.normal(size=(self.model.vertex_count, 3))).astype(np.float32)

    @cached_property
    def start(self) -> npt.NDArray[np.float32]:
        """Where the step begins, m."""
        return self.model.positions.astype(np.float32) + self._random(1, 0.01)

    @cached_property
    def x(self) -> npt.NDArray[np.float32]:
        """The iterate, m."""
        return self.start + self._random(2, 0.01)

    @cached_property
    def target(self) -> npt.NDArray[np.float32]:
        """The inertial target, m."""
        return self.start + self._random(3, 0.01)

    @cached_property
    def v(self) -> npt.NDArray[np.float32]:
        """Velocities, m/s."""
        return self._random(4, 1.0)

    @cached_property
    def air_before(self) -> npt.NDArray[np.float32]:
        """m/s."""
        return self._random(5, 3.0)

    @cached_property
    def air_after(self) -> npt.NDArray[np.float32]:
        """m/s."""
        return self._random(6, 3.0)

    @cached_property
    def pin_target(self) -> npt.NDArray[np.float32]:
        """m."""
        return self.start + self._random(7, 0.02)

    @cached_property
    def pin_velocity(self) -> npt.NDArray[np.float32]:
        """m/s."""
        return self._random(8, 0.5)


def limit_lengths(data: Data) -> Array:
    """Lengths (R, 2) by row entry, m: none for every third spring."""
    network = data.model.network
    longest = LIMIT * network.rest_length * (np.arange(len(network.rest_length)) % 3 != 0)
    return data.model.rows.spring_values(np.stack([longest, longest], axis=1))


def _part(shape: Shape) -> ClothPart:
    mesh, rest = shape
    pins = np.array([0, 5, 9, 14, 20], dtype=np.int32)
    weights = np.array([1.0, 0.5, 1.0, 0.8, 0.3])
    return ClothPart("cloth", mesh, rest, rest, FABRIC, pins, weights, 400.0)


def curved_data() -> Data:
    """A jittered sheet beside a cylinder, whose rest shape is not flat."""
    other = cylinder_mesh(9, 5, 0.3, 0.6)
    shape = merge(jittered_sheet(6, 6, 0.5, 0.5), (other[0], other[1] + [1.5, 0.0, 0.0]))
    return Data(build_model([_part(shape)]), 10)


def flat_data() -> Data:
    """A jittered sheet."""
    return Data(build_model([_part(jittered_sheet(7, 6, 0.5, 0.5))]), 20)


@dataclass(frozen=True)
class Kernels:
    """Calls kernels with the arrays that their arguments' names stand for."""

    data: Data
    device: DeviceModel

    def call(self, kernel: Callable[..., Any], **given: Any) -> Any:
        """Call with ``given``; other arguments are the device model's of the same name."""
        couplings = self.device.everything
        arguments = []
        for name in inspect.signature(kernel).parameters:
            if name in given:
                arguments.append(given[name])
            elif hasattr(couplings, name):
                arguments.append(getattr(couplings, name))
            else:
                arguments.append(getattr(self.device, name))
        return kernel(*arguments)

    def vectors(self, name: str) -> Any:
        """One of the data's arrays on the device."""
        return runtime.upload(getattr(self.data, name))

    def moved(self, name: str) -> Any:
        """How far one of the data's arrays lies from the step's start."""
        return runtime.upload(getattr(self.data, name) - self.data.start)

    def zeros(self, width: int = 3) -> Any:
        """One vector a vertex."""
        return runtime.zeros(self.device.count, width)


def _kernels(data: Data) -> Kernels:
    device = DeviceModel(data.model)
    for name in ("pin_target", "pin_velocity", "air_before", "air_after"):
        setattr(device, name, runtime.upload(getattr(data, name)))
    return Kernels(data, device)


def _air(k: Kernels) -> Result:
    device = k.device
    k.call(
        air_kernels.triangle_air,
        x=k.vectors("x"),
        v=k.vectors("v"),
        drag=device.air_coefficient,
        share=SHARE,
    )
    k.call(
        air_kernels.gather_air,
        offsets=device.triangle_offsets,
        entries=device.triangle_entries,
        share=device.air_share,
    )
    return {
        "triangle_force": device.triangle_force.to_numpy(),
        "triangle_drag": device.triangle_drag.to_numpy(),
        "air_force": device.air_force.to_numpy(),
        "air_drag": device.air_drag.to_numpy(),
    }


def _explicit(k: Kernels) -> Result:
    x, v = k.vectors("start"), k.vectors("v")
    k.call(
        explicit_kernels.explicit_operations,
        x0=x,
        v0=v,
        x1=k.zeros(),
        v1=k.zeros(),
        hinge_count=k.device.curved_count,
        gravity=GRAVITY,
        time=TIME,
        h=H_EXPLICIT,
        first_kick=0.5,
        last_kick=0.5,
        last_drift=0.0,
    )
    return {"explicit_x": x.to_numpy(), "explicit_v": v.to_numpy()}


def _small(k: Kernels) -> Result:
    force, inertial, displacement, step, result = (k.zeros() for _ in range(5))
    k.call(implicit_kernels.explicit_row_forces, x=k.vectors("x"), v=k.vectors("v"), force=force)
    k.call(
        implicit_kernels.inertial_displacement,
        v=k.vectors("v"),
        v_before=k.vectors("pin_velocity"),
        moved=k.vectors("x"),
        force=force,
        gravity=GRAVITY,
        h=H,
        second=0,
        inertial=inertial,
    )
    second_inertial = k.zeros()
    k.call(
        implicit_kernels.inertial_displacement,
        v=k.vectors("v"),
        v_before=k.vectors("pin_velocity"),
        moved=k.vectors("x"),
        force=force,
        gravity=GRAVITY,
        h=H,
        second=1,
        inertial=second_inertial,
    )
    lagging = k.zeros()
    k.call(implicit_kernels.explicit_row_forces, x=k.vectors("x"), v=k.vectors("v"), force=lagging)
    k.call(
        implicit_kernels.lag_forces,
        x=k.vectors("x"),
        moved=k.moved("target"),
        share=SHARE,
        keep=0.5,
        h=H,
        force=lagging,
    )
    k.call(
        implicit_kernels.start_displacement,
        x=k.vectors("start"),
        source=k.moved("target"),
        share=0.5,
        time=TIME,
        displacement=displacement,
    )
    k.call(implicit_kernels.coasting_step, v=k.vectors("v"), h=H, step=step)
    shifted = k.vectors("x")
    k.call(
        implicit_kernels.move_rigidly,
        label=runtime.upload(LABELS[np.arange(k.device.count) % len(LABELS)]),
        shifts=runtime.upload(SHIFTS),
        turns=runtime.upload(TURNS),
        x=k.vectors("start"),
        displacement=shifted,
    )
    k.call(
        implicit_kernels.add_scaled,
        x=k.vectors("x"),
        step=k.vectors("v"),
        scale=0.25,
        result=result,
    )
    x, v, moved, v_before = k.vectors("start"), k.vectors("v"), k.moved("target"), k.zeros()
    k.call(
        implicit_kernels.finish_step,
        displacement=k.moved("x"),
        h=H,
        share=SHARE,
        moved=moved,
        v_before=v_before,
        x=x,
        v=v,
    )
    shortened, excess = k.zeros(), k.zeros(1)
    k.call(
        strain_kernels.shorten,
        displacement=k.moved("x"),
        x=k.vectors("start"),
        limits=runtime.upload(limit_lengths(k.data)),
        result=shortened,
        excess=excess,
    )
    most = linear_kernels.largest(excess, k.device.count, runtime.zeros(99))
    named = {
        "shortened": shortened,
        "excess": excess,
        "most_excess": runtime.upload(np.array([most])),
        "second_inertial": second_inertial,
        "lag_forces": lagging,
        "finished_moved": moved,
        "finished_v_before": v_before,
        "row_forces": force,
        "inertial_displacement": inertial,
        "start_displacement": displacement,
        "coasting_step": step,
        "add_scaled": result,
        "moved_rigidly": shifted,
        "finished_x": x,
        "finished_v": v,
    }
    return {name: array.to_numpy() for name, array in named.items()}


def _energy(k: Kernels) -> Result:
    device = k.device
    gradient, energy = k.zeros(), k.zeros(1)
    x, displacement = k.vectors("start"), k.moved("x")
    k.call(
        implicit_kernels.curved_forces,
        x=x,
        displacement=displacement,
        stiffness=device.everything.hinge_stiffness,
        count=device.curved_count,
        forces=device.hinge_forces,
        energy=device.hinge_energy,
    )
    k.call(
        implicit_kernels.evaluate,
        displacement=displacement,
        x=x,
        inertial=k.moved("target"),
        time=TIME,
        h=H,
        gradient=gradient,
        energy=energy,
    )
    partial = runtime.zeros(device.count)
    total = linear_kernels.sum_values(energy, device.count, partial)
    return {
        "hinge_forces": device.hinge_forces.to_numpy(),
        "hinge_energy": device.hinge_energy.to_numpy(),
        "gradient": gradient.to_numpy(),
        "energy": energy.to_numpy(),
        "energy_sum": np.array([total], dtype=np.float32),
    }


def _linear(k: Kernels, name: str) -> Result:
    device = k.device
    multigrid = Multigrid(device)
    system = System(
        runtime.zeros(device.spring_count, 4),
        runtime.zeros(len(device.model.rows.neighbours), 4),
        runtime.zeros(2 * multigrid.nodes, 3),
        runtime.zeros(2 * multigrid.nodes, 3),
        k.vectors("v"),
    )
    k.call(
        implicit_kernels.spring_tensors,
        displacement=k.moved(name),
        x=k.vectors("start"),
        ends=device.spring_ends,
        entries=device.spring_entries,
        count=device.spring_count,
        h=H,
        tensors=system.tensors,
    )

    def assemble(bounding: int) -> None:
        k.call(
            implicit_kernels.assemble,
            tensors=system.tensors,
            h=H,
            bounding=bounding,
            couplings=system.couplings,
            own=system.own,
            inverse=system.inverse,
        )

    assemble(1)
    multigrid.prepare(system, H)
    step = k.zeros()
    gradients = multigrid.solve(system, step, 1e-5, 400)
    by_multigrid = step.to_numpy()
    bounds = system.inverse.to_numpy()
    assemble(0)
    step = k.zeros()
    sweeps = SuccessiveOverRelaxation(device).solve(system, step, 1e-5, 8000)
    partial = runtime.zeros(99)
    norm = linear_kernels.residual_norm2(system.gradient, system.inverse, partial)
    floor = linear_kernels.force_norm2(
        device.mass, device.mass, system.inverse, ACCELERATION, NOISE, partial
    )
    vertices = 2 * device.count
    energies = runtime.zeros(2)
    linear_kernels.step_energies(system.gradient, k.moved(name), device.mass, partial, energies)
    bend = linear_kernels.curvature_along(
        k.vectors("v"),
        device.inverse_mass,
        device.offsets,
        device.neighbours,
        system.couplings,
        system.own,
        partial,
    )
    return {
        "curvature": np.array([bend], dtype=np.float32),
        "step_energies": energies.to_numpy(),
        "couplings": system.couplings.to_numpy(),
        "own": system.own.to_numpy()[:vertices],
        "inverse": system.inverse.to_numpy()[:vertices],
        "bounding_inverse": bounds[:vertices],
        "coarse_own": system.own.to_numpy()[vertices:],
        "coarse_inverse": bounds[vertices:],
        "by_multigrid": by_multigrid,
        "by_sweeps": step.to_numpy(),
        "solved_to": np.array([gradients.residual, sweeps.residual], dtype=np.float32),
        "norm2": np.array([norm], dtype=np.float32),
        "floor2": np.array([floor], dtype=np.float32),
    }


def run_all(data: Data) -> Result:
    """Everything that the kernels write, by name."""
    k = _kernels(data)
    # Air first: its drag enters the others.
    result = {**_air(k), **_explicit(k), **_small(k), **_energy(k)}
    # At the step's start, where the Hessian is that of the energy, and elsewhere.
    result.update({f"start_{key}": value for key, value in _linear(k, "start").items()})
    result.update({f"x_{key}": value for key, value in _linear(k, "x").items()})
    return result


def main(arguments: list[str]) -> int:
    """Save the results of both data sets; 3 if the device is not there.

    Args:
        arguments: device, file, folder of kernels, number of CPU threads.
    """
    device = runtime.Device(arguments[0])
    started = runtime.start(device, arguments[2], int(arguments[3]))
    if started.device is not device:
        print(*started.messages)
        return 3
    results = {}
    for name, data in (("curved", curved_data()), ("flat", flat_data())):
        results.update({f"{name}_{key}": value for key, value in run_all(data).items()})
    np.savez(arguments[1], **results)  # type: ignore[arg-type]
    runtime.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
