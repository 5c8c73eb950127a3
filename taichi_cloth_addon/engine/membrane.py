# SPDX-License-Identifier: GPL-3.0-or-later
"""What each face asks of the springs on it, so that the sheet has its membrane stiffness."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .fit import Array, Complex, FitWeights, Mask, fit_weights, moments, uniaxial
from .frames import (
    Elements,
    FacePlanes,
    border_phase,
    component_frames,
    quad_frames,
    spread_frames,
)
from .mesh import EdgeTable, Indices, Integers, Mesh

TRIANGLE = 3
_CAP = 20.0  # largest stiffness a face may ask of one spring, over C11
_FLOOR = 0.02  # least weight of a triangle's edge over C11; half of G if that is less
_FOLDED = -0.5  # cosine above which two triangles are too folded for a shear spring
_QUAD = 4
_PLUMP = 1.8  # longest extent of a triangle over the other that is not slender
_CORNERS = 32768  # corners of polygons at a time, so that their arrays stay in the cache
_FITTED = 24  # largest polygon whose springs are fitted; larger ones share alike
_FIT_TRIANGLES = FitWeights(m0=1.0, m2=1.0, m4=1.0, ridge=1e-3, sparsity=1e-3)
_FIT_QUADS = FitWeights(m0=1.0, m2=1.0, m4=1.0, ridge=0.3, sparsity=0.0, refinements=0)
_FIT_POLYGONS = FitWeights(m0=1.0, m2=1.0, m4=1.0, ridge=1e-2, sparsity=0.0)


@dataclass(frozen=True)
class Candidates:
    """Springs that faces of one size may use.

    Attributes:
        elements: faces, angles, allowed, price; structural springs first.
        structural: number of structural ones among the n.
        pairs: (N, n, 2) their ends.
        lengths: (N, n) m.
    """

    elements: Elements
    structural: int
    pairs: npt.NDArray[np.integer]
    lengths: Array


@dataclass(frozen=True)
class Target:
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


def slenderness(
    groups: list[Candidates], planes: FacePlanes, frames: Complex, rest: Array
) -> Array:
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
        if group.structural == TRIANGLE:  # whose springs run in more directions
            ratio = np.where(ratio < _PLUMP, 1.0, ratio)
        slant[faces] = np.minimum(ratio, 1e3) ** 2
    return slant


def elastic_target(tension: float, shear: float, slant: Array) -> Target:
    """Where a face is too slender for the shear stiffness, that gives way, not the tension."""
    part = (0.9 + 0.1 / slant) / slant
    limit = part * tension / np.maximum(1.0 - part**2, 1e-12)
    shear_at = np.minimum(shear, limit)
    axial_at = 0.5 * (tension + np.hypot(tension, 2.0 * shear_at))
    return Target(axial_stiffness(tension, shear), shear, axial_at, shear_at)


def viscous_target(
    elastic: Target, tension_time: float, shear_damping: float, slant: Array
) -> Target:
    """Viscosities in proportion to the stiffness, apart for tension and shear."""
    axial = (elastic.axial - elastic.shear) * tension_time + shear_damping
    shear_at = np.minimum(shear_damping, axial * (0.9 + 0.1 / slant) / slant)
    return Target(axial, shear_damping, np.full(len(slant), axial), shear_at)


def candidates(sheet: Mesh, table: EdgeTable, planes: FacePlanes, rest: Array) -> list[Candidates]:
    """The springs that the faces of each size may use."""
    found = []
    sizes = sheet.sizes
    for size in np.unique(sizes):
        faces = np.flatnonzero((sizes == size) & (planes.area > 0.0))
        if not len(faces):
            continue
        corners = sheet.offsets[faces, None] + np.arange(size, dtype=np.int32)
        if size == TRIANGLE:
            found.append(_triangle_candidates(sheet, table, planes, rest, faces, corners))
        else:
            step = max(_CORNERS // int(size), 1)
            pieces = [
                _polygon_candidates(
                    sheet, planes, rest, faces[start : start + step], corners[start : start + step]
                )
                for start in range(0, len(faces), step)
            ]
            found.append(_joined(faces, pieces))
    return found


def _joined(faces: Integers, pieces: list[Candidates]) -> Candidates:
    elements = [piece.elements for piece in pieces]
    return Candidates(
        Elements(
            faces,
            np.concatenate([part.angles for part in elements]),
            np.concatenate([part.allowed for part in elements]),
            np.concatenate([part.price for part in elements]),
        ),
        pieces[0].structural,
        np.concatenate([piece.pairs for piece in pieces]),
        np.concatenate([piece.lengths for piece in pieces]),
    )


def _finish(
    faces: Integers,
    area: Array,
    pairs: npt.NDArray[np.integer],
    structural: int,
    along: Complex,
    lengths: Array,
    allowed: Mask,
) -> Candidates:
    allowed = allowed & (pairs[:, :, 0] != pairs[:, :, 1]) & (lengths > 0.0) & (np.abs(along) > 0.0)
    price = np.minimum(lengths**2 / area[:, None], 100.0)
    price[:, :structural] *= 0.1
    elements = Elements(faces, np.angle(along), allowed, price)
    return Candidates(elements, structural, pairs, lengths)


def _polygon_candidates(
    sheet: Mesh, planes: FacePlanes, rest: Array, faces: Integers, corners: Indices
) -> Candidates:
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
    names = sheet.corners[corners]
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
    corners: Indices,
) -> Candidates:
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
        manifold &= (sheet.sizes[neighbour] == TRIANGLE) & usable[neighbour]
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


def material_frames(
    sheet: Mesh,
    table: EdgeTable,
    planes: FacePlanes,
    rest: Array,
    groups: list[Candidates],
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


def fit_groups(
    groups: list[Candidates],
    planes: FacePlanes,
    frames: Complex,
    target: Target,
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


def _fit_group(group: Candidates, target: Target, phase: Complex) -> Array:
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
        least[:, : group.structural] = bound[:, None] * (TRIANGLE / group.structural)
    if group.structural == TRIANGLE:
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
