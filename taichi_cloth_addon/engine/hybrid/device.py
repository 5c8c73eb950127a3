# SPDX-License-Identifier: GPL-3.0-or-later
"""The model and the state on the device, and what every kind of step shares: air and pins."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .. import heap, rows, runtime, transfer, wind
from ..bending import bending_matrix
from ..inputs import FrameInputs, Sample
from ..model import LEAST_REST_COSINE, ClothModel, ClothState
from ..runtime import DeviceArray
from . import air_kernels

# Share of the strain limit from which on a spring is stiffer.
STIFF_FROM = 0.5
_NO_LIMITS = np.zeros((0, 2))

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Couplings:
    """Springs and bending by row entry, all or those of one side of the hybrid split.

    Attributes:
        springs: rest length (m), stiffness (N/m), damping (N s/m) of each entry.
        bending: off-diagonal of the bending matrix (N/m).
        bending_upper: the same without the cosines of the rest angles.
        hinge_stiffness: coefficient of each curved hinge, N/m².
        curved: whether there is a curved hinge.
    """

    springs: DeviceArray
    bending: DeviceArray
    bending_upper: DeviceArray
    hinge_stiffness: DeviceArray
    curved: bool


class DeviceModel:
    """Device arrays of a model. The names follow ClothModel."""

    def __init__(self, model: ClothModel) -> None:
        """Copy the model to the device."""
        self.model = model
        self.count = model.vertex_count
        inverse_mass = np.where(model.fixed, 0.0, 1.0 / np.maximum(model.mass, 1e-30))
        self.mass = runtime.upload(model.mass)
        self.inverse_mass = runtime.upload(inverse_mass)
        self.offsets = runtime.upload(model.rows.offsets)
        self.middles = runtime.upload(model.rows.middles)
        self.neighbours = runtime.upload(model.rows.neighbours)
        self.entry_count = len(model.rows.neighbours)
        self.row_springs = runtime.upload(model.rows.spring)
        self.spring_count = len(model.network.vertices)
        self.spring_ends = runtime.upload(model.network.vertices.reshape(-1))
        self.spring_entries = runtime.upload(_spring_entries(model.rows, self.spring_count))
        self.bend_rate = runtime.upload(model.bend_rate)
        self._curved_index, self._curved_stiffness = rows.curved_hinges(model.hinges, model.rest)
        curved_vertices = model.hinges.vertices[self._curved_index]
        self.curved_count = len(curved_vertices)
        self.hinges = runtime.upload(curved_vertices.reshape(-1))
        offsets, entries = rows.incidence(curved_vertices, self.count)
        self.hinge_offsets = runtime.upload(offsets)
        self.hinge_entries = runtime.upload(_hinge_codes(entries))
        self.hinge_forces = runtime.zeros(4 * self.curved_count, 3)
        self.hinge_energy = runtime.zeros(self.curved_count)
        self.everything = self.couplings(None, None)
        heap.trim()

        self.has_air = bool((model.air_drag > 0.0).any())
        if self.has_air:
            self._upload_triangles()
        self.air_force = runtime.zeros(self.count, 3)
        self.air_drag = runtime.zeros(2 * self.count, 3)

        self.limited = any(part.strain_limit > 0.0 for part in model.parts)
        lengths = model.rows.spring_values(_limit_lengths(model)) if self.limited else _NO_LIMITS
        self.limits = runtime.upload(lengths)

        pin_spring = np.zeros((self.count, 2), dtype=np.float32)
        pin_spring[model.pin_vertices, 0] = model.pin_stiffness
        pin_spring[model.pin_vertices, 1] = model.pin_damping
        self.pin_spring = runtime.upload(pin_spring)
        self.damped = bool(
            self.has_air
            or (model.network.damping > 0.0).any()
            or (model.bend_rate > 0.0).any()
            or (model.pin_damping > 0.0).any()
        )
        self.pin_target = runtime.upload(model.positions)
        self.pin_velocity = runtime.zeros(self.count, 3)

        self.x = runtime.zeros(self.count, 3)
        self.v = runtime.zeros(self.count, 3)

    def _upload_triangles(self) -> None:
        """What only cloths that feel the air need."""
        model = self.model
        self.triangles = runtime.upload(model.triangles.reshape(-1))
        self.air_coefficient = runtime.upload(model.air_drag)
        offsets, entries = rows.incidence(model.triangles, self.count)
        self.triangle_offsets = runtime.upload(offsets)
        self.triangle_entries = runtime.upload(entries // 3)
        self.triangle_force = runtime.zeros(len(model.triangles), 3)
        self.triangle_drag = runtime.zeros(2 * len(model.triangles), 3)
        self.air_share = runtime.upload(model.air_share)
        self.air_before = runtime.zeros(self.count, 3)
        self.air_after = runtime.zeros(self.count, 3)

    def couplings(self, springs: Mask | None, hinges: Mask | None) -> Couplings:
        """The couplings of the chosen springs and hinges; None chooses all."""
        model = self.model
        network = model.network
        # In the device's precision at once: what follows copies them.
        values = np.empty((self.spring_count, 3), dtype=np.float32)
        for column, array in enumerate((network.rest_length, network.stiffness, network.damping)):
            values[:, column] = array
        bending, upper = model.bending.weights, model.bending_upper.weights
        curved = self._curved_stiffness
        if springs is not None:
            values[~springs, 1:] = 0.0
        if hinges is not None:
            chosen = hinges.astype(np.float64)
            cosine = np.maximum(np.cos(model.hinges.rest_angle), LEAST_REST_COSINE)
            bending = self._bending(chosen * cosine)
            upper = self._bending(chosen)
            curved = curved * hinges[self._curved_index]
        uploaded = runtime.upload(model.rows.bending_values(bending.astype(np.float32)))
        return Couplings(
            runtime.upload(model.rows.spring_values(values)),
            uploaded,
            # Where all hinges are flat the two are one.
            uploaded
            if upper is bending
            else runtime.upload(model.rows.bending_values(upper.astype(np.float32))),
            runtime.upload(curved),
            len(curved) > 0,
        )

    def _bending(self, factor: Array) -> Array:
        hinges = self.model.hinges
        scaled = replace(hinges, stiffness=hinges.stiffness * factor)
        return bending_matrix(scaled, self.model.rest, self.count).weights

    def load(self, state: ClothState) -> None:
        """Copy a state to the device."""
        transfer.write(self.x, state.positions)
        transfer.write(self.v, state.velocities)

    def store(self, state: ClothState) -> None:
        """Copy the device's state back."""
        state.positions = transfer.read(self.x)
        state.velocities = transfer.read(self.v)

    def set_pins(self, start: Sample, end: Sample, duration: float, exact: bool) -> None:
        """Let the pins move evenly from one sample's targets to the other's.

        Args:
            start: at the interval's start.
            end: at its end.
            duration: its length, s.
            exact: put fixed vertices where they belong at the start and give them their
                velocity, as explicit steps need.
        """
        model = self.model
        pins = model.pin_vertices
        first = start.pin_targets - model.origin
        last = end.pin_targets - model.origin
        target = model.positions.astype(np.float32)
        velocity = np.zeros_like(target)
        target[pins] = first
        velocity[pins] = (last - first) / duration
        transfer.write(self.pin_target, target)
        transfer.write(self.pin_velocity, velocity)
        if exact:
            x, v = transfer.read(self.x), transfer.read(self.v)
            x[model.fixed] = target[model.fixed]
            v[model.fixed] = velocity[model.fixed]
            transfer.write(self.x, x)
            transfer.write(self.v, v)

    def set_wind(
        self, inputs: FrameInputs, start: Sample, end: Sample, time: float, duration: float
    ) -> None:
        """Evaluate the air's velocity at the vertices at both ends of an interval."""
        if not self.has_air:
            return
        points = transfer.read(self.x).astype(np.float64) + self.model.origin
        for array, sample, when in (
            (self.air_before, start, time),
            (self.air_after, end, time + duration),
        ):
            air = np.empty_like(points)
            for cloth, part in enumerate(self.model.parts):
                own = self.model.slices[cloth]
                air[own] = wind.air_velocity(
                    points[own],
                    sample,
                    sample.wind[cloth],
                    float(inputs.gusts[cloth]),
                    when,
                    part.use_fields,
                )
            transfer.write(array, air)

    def update_air(self, share: float) -> None:
        """Evaluate drag and wind at the present state, ``share`` of the interval through."""
        if not self.has_air:
            return
        air_kernels.triangle_air(
            self.x,
            self.v,
            self.triangles,
            self.air_coefficient,
            self.air_before,
            self.air_after,
            share,
            self.triangle_force,
            self.triangle_drag,
        )
        air_kernels.gather_air(
            self.triangle_offsets,
            self.triangle_entries,
            self.triangle_force,
            self.triangle_drag,
            self.air_share,
            self.air_force,
            self.air_drag,
        )


def _limit_lengths(model: ClothModel) -> Array:
    """Lengths (S, 2), m, from which a spring stiffens and that it must not exceed; 0 for none."""
    limits = model.strain_limits()
    limited = np.isfinite(limits)
    strain = np.where(limited, limits, 0.0)
    lengths = model.network.rest_length[:, None] * np.stack(
        [1.0 + STIFF_FROM * strain, 1.0 + strain], axis=1
    )
    return np.where(limited[:, None], lengths, 0.0)


def _spring_entries(table: rows.Rows, count: int) -> npt.NDArray[np.int32]:
    """One of the two row entries of each spring."""
    entries = np.zeros(count, dtype=np.int32)
    used = np.flatnonzero(table.spring >= 0)
    entries[table.spring[used]] = used
    return entries


def _hinge_codes(entries: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Turn hinge * 6 + slot into 2 * (hinge * 4 + force) + (1 for half a wing)."""
    hinge, slot = np.divmod(entries, 6)
    force = np.array([0, 1, 2, 2, 3, 3])[slot]
    half = (slot > 1).astype(np.int32)
    codes: npt.NDArray[np.int32] = (2 * (4 * hinge + force) + half).astype(np.int32)
    return codes
