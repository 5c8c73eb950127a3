# SPDX-License-Identifier: GPL-3.0-or-later
"""The spring network: structural, shear and flexion springs on any polygon mesh.

Structural springs lie on the edges. Shear springs lie on the diagonals of quads, across
larger polygons, and across pairs of triangles. Flexion springs span two edges that run
straight on through a vertex. Every face fits its springs to the sheet's stiffness (see
``fit``), and a spring is the sum of what its faces ask of it, so that a border carries half.
"""

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from .fit import Array, Mask
from .frames import face_planes
from .membrane import (
    TRIANGLE,
    Candidates,
    Target,
    axial_stiffness,
    candidates,
    elastic_target,
    fit_groups,
    material_frames,
    slenderness,
    viscous_target,
)
from .mesh import EdgeTable, Indices, Integers, Mesh, clean_faces, edge_table, select_faces
from .relaxation import corrected
from .sorting import run_starts, stable_order, symmetric_rows
from .straight import straight_pairs

__all__ = ["Adjacency", "SpringKind", "SpringNetwork", "axial_stiffness", "build_springs"]

_PIECE = 16384  # springs at a time, so that their arrays stay in the cache
FLEXION_SHARE = 0.01  # largest flexion stiffness over C11


class SpringKind(IntEnum):
    """What a spring is for."""

    STRUCTURAL = 0
    SHEAR = 1
    FLEXION = 2


@dataclass(frozen=True)
class Adjacency:
    """The springs at each vertex.

    Attributes:
        offsets: (V + 1,) vertex v has the entries offsets[v] to offsets[v + 1].
        springs: (2S,) spring of each entry.
        neighbours: (2S,) its other end; ascending at each vertex.
    """

    offsets: Indices
    springs: Indices
    neighbours: Indices


@dataclass(frozen=True)
class SpringNetwork:
    """Springs between vertices; every pair occurs once.

    Attributes:
        vertices: (S, 2) the ends, smaller index first.
        kind: (S,) SpringKind.
        rest_length: (S,) m; 0 for an edge of zero length.
        stiffness: (S,) N/m.
        damping: (S,) N s/m.
    """

    vertices: Indices
    kind: npt.NDArray[np.uint8]
    rest_length: Array
    stiffness: Array
    damping: Array

    def adjacency(self, vertex_count: int) -> Adjacency:
        """The springs by vertex."""
        low, high = self.vertices.T
        order = stable_order(low, high)
        offsets, pairs, neighbours = symmetric_rows(low[order], high[order], vertex_count)
        return Adjacency(offsets, order.astype(np.int32)[pairs], neighbours)


def build_springs(
    mesh: Mesh,
    positions_rest: Array,
    tension_stiffness: float,
    shear_stiffness: float,
    tension_damping: float,
    shear_damping: float,
    bending_stiffness: float = math.inf,
) -> SpringNetwork:
    """Springs that give the sheet its membrane stiffness on this mesh.

    Args:
        mesh: any polygon mesh; bad faces are left out, their edges stay.
        positions_rest: (V, 3) shape without tension, m.
        tension_stiffness: uniaxial stiffness Y of the sheet, N/m.
        shear_stiffness: shear stiffness G, N/m.
        tension_damping: viscosity that goes with Y, N s/m.
        shear_damping: viscosity that goes with G, N s/m.
        bending_stiffness: of the sheet, N m. A flexion spring over two edges of length d gets
            no more than bending_stiffness / d²: across a sharp fold it would otherwise resist
            more than the fabric does, the more the coarser the mesh.
    """
    rest = np.where(np.isfinite(positions_rest), positions_rest, 0.0).astype(np.float64)
    table = edge_table(mesh)
    sheet = select_faces(mesh, clean_faces(mesh, positions_rest))
    sheet_table = table if sheet is mesh else edge_table(sheet)
    planes = face_planes(sheet, sheet_table, rest)
    groups = candidates(sheet, sheet_table, planes, rest)
    frames = material_frames(sheet, sheet_table, planes, rest, groups)
    slender = slenderness(groups, planes, frames, rest)
    target = elastic_target(tension_stiffness, shear_stiffness, slender)
    viscous = viscous_target(target, tension_damping / tension_stiffness, shear_damping, slender)
    stiff = fit_groups(groups, planes, frames, target, tension_stiffness)
    contraction = target.shear_at / target.axial_at
    stiff = corrected(
        sheet, sheet_table, planes, rest, groups, stiff, frames, tension_stiffness, contraction
    )
    damp = fit_groups(groups, planes, frames, viscous, None)
    return _assemble(mesh, table, rest, groups, (stiff, damp), (target, viscous), bending_stiffness)


def _assemble(
    mesh: Mesh,
    table: EdgeTable,
    rest: Array,
    groups: list[Candidates],
    shares: tuple[list[Array], list[Array]],
    targets: tuple[Target, Target],
    bending_stiffness: float,
) -> SpringNetwork:
    """Add up the shares of the faces, split off the flexion springs, sort."""
    count = max(mesh.vertex_count, 1)
    merged, kind, total, edge_spring = _summed(table, groups, shares, targets, count)
    total = _thread_stiffness(total, edge_spring, table, targets)
    one, two, ends = straight_pairs(mesh, table, rest)
    if not len(one):
        return _sorted_network(merged, kind, total[0], total[1], rest, count)
    flexion_keys = ends[:, 0] * count + ends[:, 1]
    at = np.minimum(np.searchsorted(merged, flexion_keys), len(merged) - 1)
    free = (merged[at] != flexion_keys) & (ends[:, 0] != ends[:, 1])
    one, two, flexion_keys = edge_spring[one[free]], edge_spring[two[free]], flexion_keys[free]
    flexion, index = np.unique(flexion_keys, return_inverse=True)
    index = index.reshape(-1)
    halves = 0.5 * np.linalg.norm(rest[flexion // count] - rest[flexion % count], axis=1)
    flexion_values = []
    kept = np.ones(len(flexion))
    for part, target in zip(total, targets, strict=True):
        along = target.axial - target.shear
        taken = min(4.0 * FLEXION_SHARE * target.axial / along, 0.5) if along > 0.0 else 0.0
        mean = np.bincount(index, 0.125 * taken * (part[one] + part[two]), len(flexion))
        if target is targets[0]:
            with np.errstate(divide="ignore", invalid="ignore"):
                most = bending_stiffness / halves**2
                kept = np.where(mean > most, most / mean, 1.0)
        flexion_values.append(mean * kept)
        # An edge gives for the flexion springs at its ends, as much as they kept on average.
        lost = taken * _edge_means(one, two, kept[index], len(merged))
        np.multiply(part, 1.0 - lost, out=part)
    return _sorted_network(
        np.concatenate([merged, flexion]),
        np.concatenate([kind, np.full(len(flexion), SpringKind.FLEXION, dtype=np.uint8)]),
        np.concatenate([total[0], flexion_values[0]]),
        np.concatenate([total[1], flexion_values[1]]),
        rest,
        count,
    )


def _summed(
    table: EdgeTable,
    groups: list[Candidates],
    shares: tuple[list[Array], list[Array]],
    targets: tuple[Target, Target],
    count: int,
) -> tuple[Integers, npt.NDArray[np.uint8], list[Array], Integers]:
    """Sum of the faces' shares in each spring.

    Returns:
        Sorted keys (S,), low end * count + high end; kinds; stiffness and damping; the spring
        of each edge.
    """
    edges = table.vertices
    lows, highs = [edges[:, 0]], [edges[:, 1]]
    kinds = [np.full(len(edges), SpringKind.STRUCTURAL, dtype=np.uint8)]
    values = [[np.zeros(len(edges))], [np.zeros(len(edges))]]
    for number, group in enumerate(groups):
        triangle = group.structural == TRIANGLE
        stiff, damp = shares[0][number], shares[1][number]
        kind = np.full(group.pairs.shape[:2], SpringKind.SHEAR, dtype=np.uint8)
        kind[:, : group.structural] = SpringKind.STRUCTURAL
        used = group.pairs[:, :, 0] != group.pairs[:, :, 1]
        if triangle:
            used &= (
                (kind == SpringKind.STRUCTURAL)
                | (stiff > 1e-6 * targets[0].axial)
                | (damp > 1e-6 * targets[1].axial)
            )
        one, two = group.pairs[:, :, 0][used], group.pairs[:, :, 1][used]
        lows.append(np.minimum(one, two))
        highs.append(np.maximum(one, two))
        kinds.append(kind[used])
        values[0].append(stiff[used])
        values[1].append(damp[used])
    low, high = np.concatenate(lows), np.concatenate(highs)
    del lows, highs
    order = stable_order(low, high)
    low, high = low[order], high[order]
    new = run_starts(low, high)
    merged = low[new].astype(np.int64) * count + high[new]
    inverse = np.empty(len(order), dtype=np.int64)
    inverse[order] = np.cumsum(new) - 1
    kind = np.minimum.reduceat(np.concatenate(kinds)[order], np.flatnonzero(new))
    del low, high, order
    total = [_sums(inverse, np.concatenate(part), len(merged)) for part in values]
    return merged, kind, total, inverse[: len(edges)]


def _sums(index: Integers, values: Array, count: int) -> Array:
    return np.bincount(index, values, count).astype(np.float64)


def _edge_means(one: Integers, two: Integers, values: Array, count: int) -> Array:
    """Mean over the flexion springs that each spring is half of; 0 without any."""
    both = np.concatenate([one, two])
    number = np.bincount(both, minlength=count)
    total = np.bincount(both, np.concatenate([values, values]), minlength=count)
    return np.asarray(total / np.maximum(number, 1))


def _thread_stiffness(
    total: list[Array], edge_spring: Integers, table: EdgeTable, targets: tuple[Target, Target]
) -> list[Array]:
    """Edges in no sound face act like the border of a square cell."""
    bare = np.diff(table.face_offsets) == 0
    empty = total[0][edge_spring] <= 0.0
    alone = edge_spring[bare | (empty & _only_flat(table, total[0], edge_spring))]
    for part, target in zip(total, targets, strict=True):
        part[alone] = 0.5 * target.axial
    return total


def _only_flat(table: EdgeTable, stiffness: Array, edge_spring: Integers) -> Mask:
    """Edges whose faces gave no stiffness to any of their edges (faces without area)."""
    edge_of = np.repeat(np.arange(len(table.vertices)), np.diff(table.face_offsets))
    face_count = int(table.faces.max()) + 1 if len(table.faces) else 0
    alive = np.zeros(face_count, dtype=np.bool_)
    alive[table.faces[stiffness[edge_spring[edge_of]] > 0.0]] = True
    held = np.zeros(len(table.vertices), dtype=np.bool_)
    held[edge_of[alive[table.faces]]] = True
    return ~held


def _sorted_network(
    keys: Integers,
    kind: npt.NDArray[np.uint8],
    stiffness: Array,
    damping: Array,
    rest: Array,
    count: int,
) -> SpringNetwork:
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    vertices = np.empty((len(keys), 2), dtype=np.int32)
    np.floor_divide(keys, count, out=vertices[:, 0], casting="unsafe")
    np.remainder(keys, count, out=vertices[:, 1], casting="unsafe")
    return SpringNetwork(
        vertices, kind[order], _lengths(rest, vertices), stiffness[order], damping[order]
    )


def _lengths(rest: Array, vertices: Indices) -> Array:
    length = np.empty(len(vertices))
    for start in range(0, len(vertices), _PIECE):
        ends = vertices[start : start + _PIECE]
        length[start : start + _PIECE] = np.linalg.norm(rest[ends[:, 1]] - rest[ends[:, 0]], axis=1)
    return length
