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

from .fit import Array, Complex, FitWeights, Mask, fit_weights, moments, uniaxial
from .frames import (
    Elements,
    FacePlanes,
    border_phase,
    component_frames,
    face_planes,
    quad_frames,
    spread_frames,
)
from .mesh import (
    EdgeTable,
    Indices,
    Integers,
    Mesh,
    clean_faces,
    edge_table,
    next_corner,
    select_faces,
)

FLEXION_SHARE = 0.01  # largest flexion stiffness over C11
_CAP = 20.0  # largest stiffness a face may ask of one spring, over C11
_FLOOR = 0.02  # least weight of a triangle's edge over C11; half of G if that is less
_STRAIGHT = -0.8  # cosine below which two edges run straight on
_FOLDED = -0.5  # cosine above which two triangles are too folded for a shear spring
_TRIANGLE = 3
_QUAD = 4
_FITTED = 24  # largest polygon whose springs are fitted; larger ones share alike
_STAR = 128  # most edges at a vertex that are searched for straight pairs
_FIT_TRIANGLES = FitWeights(m0=1.0, m2=1.0, m4=1.0, ridge=1e-3, sparsity=1e-3)
_FIT_QUADS = FitWeights(m0=1.0, m2=1.0, m4=1.0, ridge=0.3, sparsity=0.0, refinements=0)
_FIT_POLYGONS = FitWeights(m0=1.0, m2=1.0, m4=1.0, ridge=1e-2, sparsity=0.0)


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
        ends = self.vertices.astype(np.int64)
        owner = np.concatenate([ends[:, 0], ends[:, 1]])
        other = np.concatenate([ends[:, 1], ends[:, 0]])
        order = np.argsort(owner * max(vertex_count, 1) + other)
        offsets = np.zeros(vertex_count + 1, dtype=np.int32)
        np.cumsum(np.bincount(owner, minlength=vertex_count), out=offsets[1:])
        return Adjacency(
            offsets,
            (order % max(len(ends), 1)).astype(np.int32),
            other[order].astype(np.int32),
        )


@dataclass(frozen=True)
class _Candidates:
    """Springs that faces of one size may use.

    Attributes:
        elements: faces, angles, allowed, price; structural springs first.
        structural: number of structural ones among the n.
        pairs: (N, n, 2) their ends.
        lengths: (N, n) m.
    """

    elements: Elements
    structural: int
    pairs: Integers
    lengths: Array


@dataclass(frozen=True)
class _Target:
    """Wanted stiffness (or viscosity) of the sheet.

    Attributes:
        axial: C1111 = C2222 of the fabric.
        shear: C1122 = C1212 of the fabric.
        axial_at, shear_at: (F,) what can be asked of each face.
    """

    axial: float
    shear: float
    axial_at: Array
    shear_at: Array


def axial_stiffness(tension_stiffness: float, shear_stiffness: float) -> float:
    """C11 of a sheet with the given uniaxial and shear stiffness, N/m.

    From Y = C11 - C12²/C11 and C12 = C33 = G, which a network of springs cannot avoid.
    """
    root = np.hypot(tension_stiffness, 2.0 * shear_stiffness)
    return float(0.5 * (tension_stiffness + root))


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
    sheet_table = edge_table(sheet)
    planes = face_planes(sheet, sheet_table, rest)
    groups = _candidates(sheet, sheet_table, planes, rest)
    frames = _material_frames(sheet, sheet_table, planes, rest, groups)
    slant = _slant(groups, planes, frames, rest)
    target = _elastic_target(tension_stiffness, shear_stiffness, slant)
    viscous = _viscous_target(
        target, tension_damping / tension_stiffness, shear_damping, shear_stiffness, slant
    )
    stiff = _fit_groups(groups, planes, frames, target, tension_stiffness)
    damp = _fit_groups(groups, planes, frames, viscous, None)
    return _assemble(mesh, table, rest, groups, (stiff, damp), (target, viscous), bending_stiffness)


def _slant(groups: list[_Candidates], planes: FacePlanes, frames: Complex, rest: Array) -> Array:
    """(F,) least share of a face's axial stiffness that its diagonals take for a unit of shear.

    Diagonals of a rectangle a × b with shear stiffness G add G a²/b² along a and G b²/a² along
    b, so the larger of the two squares limits G. Other faces are measured by their extents
    along warp and weft.
    """
    slant = np.ones(len(planes.area))
    for group in groups:
        faces = group.elements.faces
        names = group.pairs[:, : group.structural, 0]
        flat = planes.flat(rest[names] - rest[names[:, :1]], faces)
        turned = flat * np.conj(frames[faces] ** 0.25)[:, None]
        ratio = np.ptp(turned.real, axis=1) / np.maximum(np.ptp(turned.imag, axis=1), 1e-300)
        ratio = np.maximum(ratio, 1.0 / np.maximum(ratio, 1e-300))
        slant[faces] = np.minimum(ratio, 1e3) ** 2
    return slant


def _elastic_target(tension: float, shear: float, slant: Array) -> _Target:
    """Where a face is too slender for the shear stiffness, that gives way, not the tension."""
    part = (0.9 + 0.1 / slant) / slant
    limit = part * tension / np.maximum(1.0 - part**2, 1e-12)
    shear_at = np.minimum(shear, limit)
    axial_at = 0.5 * (tension + np.hypot(tension, 2.0 * shear_at))
    return _Target(axial_stiffness(tension, shear), shear, axial_at, shear_at)


def _viscous_target(
    elastic: _Target, tension_time: float, shear_damping: float, shear: float, slant: Array
) -> _Target:
    """Viscosities in proportion to the stiffness, apart for tension and shear."""
    axial = (elastic.axial - shear) * tension_time + shear_damping
    shear_at = np.minimum(shear_damping, axial * (0.9 + 0.1 / slant) / slant)
    return _Target(axial, shear_damping, np.full(len(slant), axial), shear_at)


def _candidates(
    sheet: Mesh, table: EdgeTable, planes: FacePlanes, rest: Array
) -> list[_Candidates]:
    found = []
    sizes = sheet.sizes
    for size in np.unique(sizes):
        faces = np.flatnonzero((sizes == size) & (planes.area > 0.0))
        if not len(faces):
            continue
        corners = sheet.offsets[faces, None].astype(np.int64) + np.arange(size)
        if size == _TRIANGLE:
            found.append(_triangle_candidates(sheet, table, planes, rest, faces, corners))
        else:
            found.append(_polygon_candidates(sheet, planes, rest, faces, corners))
    return found


def _finish(
    faces: Integers,
    area: Array,
    pairs: Integers,
    structural: int,
    along: Complex,
    lengths: Array,
    allowed: Mask,
) -> _Candidates:
    allowed = allowed & (pairs[:, :, 0] != pairs[:, :, 1]) & (lengths > 0.0) & (np.abs(along) > 0.0)
    price = np.minimum(lengths**2 / area[:, None], 100.0)
    price[:, :structural] *= 0.1
    elements = Elements(faces, np.angle(along), allowed, price)
    return _Candidates(elements, structural, pairs, lengths)


def _polygon_candidates(
    sheet: Mesh, planes: FacePlanes, rest: Array, faces: Integers, corners: Integers
) -> _Candidates:
    """Edges, then corner i to i + 2, then i to the corner opposite."""
    size = corners.shape[1]
    start = np.arange(size)
    steps = [(start, 1)]
    if size == _QUAD:
        steps.append((start[:2], 2))
    else:
        steps.append((start, 2))
        half = size // 2
        if half > 2:  # noqa: PLR2004
            steps.append((start[:half] if size % 2 == 0 else start, half))
    first = np.concatenate([begin for begin, _ in steps])
    second = np.concatenate([(begin + step) % size for begin, step in steps])
    names = sheet.corners[corners].astype(np.int64)
    pairs = np.stack([names[:, first], names[:, second]], axis=2)
    vectors = rest[pairs[:, :, 1]] - rest[pairs[:, :, 0]]
    return _finish(
        faces,
        planes.area[faces],
        pairs,
        size,
        planes.flat(vectors, faces),
        np.linalg.norm(vectors, axis=2),
        np.ones(pairs.shape[:2], dtype=np.bool_),
    )


def _triangle_candidates(
    sheet: Mesh,
    table: EdgeTable,
    planes: FacePlanes,
    rest: Array,
    faces: Integers,
    corners: Integers,
) -> _Candidates:
    """Three edges, then for each the spring across it to the next triangle's far corner.

    That spring's direction is the one it has when the pair of triangles is laid flat.
    """
    names = sheet.corners[corners].astype(np.int64)
    count = len(faces)
    across = np.zeros((count, 3, 2), dtype=np.int64)
    allowed = np.ones((count, 6), dtype=np.bool_)
    along = np.zeros((count, 6), dtype=np.complex128)
    flat = planes.flat(rest[names] - rest[names[:, :1]], faces)
    usable = planes.area > 0.0
    for side in range(3):
        edge = table.corner_edges[corners[:, side]]
        manifold = (edge >= 0) & (table.face_offsets[edge + 1] - table.face_offsets[edge] == 2)  # noqa: PLR2004
        slot = np.where(manifold, table.face_offsets[edge], 0)
        second = np.where(table.faces[slot] == faces, slot + 1, slot)
        other = table.corners[np.minimum(second, len(table.corners) - 1)]
        neighbour = table.faces[np.minimum(second, len(table.faces) - 1)]
        manifold &= (sheet.sizes[neighbour] == _TRIANGLE) & usable[neighbour]
        begin = sheet.offsets[neighbour].astype(np.int64)
        far = sheet.corners[begin + (other - begin + 2) % 3].astype(np.int64)
        near = names[:, (side + 2) % 3]
        a, b = rest[names[:, side]], rest[names[:, (side + 1) % 3]]
        axis = (b - a) / np.maximum(np.linalg.norm(b - a, axis=1), 1e-300)[:, None]
        reach = rest[far] - a
        forward = (reach * axis).sum(axis=1)
        wing = reach - forward[:, None] * axis
        own = rest[near] - a
        own -= (own * axis).sum(axis=1)[:, None] * axis
        height, mine = np.linalg.norm(wing, axis=1), np.linalg.norm(own, axis=1)
        manifold &= (wing * own).sum(axis=1) < _FOLDED * height * mine
        run = flat[:, (side + 1) % 3] - flat[:, side]
        run /= np.maximum(np.abs(run), 1e-300)
        along[:, side] = run
        along[:, 3 + side] = flat[:, side] + run * (forward - 1j * height) - flat[:, (side + 2) % 3]
        across[:, side] = np.stack([near, far], axis=1)
        allowed[:, 3 + side] = manifold
    edges = np.stack([names, np.roll(names, -1, axis=1)], axis=2)
    pairs = np.concatenate([edges, across], axis=1)
    low, high = pairs.min(axis=2), pairs.max(axis=2)
    keys = low * max(sheet.vertex_count, 1) + high
    known = table.vertices.astype(np.int64)
    edge_keys = known[:, 0] * max(sheet.vertex_count, 1) + known[:, 1]
    at = np.minimum(np.searchsorted(edge_keys, keys[:, 3:]), len(edge_keys) - 1)
    allowed[:, 3:] &= edge_keys[at] != keys[:, 3:]
    lengths = np.linalg.norm(rest[pairs[:, :, 1]] - rest[pairs[:, :, 0]], axis=2)
    return _finish(faces, planes.area[faces], pairs, 3, along, lengths, allowed)


def _material_frames(
    sheet: Mesh,
    table: EdgeTable,
    planes: FacePlanes,
    rest: Array,
    groups: list[_Candidates],
) -> Complex:
    """(F,) exp(4iψ), ψ the angle of the warp from the face's first axis.

    Quads have directions of their own; other polygons take over those of neighbouring quads,
    and where there are none, the ones found for their component.
    """
    known = np.zeros(sheet.face_count, dtype=np.bool_)
    phase = np.ones(sheet.face_count, dtype=np.complex128)
    for group in groups:
        faces = group.elements.faces
        if group.pairs.shape[1] == 6 and group.structural == _QUAD:  # noqa: PLR2004
            names = group.pairs[:, :_QUAD, 0]
            phase[faces] = quad_frames(planes.flat(rest[names] - rest[names[:, :1]], faces))
            known[faces] = True
    if known.all():
        return phase
    if known.any():
        manifold = np.flatnonzero(np.diff(table.face_offsets) == 2)  # noqa: PLR2004
        slot = table.face_offsets[manifold]
        pairs = np.stack([table.faces[slot], table.faces[slot + 1]], axis=1)
        ends = rest[table.vertices[manifold]]
        along = ends[:, 1] - ends[:, 0]
        one, two = planes.flat(along, pairs[:, 0]), planes.flat(along, pairs[:, 1])
        turned = _same_way(sheet, table, slot)
        two = np.where(turned, two, np.conj(two))
        # A neighbour that turns the other way sees the sheet from behind; its warp angle
        # changes sign, which the product below cannot express, so such pairs are left out.
        size = np.maximum(np.abs(one) * np.abs(two), 1e-300)
        turns = (two * np.conj(one) / size) ** 4
        good = turned & (np.abs(one) > 0.0) & (np.abs(two) > 0.0)
        known, phase = spread_frames(known, phase, pairs[good], turns[good])
    rest_of = [
        _subset(group.elements, ~known[group.elements.faces])
        for group in groups
        if group.pairs.shape[1] <= 3 * _FITTED
    ]
    frames = component_frames(
        [elements for elements in rest_of if len(elements.faces)],
        planes,
        border_phase(sheet, table, planes, rest),
    )
    return np.where(known, phase, frames[planes.component] if len(frames) else phase)


def _same_way(sheet: Mesh, table: EdgeTable, slot: Integers) -> Mask:
    """Whether the two faces at an edge run along it in opposite senses, as neighbours do."""
    starts = sheet.corners[table.corners[slot]]
    return np.asarray(starts != sheet.corners[table.corners[slot + 1]])


def _subset(elements: Elements, rows: Mask) -> Elements:
    return Elements(
        elements.faces[rows], elements.angles[rows], elements.allowed[rows], elements.price[rows]
    )


def _fit_groups(
    groups: list[_Candidates],
    planes: FacePlanes,
    frames: Complex,
    target: _Target,
    uniaxial_target: float | None,
) -> list[Array]:
    """Stiffness (N, n) that each face asks of its springs, N/m."""
    shares: list[Array] = []
    component_count = int(planes.component.max()) + 1 if len(planes.component) else 0
    reached = np.zeros(component_count)
    surface = np.zeros(component_count)
    for group in groups:
        elements = group.elements
        size = elements.angles.shape[1]
        phase = frames[elements.faces]
        if size > 3 * _FITTED:
            count = np.maximum(elements.allowed.sum(axis=1, keepdims=True), 1)
            total = 2.0 * (target.axial_at + target.shear_at)[elements.faces, None]
            weights = np.where(elements.allowed, total / count, 0.0)
        else:
            weights = _fit_group(group, target, phase)
        area = planes.area[elements.faces]
        warp, weft = uniaxial(*moments(weights, elements.angles), phase)
        component = planes.component[elements.faces]
        reached += np.bincount(component, 0.5 * area * (warp + weft), component_count)
        surface += np.bincount(component, area, component_count)
        stiffness = weights * area[:, None] / np.maximum(group.lengths**2, 1e-300)
        shares.append(np.minimum(stiffness, _CAP * target.axial))
    if uniaxial_target is not None:
        wanted = uniaxial_target * surface
        scale = np.clip(wanted / np.maximum(reached, 1e-300), 0.5, 2.0)
        shares = [
            share * scale[planes.component[group.elements.faces], None]
            for share, group in zip(shares, groups, strict=True)
        ]
    return shares


def _fit_group(group: _Candidates, target: _Target, phase: Complex) -> Array:
    """Weights (N, n) of the springs of faces of one size, N/m.

    Every edge of a triangle or a larger polygon keeps a little stiffness, lest parts of the
    mesh drift apart.
    """
    elements = group.elements
    axial, shear = target.axial_at[elements.faces], target.shear_at[elements.faces]
    settings, guess = _FIT_POLYGONS, None
    least = np.zeros_like(elements.angles)
    if group.structural != _QUAD:
        bound = np.minimum(_FLOOR * axial, np.maximum(0.5 * shear, 0.2 * _FLOOR * axial))
        least[:, : group.structural] = bound[:, None] * (_TRIANGLE / group.structural)
    if group.structural == _TRIANGLE:
        settings = _FIT_TRIANGLES
    elif group.structural == _QUAD:
        settings, guess = _FIT_QUADS, _rectangle_weights(group.lengths, axial, shear)
    return fit_weights(
        elements.angles,
        elements.allowed,
        elements.price,
        2.0 * (axial + shear),
        2.0 * (axial - 3.0 * shear) * phase,
        settings,
        guess,
        least,
    )


def _rectangle_weights(lengths: Array, axial: Array, shear: Array) -> Array:
    """Weights (N, 6) of four edges and two diagonals, exact for a rectangle."""
    one = 0.5 * (lengths[:, 0] + lengths[:, 2])
    two = 0.5 * (lengths[:, 1] + lengths[:, 3])
    ratio = (one / np.maximum(two, 1e-300)) ** 2
    inverse = 1.0 / np.maximum(ratio, 1e-300)
    along = np.clip(0.5 * (axial - shear * ratio), 0.0, axial)
    across = np.clip(0.5 * (axial - shear * inverse), 0.0, axial)
    diagonal = np.minimum(0.5 * shear * (ratio + inverse + 2.0), 2.0 * axial)
    return np.stack([along, across, along, across, diagonal, diagonal], axis=1)


def _assemble(
    mesh: Mesh,
    table: EdgeTable,
    rest: Array,
    groups: list[_Candidates],
    shares: tuple[list[Array], list[Array]],
    targets: tuple[_Target, _Target],
    bending_stiffness: float,
) -> SpringNetwork:
    """Add up the shares of the faces, split off the flexion springs, sort."""
    count = max(mesh.vertex_count, 1)
    edges = table.vertices.astype(np.int64)
    keys = [edges[:, 0] * count + edges[:, 1]]
    kinds = [np.full(len(edges), SpringKind.STRUCTURAL, dtype=np.uint8)]
    values = [[np.zeros(len(edges))], [np.zeros(len(edges))]]
    for number, group in enumerate(groups):
        triangle = group.structural == _TRIANGLE
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
        low, high = group.pairs.min(axis=2), group.pairs.max(axis=2)
        keys.append((low * count + high)[used])
        kinds.append(kind[used])
        values[0].append(stiff[used])
        values[1].append(damp[used])
    merged, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    inverse = inverse.reshape(-1)
    kind = np.full(len(merged), SpringKind.FLEXION, dtype=np.uint8)
    np.minimum.at(kind, inverse, np.concatenate(kinds))
    total = [np.bincount(inverse, np.concatenate(part), len(merged)) for part in values]
    edge_spring = np.searchsorted(merged, keys[0])
    total = _thread_stiffness(total, edge_spring, table, targets)
    one, two, ends = straight_pairs(mesh, table, rest)
    flexion_keys = ends[:, 0] * count + ends[:, 1]
    at = np.minimum(np.searchsorted(merged, flexion_keys), max(len(merged) - 1, 0))
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


def _edge_means(one: Integers, two: Integers, values: Array, count: int) -> Array:
    """Mean over the flexion springs that each spring is half of; 0 without any."""
    both = np.concatenate([one, two])
    number = np.bincount(both, minlength=count)
    total = np.bincount(both, np.concatenate([values, values]), minlength=count)
    return np.asarray(total / np.maximum(number, 1))


def _thread_stiffness(
    total: list[Array], edge_spring: Integers, table: EdgeTable, targets: tuple[_Target, _Target]
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
    vertices = np.stack([keys // count, keys % count], axis=1)[order]
    length = np.linalg.norm(rest[vertices[:, 1]] - rest[vertices[:, 0]], axis=1)
    return SpringNetwork(
        vertices.astype(np.int32), kind[order], length, stiffness[order], damping[order]
    )


def straight_pairs(
    mesh: Mesh, table: EdgeTable, rest: Array
) -> tuple[Integers, Integers, Integers]:
    """Pairs of edges that run straight on through a vertex and share no face there.

    Returns:
        (P,) and (P,) edges, (P, 2) their far ends, smaller index first.
    """
    edges = table.vertices.astype(np.int64)
    edge_count = len(edges)
    owner = np.concatenate([edges[:, 0], edges[:, 1]])
    order = np.argsort(owner, kind="stable")
    other = np.concatenate([edges[:, 1], edges[:, 0]])[order]
    edge = order % max(edge_count, 1)
    slot = np.empty(2 * edge_count, dtype=np.int64)
    degree = np.bincount(owner, minlength=mesh.vertex_count)
    start = np.cumsum(degree) - degree
    slot[order] = np.arange(2 * edge_count) - start[owner[order]]
    direction = rest[other] - rest[owner[order]]
    direction /= np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-300)
    beside = _edges_sharing_a_face(mesh, table, slot, edge_count)
    pairs: list[Integers] = [np.zeros((0, 4), dtype=np.int64)]
    for size in np.unique(degree[(degree > 1) & (degree <= _STAR)]):
        vertices = np.flatnonzero(degree == size)
        rows = start[vertices, None] + np.arange(size)
        cosine = np.einsum("nid,njd->nij", direction[rows], direction[rows])
        place = np.full(mesh.vertex_count, -1, dtype=np.int64)
        place[vertices] = np.arange(len(vertices))
        here = beside[place[beside[:, 0]] >= 0]
        cosine[place[here[:, 0]], here[:, 1], here[:, 2]] = 1.0
        cosine[place[here[:, 0]], here[:, 2], here[:, 1]] = 1.0
        best = cosine.argmin(axis=2)
        index = np.arange(len(vertices))[:, None]
        mutual = np.take_along_axis(best, best, axis=1) == np.arange(size)
        lowest = np.take_along_axis(cosine, best[:, :, None], axis=2)[:, :, 0]
        good = mutual & (lowest < _STRAIGHT) & (best > np.arange(size))
        row, first = np.nonzero(good)
        one, two = rows[row, first], rows[row, best[row, first]]
        pairs.append(np.stack([edge[one], edge[two], other[one], other[two]], axis=1))
        del index
    found = np.concatenate(pairs)
    ends = np.sort(found[:, 2:], axis=1)
    return found[:, 0], found[:, 1], ends


def _edges_sharing_a_face(
    mesh: Mesh, table: EdgeTable, slot: Integers, edge_count: int
) -> Integers:
    """(N, 3) vertex and the places of two edges there that belong to one face."""
    edges = table.vertices.astype(np.int64)
    following = next_corner(mesh)
    vertex = mesh.corners[following].astype(np.int64)
    before, after = table.corner_edges, table.corner_edges[following]
    proper = (before >= 0) & (after >= 0)
    vertex, before, after = vertex[proper], before[proper], after[proper]
    slot_before = slot[before + edge_count * (edges[before, 1] == vertex)]
    slot_after = slot[after + edge_count * (edges[after, 1] == vertex)]
    return np.stack([vertex, slot_before, slot_after], axis=1)
