# SPDX-License-Identifier: GPL-3.0-or-later
"""The cloth model, which does not change during a bake, and its state, which does."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import heap
from .bending import HingeSet, SparseMatrix, bending_matrices, build_hinges
from .hinges import between, columns, cross, dot, gathered
from .material import Fabric
from .mesh import (
    Mesh,
    Triangulation,
    clean_faces,
    components,
    morton_order,
    select_faces,
    triangulate,
    vertex_areas,
)
from .rows import Rows, build_rows, curved_mask, row_sums
from .springs import SpringKind, SpringNetwork, build_springs

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int32]

# A vertex lighter than this share of its cloth's median mass is made that heavy: slivers would
# otherwise set the time step of the whole cloth.
_LEAST_MASS = 0.02
_QUAD = 4
# Triangles at a time, so that their arrays stay in the processor's cache.
_PIECE = 16384
# Damping ratio of the springs that pull vertices with a pin weight below 1.
_PIN_DAMPING_RATIO = 0.3
# From this weight on a pin is exact.
_HARD_PIN = 0.9999
# A fold of the rest shape sharper than this (its cosine) bends as if it were this sharp.
LEAST_REST_COSINE = 0.2
# What a model can do without once it is on the device, and makes anew when it is asked for.
_RELEASED = ("hinges", "bending", "bending_upper", "rows")


@dataclass(frozen=True)
class ClothPart:
    """One cloth as it is handed in (world space, SI units).

    Attributes:
        name: the object's name, for messages.
        mesh: its polygons.
        rest: (V, 3) shape without tension, m.
        positions: (V, 3) shape at the first frame, m.
        fabric: what it is made of.
        pin_vertices: (P,) vertices that follow targets, each once.
        pin_weights: (P,) 0 to 1; 1 follows exactly, less is pulled by a spring.
        pin_stiffness: strength of that spring per area, N/m³: a vertex of weight w and area A
            gets pin_stiffness * A * w / (1 - w).
        use_fields: whether wind fields act on it.
        strain_limit: largest relative stretch of an edge; 0 for none.
    """

    name: str
    mesh: Mesh
    rest: Array
    positions: Array
    fabric: Fabric
    pin_vertices: Indices
    pin_weights: Array
    pin_stiffness: float = 1000.0
    use_fields: bool = True
    strain_limit: float = 0.0


@dataclass
class ClothState:
    """Where the model's vertices are, in the model's order, relative to its origin.

    Attributes:
        positions: (V, 3) m.
        velocities: (V, 3) m/s.
        time: s since the first frame.
        displacement: (V, 3) m, how far the last step went, where the next one needs that.
        velocities_before: (V, 3) m/s, before that step.
        step: its length, s.
    """

    positions: npt.NDArray[np.float32]
    velocities: npt.NDArray[np.float32]
    time: float = 0.0
    displacement: npt.NDArray[np.float32] | None = None
    velocities_before: npt.NDArray[np.float32] | None = None
    step: float = 0.0


@dataclass(frozen=True)
class ClothModel:
    """All cloths of a bake as one set of vertices, in an order that suits memory.

    Attributes:
        parts: the cloths as they were handed in.
        slices: each cloth's vertices.
        order: (V,) for each vertex of the model its number in the caller's order (the
            parts' vertices one after the other).
        origin: (3,) world position that all others are relative to, so that float32 suffices.
        rest: (V, 3) rest shape relative to the origin, m.
        positions: (V, 3) first shape relative to the origin, m.
        mass: (V,) kg.
        fixed: (V,) vertices that follow their target exactly.
        triangles: (T, 3) for the air.
        air_drag: (T,) drag coefficient of each triangle.
        air_share: (V,) area of each vertex over the third of its triangles' areas.
        network: the springs.
        hinges: the bending elements.
        bending: the bending matrix with the cosines of the rest angles, N/m.
        bending_upper: the same without them, at the same entries: not below it, for Hessians.
        bend_rate: (V,) damping time of bending: damping over stiffness, s.
        rows: what each vertex gathers from its neighbours.
        pin_vertices: (P,) vertices with a target, the parts' pins one after the other.
        pin_stiffness: (P,) N/m; 0 for fixed vertices.
        pin_damping: (P,) N s/m.
        warnings: complete sentences about input that was left out or changed.
    """

    parts: tuple[ClothPart, ...]
    slices: tuple[slice, ...]
    order: Indices
    origin: Array
    rest: Array
    positions: Array
    mass: Array
    fixed: npt.NDArray[np.bool_]
    triangles: Indices
    air_drag: Array
    air_share: Array
    network: SpringNetwork
    hinges: HingeSet
    bending: SparseMatrix
    bending_upper: SparseMatrix
    bend_rate: Array
    rows: Rows
    pin_vertices: Indices
    pin_stiffness: Array
    pin_damping: Array
    warnings: tuple[str, ...]

    def release(self, *names: str) -> None:
        """Drop hinges, bending matrices and rows, more than half of the model's memory.

        Steps that are implicit as a whole need them no more once they are on the device. Whoever
        asks for one again waits until it is made anew, to the last bit as it was.

        Args:
            names: which fields; all of these by default.
        """
        for name in ("bending_row_sums", "bending_squares"):
            getattr(self, name)
        for name in names or _RELEASED:
            self.__dict__.pop(name, None)
        heap.trim()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Make what was released."""
            if name not in _RELEASED or "parts" not in self.__dict__:
                raise AttributeError(name)
            values = self.__dict__
            if name == "hinges":
                values[name] = self._build_hinges()
            elif name == "rows":
                values[name] = build_rows(self.vertex_count, self.network, self.bending)
            else:
                found = _bending_matrices(self.hinges, self.rest, self.vertex_count)
                values["bending_upper"], values["bending"] = found
            return values[name]

    def _build_hinges(self) -> HingeSet:
        sets = []
        for part, own in zip(self.parts, self.slices, strict=True):
            order = self.order[own] - np.int32(own.start)
            sheet = select_faces(part.mesh, clean_faces(part.mesh, part.rest))
            mesh = replace(sheet, corners=_ranks(order)[sheet.corners])
            fabric = part.fabric
            sets.append(
                build_hinges(
                    mesh, part.rest[order], fabric.bending_stiffness, fabric.bending_damping
                )
            )
        return _join_hinges(sets, np.array([own.start for own in self.slices], dtype=np.int32))

    @cached_property
    def bending_row_sums(self) -> Array:
        """(V,) sums of the magnitudes in each row of ``bending_upper``, N/m."""
        return row_sums(self.bending_upper, np.abs)

    @cached_property
    def bending_squares(self) -> Array:
        """(V,) sums of the squares in each row of ``bending``, (N/m)²."""
        return row_sums(self.bending, np.square)

    def free_components(self) -> Indices:
        """Label (V,) the connected parts that no pin holds from 0; -1 elsewhere."""
        label = components(self.network.vertices, self.vertex_count)
        held = np.zeros(self.vertex_count, dtype=bool)
        held[label[self.fixed]] = True
        held[label[self.pin_vertices]] = True
        free = ~held[label]
        result = np.full(self.vertex_count, -1, dtype=np.int32)
        result[free] = np.unique(label[free], return_inverse=True)[1]
        heap.trim()
        return result

    def strain_limits(self) -> Array:
        """Largest relative stretch (S,) of each spring, infinite without a limit.

        Limits hold for structural springs, the edges.
        """
        limits = np.full(len(self.network.vertices), np.inf)
        edges = (self.network.kind == SpringKind.STRUCTURAL) & (self.network.rest_length > 0.0)
        for part, own in zip(self.parts, self.slices, strict=True):
            if part.strain_limit > 0.0:
                first = self.network.vertices[:, 0]
                limits[edges & (first >= own.start) & (first < own.stop)] = part.strain_limit
        return limits

    @property
    def vertex_count(self) -> int:
        """Number of vertices of all cloths."""
        return len(self.mass)

    def first_state(self) -> ClothState:
        """The state at the first frame: the first shape at rest."""
        return ClothState(
            self.positions.astype(np.float32), np.zeros((self.vertex_count, 3), np.float32)
        )

    def world_positions(self, state: ClothState) -> Array:
        """World positions (V, 3) of a state in the caller's order, m."""
        result = np.empty((self.vertex_count, 3))
        result[self.order] = state.positions
        result += self.origin
        return result

    def with_fabrics(self, fabrics: Sequence[Fabric]) -> "ClothModel":
        """The same cloths made of other fabrics, one for each part."""
        return build_model(
            [
                replace(part, fabric=fabric)
                for part, fabric in zip(self.parts, fabrics, strict=True)
            ],
            self.origin,
        )


@dataclass(frozen=True)
class _BuiltPart:
    order: Indices
    rest: Array
    positions: Array
    mass: Array
    massless: npt.NDArray[np.bool_]
    triangles: Indices
    air_drag: Array
    air_share: Array
    network: SpringNetwork
    hinges: HingeSet
    pin_vertices: Indices
    pin_stiffness: Array
    pin_damping: Array
    hard: npt.NDArray[np.bool_]
    warnings: tuple[str, ...]


def build_model(
    parts: Sequence[ClothPart],
    origin: Array | None = None,
    *,
    on_phase: Callable[[str], None] = lambda _: None,
) -> ClothModel:
    """Assemble the model of one or more cloths.

    Args:
        parts: the cloths.
        origin: (3,) see ClothModel; the middle of the first shapes by default.
        on_phase: told in words what comes next, since a large cloth takes its time.

    Raises:
        ValueError: a cloth has no vertices or positions that are not finite; the message
            names it.
    """
    for part in parts:
        if part.mesh.vertex_count == 0:
            raise ValueError(f'"{part.name}" has no vertices')
        for positions in (part.rest, part.positions):
            if not np.isfinite(positions).all():
                raise ValueError(f'"{part.name}" has vertices whose position is not a number')
    count = sum(part.mesh.vertex_count for part in parts)
    on_phase(f"preparing {count:,} vertices".replace(",", "\N{NO-BREAK SPACE}"))
    if origin is None:
        origin = _middle(parts)
    built = [_build_part(part, origin, on_phase) for part in parts]
    starts = np.concatenate([[0], np.cumsum([len(b.mass) for b in built])]).astype(np.int32)
    vertex_count = int(starts[-1])

    network = _join_networks([b.network for b in built], starts)
    network = replace(network, damping=_one_value(network.damping))
    hinges = _join_hinges([b.hinges for b in built], starts)
    rest = np.concatenate([b.rest for b in built])
    on_phase("joining springs and bending")
    bending_upper, bending = _bending_matrices(hinges, rest, vertex_count)

    fixed = np.zeros(vertex_count, dtype=bool)
    for b, start in zip(built, starts[:-1], strict=True):
        fixed[start : start + len(b.mass)] = b.massless
        fixed[start + b.pin_vertices[b.hard]] = True
    fabrics = [part.fabric for part in parts]
    return ClothModel(
        parts=tuple(parts),
        slices=tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(starts)),
        order=np.concatenate([b.order + s for b, s in zip(built, starts[:-1], strict=True)]),
        origin=origin,
        rest=rest,
        positions=np.concatenate([b.positions for b in built]),
        mass=np.concatenate([b.mass for b in built]),
        fixed=fixed,
        triangles=np.concatenate([b.triangles + s for b, s in zip(built, starts, strict=False)]),
        air_drag=_one_value(np.concatenate([b.air_drag for b in built])),
        air_share=np.concatenate([b.air_share for b in built]),
        network=network,
        hinges=hinges,
        bending=bending,
        bending_upper=bending_upper,
        bend_rate=_one_value(
            np.concatenate(
                [np.full(len(b.mass), _bend_rate(f)) for b, f in zip(built, fabrics, strict=True)]
            )
        ),
        rows=build_rows(vertex_count, network, bending),
        pin_vertices=np.concatenate(
            [b.pin_vertices + s for b, s in zip(built, starts, strict=False)]
        ),
        pin_stiffness=np.concatenate([b.pin_stiffness for b in built]),
        pin_damping=np.concatenate([b.pin_damping for b in built]),
        warnings=tuple(sentence for b in built for sentence in b.warnings),
    )


def _bending_matrices(
    hinges: HingeSet, rest: Array, vertex_count: int
) -> tuple[SparseMatrix, SparseMatrix]:
    """The bending matrix without and with the cosines of the rest angles; one if all are flat."""
    stiffnesses = [hinges.stiffness]
    if curved_mask(hinges).any():
        cosine = np.maximum(np.cos(hinges.rest_angle), LEAST_REST_COSINE)
        stiffnesses.append(hinges.stiffness * cosine)
    matrices = bending_matrices(hinges, rest, vertex_count, stiffnesses)
    return matrices[0], matrices[-1]


def _ranks(order: Indices) -> Indices:
    """The place of each vertex in an order."""
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order), dtype=order.dtype)
    return rank


def _one_value(values: Array) -> Array:
    """The same array; without memory if all its values are the same."""
    if len(values) and (values == values[0]).all():
        return np.broadcast_to(values[:1].copy(), values.shape)
    return values


def _middle(parts: Sequence[ClothPart]) -> Array:
    lowest = np.min([part.positions.min(axis=0) for part in parts], axis=0)
    highest = np.max([part.positions.max(axis=0) for part in parts], axis=0)
    return np.asarray(0.5 * (lowest + highest), dtype=np.float64)


def _bend_rate(fabric: Fabric) -> float:
    if fabric.bending_stiffness <= 0.0:
        return 0.0
    return fabric.bending_damping / fabric.bending_stiffness


def _build_part(part: ClothPart, origin: Array, on_phase: Callable[[str], None]) -> _BuiltPart:
    order = morton_order(part.rest).astype(np.int32)
    rank = _ranks(order)
    sheet = select_faces(part.mesh, clean_faces(part.mesh, part.rest))
    triangulation = triangulate(sheet, part.rest)
    area = vertex_areas(triangulation, part.rest, len(order))
    triangles, weight = _air_triangles(sheet, triangulation)
    air_share = _air_share(triangles, weight, part.rest, area)[order]
    area = area[order]
    mesh = replace(sheet, corners=rank[sheet.corners])
    rest = part.rest[order]
    massless = area <= 0.0
    mass = part.fabric.density * area
    if not massless.all():
        mass = np.maximum(mass, _LEAST_MASS * np.median(mass[~massless]))
    fabric = part.fabric
    on_phase("building the spring network")
    network = build_springs(
        mesh,
        rest,
        fabric.tension_stiffness,
        fabric.shear_stiffness,
        fabric.tension_damping,
        fabric.shear_damping,
        fabric.bending_stiffness,
    )
    on_phase("building the bending elements")
    hinges = build_hinges(mesh, rest, fabric.bending_stiffness, fabric.bending_damping)

    weights = np.clip(part.pin_weights, 0.0, 1.0)
    hard = weights >= _HARD_PIN
    pins = rank[part.pin_vertices]
    softness = np.where(hard, 1.0, 1.0 - weights)
    stiffness = np.where(hard, 0.0, part.pin_stiffness * area[pins] * weights / softness)
    damping = 2.0 * _PIN_DAMPING_RATIO * np.sqrt(stiffness * mass[pins])
    return _BuiltPart(
        order=order,
        rest=rest - origin,
        positions=part.positions[order] - origin,
        mass=mass,
        massless=massless,
        triangles=rank[triangles],
        air_drag=part.fabric.air_drag * weight,
        air_share=air_share,
        network=network,
        hinges=hinges,
        pin_vertices=pins,
        pin_stiffness=stiffness,
        pin_damping=damping,
        hard=hard,
        warnings=(),
    )


def _air_triangles(mesh: Mesh, triangulation: Triangulation) -> tuple[Indices, Array]:
    """Triangles (T, 3) that the air acts on and their weights (T,).

    A quad is split along both diagonals with half the weight each, so that the result does
    not depend on a choice between them.
    """
    quad = mesh.sizes == _QUAD
    others = triangulation.triangles[~quad[triangulation.face_of_triangle]]
    a, b, c, d = (mesh.corners[mesh.offsets[:-1][quad] + corner] for corner in range(_QUAD))
    halves = [np.stack(corners, axis=1) for corners in ((a, b, c), (c, d, a), (b, c, d), (d, a, b))]
    triangles = np.concatenate([others, *halves]).astype(np.int32)
    weight = np.ones(len(triangles))
    weight[len(others) :] = 0.5
    return triangles, weight


def _air_share(triangles: Indices, weight: Array, rest: Array, area: Array) -> Array:
    """Vertex areas over the sum of a third of each vertex's triangles; 1 without any."""
    points = columns(rest)
    third = np.empty(len(triangles))
    for start in range(0, len(triangles), _PIECE):
        piece = slice(start, start + _PIECE)
        a, b, c = (gathered(points, corner) for corner in triangles[piece].T)
        normal = cross(between(b, a), between(c, a))
        third[piece] = weight[piece] * np.sqrt(dot(normal, normal)) / 6.0
    thirds = np.bincount(triangles.reshape(-1), np.repeat(third, 3), minlength=len(rest))
    share = np.ones(len(rest))
    np.divide(area, thirds, out=share, where=thirds > 0.0)
    return share


def _join_networks(networks: Sequence[SpringNetwork], starts: Indices) -> SpringNetwork:
    if len(networks) == 1:
        return networks[0]
    return SpringNetwork(
        np.concatenate([n.vertices + s for n, s in zip(networks, starts, strict=False)]),
        np.concatenate([n.kind for n in networks]),
        np.concatenate([n.rest_length for n in networks]),
        np.concatenate([n.stiffness for n in networks]),
        np.concatenate([n.damping for n in networks]),
    )


def _join_hinges(sets: Sequence[HingeSet], starts: Indices) -> HingeSet:
    if len(sets) == 1:
        return sets[0]
    return HingeSet(
        np.concatenate([h.vertices + s for h, s in zip(sets, starts, strict=False)]),
        np.concatenate([h.rest_angle for h in sets]),
        np.concatenate([h.stiffness for h in sets]),
        np.concatenate([h.damping for h in sets]),
    )
