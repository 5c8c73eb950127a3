# SPDX-License-Identifier: GPL-3.0-or-later
"""Hinges that give the sheet its bending stiffness, and their constant quadratic form.

A hinge is an axis (e0, e1) with a wing on either side. Its wing points are the middle of a0
and a1, and the middle of b0 and b1. The angle theta between the triangles (e0, e1, a) and
(e1, e0, b) is 0 when flat, and its energy is ``k (1 - cos(theta - rest_angle))``.

Hinges lie on the interior edges and on the diagonals of quads and larger polygons. Two
triangles that make a rectangle of sorts (a quad that was split) count as a quad, so that it
makes no difference whether a mesh was triangulated.

Where the vertices lie on a smooth surface of curvature κ, a hinge's angle is a linear function
of it, ``theta = H : κ`` with ``H = 1/2 sum w_i x_i ⊗ x_i`` for the flat hinge's vertices x_i
and weights w_i = d theta / d height. A hinge adds ``k / A · H ⊗ H`` to the bending tensor of a
face of area A. Each face fits its hinges to the tensor ``B · identity``, that is an isotropic
sheet with moment B per width and curvature when it is rolled up, energy ``B/2 κ : κ`` and
Poisson's ratio 0, which quads reach exactly. Triangles cannot (their hinges are three for a
tensor of six numbers), so there the stiffness against rolling up, averaged over the
directions, comes first. An edge at a border has no hinge, but counts in the fit of its face,
so that the hinges beside it are as stiff as inside.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .fit import CHUNK, Array, Complex, FitWeights, Mask, fit_system
from .frames import FacePlanes, face_planes
from .mesh import EdgeTable, Indices, Integers, Mesh, clean_faces, edge_table, select_faces

_CAP = 20.0  # largest stiffness a face may ask of one hinge, over B
_LOW = 1e-3  # least height of a wing over the length of the axis
_TRIANGLE = 3
_QUAD = 4
_FITTED = 24  # largest polygon whose hinges are fitted; those of larger ones share alike
_ROLLING = 4.0  # weight of the mean stiffness against rolling up
_SQUARE = 0.5  # largest |cosine| at the corners of two triangles that count as a quad
_FLAT = -0.9  # and largest cosine between their wings
_FIT_TRIANGLES = FitWeights(m0=0.0, m2=0.0, m4=0.0, ridge=1e-2, sparsity=0.0, refinements=1)
_FIT_POLYGONS = FitWeights(m0=0.0, m2=0.0, m4=0.0, ridge=0.1, sparsity=0.0, refinements=0)


@dataclass(frozen=True)
class HingeSet:
    """Hinges between wings.

    Attributes:
        vertices: (H, 6) e0, e1, a0, a1, b0, b1; a0 = a1 where the wing is a vertex.
        rest_angle: (H,) theta in the rest shape, rad.
        stiffness: (H,) N m.
        damping: (H,) N m s.
    """

    vertices: Indices
    rest_angle: Array
    stiffness: Array
    damping: Array


@dataclass(frozen=True)
class SparseMatrix:
    """Symmetric matrix by rows; column indices ascend in each row, the diagonal is stored.

    Attributes:
        offsets: (V + 1,) row v has the entries offsets[v] to offsets[v + 1].
        neighbours: column of each entry.
        weights: value of each entry.
    """

    offsets: Indices
    neighbours: Indices
    weights: Array


@dataclass(frozen=True)
class _Flaps:
    """Hinges as faces see them: N faces with n hinges each.

    Attributes:
        faces: (N,).
        vertices: (N, n, 6) as in HingeSet.
        present: (N, n) false where there is no hinge.
        counted: (N, n) whether it takes part in the fit.
        trace: (N, n) H11 + H22 over √2, m.
        deviator: (N, n) (H11 - H22) / √2 + i √2 H12 in the face's plane, m.
    """

    faces: Integers
    vertices: Integers
    present: Mask
    counted: Mask
    trace: Array
    deviator: Complex


def build_hinges(
    mesh: Mesh, rest: Array, bending_stiffness: float, bending_damping: float
) -> HingeSet:
    """Hinges that give the sheet its bending stiffness on this mesh.

    Args:
        mesh: any polygon mesh; bad faces are left out.
        rest: (V, 3) shape without bending moment, m.
        bending_stiffness: moment per width and curvature, N m.
        bending_damping: moment per width and rate of curvature, N m s.
    """
    points = np.where(np.isfinite(rest), rest, 0.0).astype(np.float64)
    sheet = pair_triangles(select_faces(mesh, clean_faces(mesh, rest)), points)
    table = edge_table(sheet)
    planes = face_planes(sheet, table, points)
    vertices: list[Integers] = [np.zeros((0, 6), dtype=np.int64)]
    shares: list[Array] = [np.zeros(0)]
    for flaps in _flaps(sheet, table, planes, points):
        share = _fit(flaps, planes)
        used = flaps.present & (share > 1e-6)  # noqa: PLR2004
        vertices.append(flaps.vertices[used])
        shares.append(share[used])
    merged, stiffness = _merge(np.concatenate(vertices), np.concatenate(shares))
    return HingeSet(
        merged.astype(np.int32),
        hinge_angles(points, merged),
        bending_stiffness * stiffness,
        bending_damping * stiffness,
    )


def hinge_angles(positions: Array, vertices: npt.ArrayLike) -> Array:
    """(H,) theta of the hinges (H, 6): positive where the wings are raised along the normals.

    The sign is that of ``(n_b × n_a) · (e1 - e0)`` for the normals of (e0, e1, a), (e1, e0, b).
    """
    index = np.asarray(vertices)
    e0, e1 = positions[index[:, 0]], positions[index[:, 1]]
    wing_a = 0.5 * (positions[index[:, 2]] + positions[index[:, 3]])
    wing_b = 0.5 * (positions[index[:, 4]] + positions[index[:, 5]])
    axis = e1 - e0
    axis = axis / np.maximum(np.linalg.norm(axis, axis=1, keepdims=True), 1e-300)
    normal_a = np.cross(axis, wing_a - e0)
    normal_b = np.cross(wing_b - e0, axis)
    sine = (np.cross(normal_b, normal_a) * axis).sum(axis=1)
    cosine = (normal_a * normal_b).sum(axis=1)
    return np.asarray(np.arctan2(sine, cosine), dtype=np.float64)


def bending_matrix(hinges: HingeSet, rest: Array, vertex_count: int) -> SparseMatrix:
    """Constant form Q with x^T (Q ⊗ I) x = sum over hinges of k |sum w_i x_i|².

    w_i is the derivative of theta by the height of vertex i over the hinge laid flat, so Q is
    positive semidefinite and approximates the Hessian of the bending energy; its rows sum to 0.
    """
    weights = hinge_weights(rest, hinges.vertices)
    index = hinges.vertices.astype(np.int64)
    double_a, double_b = index[:, 2] == index[:, 3], index[:, 4] == index[:, 5]
    lean = double_a & double_b
    rows: list[Integers] = []
    values: list[Array] = []
    slim = np.stack(
        [weights[:, 0], weights[:, 1], 2.0 * weights[:, 2], 2.0 * weights[:, 4]], axis=1
    )
    for chosen, names, factors in (
        (lean, index[:, [0, 1, 2, 4]], slim),
        (~lean, index, weights),
    ):
        local, factor = names[chosen], factors[chosen]
        scaled = factor * hinges.stiffness[chosen, None]
        size = local.shape[1]
        for i in range(size):
            for j in range(i, size):
                low = np.minimum(local[:, i], local[:, j])
                high = np.maximum(local[:, i], local[:, j])
                value = scaled[:, i] * factor[:, j]
                if i != j:  # two entries of one vertex make twice a product on the diagonal
                    value = np.where(low == high, 2.0 * value, value)
                rows.append(low * vertex_count + high)
                values.append(value)
    diagonal = np.arange(vertex_count, dtype=np.int64) * (vertex_count + 1)
    keys, inverse = np.unique(np.concatenate([diagonal, *rows]), return_inverse=True)
    total = np.bincount(
        inverse.reshape(-1), np.concatenate([np.zeros(vertex_count), *values]), len(keys)
    )
    low, high = keys // max(vertex_count, 1), keys % max(vertex_count, 1)
    off = low != high
    row = np.concatenate([low, high[off]])
    column = np.concatenate([high, low[off]])
    order = np.argsort(row * max(vertex_count, 1) + column)
    offsets = np.zeros(vertex_count + 1, dtype=np.int32)
    np.cumsum(np.bincount(row, minlength=vertex_count), out=offsets[1:])
    return SparseMatrix(
        offsets, column[order].astype(np.int32), np.concatenate([total, total[off]])[order]
    )


def hinge_weights(rest: Array, vertices: npt.ArrayLike) -> Array:
    """(H, 6) derivative of theta by the height of each vertex over the hinge laid flat, 1/m."""
    index = np.asarray(vertices)
    e0 = rest[index[:, 0]]
    along_a, height_a, length = _wing(e0, rest[index[:, 1]], rest[index[:, 2]], rest[index[:, 3]])
    along_b, height_b, _ = _wing(e0, rest[index[:, 1]], rest[index[:, 4]], rest[index[:, 5]])
    floor = np.maximum(_LOW * length, 1e-300)
    pull_a, pull_b = 1.0 / np.maximum(height_a, floor), 1.0 / np.maximum(height_b, floor)
    pull_a, pull_b = np.where(length > 0.0, pull_a, 0.0), np.where(length > 0.0, pull_b, 0.0)
    second = -(along_a * pull_a + along_b * pull_b)
    first = -(pull_a + pull_b) - second
    half_a, half_b = 0.5 * pull_a, 0.5 * pull_b
    return np.stack([first, second, half_a, half_a, half_b, half_b], axis=1)


def _wing(e0: Array, e1: Array, p0: Array, p1: Array) -> tuple[Array, Array, Array]:
    """Where a wing point stands over the axis: place from 0 (e0) to 1 (e1), height, axis length."""
    axis = e1 - e0
    square = (axis * axis).sum(axis=-1)
    reach = 0.5 * (p0 + p1) - e0
    along = (reach * axis).sum(axis=-1) / np.maximum(square, 1e-300)
    height = np.linalg.norm(reach - along[..., None] * axis, axis=-1)
    return along, height, np.sqrt(square)


def _fit(flaps: _Flaps, planes: FacePlanes) -> Array:
    """(N, n) stiffness that each face asks of its hinges for a sheet of B = 1 N m."""
    area = planes.area[flaps.faces]
    square = flaps.trace**2 + np.abs(flaps.deviator) ** 2
    size = np.sqrt(np.maximum(square, 1e-300))
    trace, deviator = flaps.trace / size, flaps.deviator / size
    counted = flaps.counted & (square > 0.0)
    number = np.maximum(counted.sum(axis=1, keepdims=True), 1)
    weights = np.where(counted, 3.0 / number, 0.0)
    columns = size.shape[1]
    settings = _FIT_TRIANGLES if columns == _TRIANGLE else _FIT_POLYGONS
    for start in range(0, len(area) if columns <= 2 * _FITTED else 0, CHUNK):
        part = slice(start, start + CHUNK)
        one, two = trace[part], deviator[part]
        product = one[:, :, None] * one[:, None, :]
        product += np.real(two[:, :, None] * np.conj(two[:, None, :]))
        rolling = 0.25 * (1.0 + one**2)
        gram = product**2 + _ROLLING * rolling[:, :, None] * rolling[:, None, :]
        weights[part] = fit_system(
            gram,
            1.0 + _ROLLING * rolling,
            counted[part],
            np.zeros_like(one),
            settings,
            weights[part],
        )
    # A hinge's mean over all rolling directions is (1 + trace²) / 4 of its weight.
    reached = (weights * 0.25 * (1.0 + trace**2)).sum(axis=1, keepdims=True)
    weights *= np.clip(1.0 / np.maximum(reached, 1e-300), 0.5, 2.0)
    stiffness = weights * area[:, None] / np.maximum(square, 1e-300)
    return np.asarray(np.minimum(stiffness, _CAP), dtype=np.float64)


def _merge(vertices: Integers, shares: Array) -> tuple[Integers, Array]:
    """One hinge for each axis and pair of wings, with the sum of the faces' shares."""
    if not len(vertices):
        return vertices, shares
    swap = vertices[:, 0] > vertices[:, 1]
    vertices = np.where(swap[:, None], vertices[:, [1, 0, 4, 5, 2, 3]], vertices)
    for pair in ((2, 3), (4, 5)):
        vertices[:, pair] = np.sort(vertices[:, pair], axis=1)
    # Faces of one hinge may turn in opposite ways: the lower wing first tells nothing of the
    # sign, so a hinge and its mirror image are the same; the rest angle takes care of it.
    mirrored = (vertices[:, 2] > vertices[:, 4]) | (
        (vertices[:, 2] == vertices[:, 4]) & (vertices[:, 3] > vertices[:, 5])
    )
    vertices = np.where(mirrored[:, None], vertices[:, [0, 1, 4, 5, 2, 3]], vertices)
    order = np.lexsort(tuple(vertices[:, column] for column in (5, 4, 3, 2, 1, 0)))
    ordered = vertices[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return ordered[new], np.bincount(np.cumsum(new) - 1, shares[order])


def _flaps(sheet: Mesh, table: EdgeTable, planes: FacePlanes, rest: Array) -> list[_Flaps]:
    found = []
    sizes = sheet.sizes
    wing_points = _wing_points(sheet)
    for size in np.unique(sizes):
        faces = np.flatnonzero((sizes == size) & (planes.area > 0.0))
        if not len(faces):
            continue
        corners = sheet.offsets[faces, None].astype(np.int64) + np.arange(size)
        vertices, present = _edge_hinges(sheet, table, planes, faces, corners, wing_points)
        names = sheet.corners[corners].astype(np.int64)
        inner = _diagonal_hinges(names) if size > _TRIANGLE else vertices[:, :0]
        there = np.ones(inner.shape[:2], dtype=np.bool_)
        found.append(
            _describe(
                faces,
                np.concatenate([vertices, inner], axis=1),
                np.concatenate([present, there], axis=1),
                planes,
                rest,
            )
        )
    return found


def _describe(
    faces: Integers, vertices: Integers, present: Mask, planes: FacePlanes, rest: Array
) -> _Flaps:
    """Find H of each hinge; at a border as if the missing wing mirrored the one there."""
    count, number = present.shape
    border = ~present
    vertices = vertices.copy()
    vertices[border, 4:] = vertices[border, 2:4]
    flat = vertices.reshape(-1, 6)
    weights = hinge_weights(rest, flat)
    e0, e1 = rest[flat[:, 0]], rest[flat[:, 1]]
    low = np.full(len(flat), np.inf)
    owner = np.repeat(faces, number)
    run = planes.flat(e1 - e0, owner)
    side = np.sign((np.conj(run) * planes.flat(_middle(rest, flat, 2) - e0, owner)).imag)
    along_squared = np.zeros(len(flat))
    across_squared = np.zeros(len(flat))
    mixed = np.zeros(len(flat))
    length = np.linalg.norm(e1 - e0, axis=1)
    along_squared += weights[:, 1] * length**2
    for column, sign in ((2, side), (3, side), (4, -side), (5, -side)):
        point = rest[flat[:, column]]
        place, height, _ = _wing(e0, e1, point, point)
        reach = place * length
        along_squared += weights[:, column] * reach**2
        across_squared += weights[:, column] * height**2
        mixed += weights[:, column] * reach * sign * height
    for column in (2, 4):
        _, height, _ = _wing(e0, e1, rest[flat[:, column]], rest[flat[:, column + 1]])
        low = np.minimum(low, height)
    phase = (run / np.maximum(np.abs(run), 1e-300)) ** 2
    root = np.sqrt(0.5)
    trace = 0.5 * root * (along_squared + across_squared)
    deviator = (0.5 * root * (along_squared - across_squared) + 1j * root * mixed) * phase
    shape = (count, number)
    sound = ((length > 0.0) & (low > _LOW * length) & (np.abs(run) > 0.0)).reshape(shape)
    return _Flaps(
        faces,
        vertices,
        present & sound,
        sound,
        trace.reshape(shape),
        deviator.reshape(shape),
    )


def _middle(rest: Array, vertices: Integers, column: int) -> Array:
    return np.asarray(0.5 * (rest[vertices[:, column]] + rest[vertices[:, column + 1]]))


def pair_triangles(sheet: Mesh, rest: Array) -> Mesh:
    """The mesh with triangles joined in twos where they make a flat quad near a rectangle.

    Two triangles are joined if the edge between them is the longest of either. Quads come
    first in the result, then the other faces in their order.
    """
    triangles = np.flatnonzero(sheet.sizes == _TRIANGLE)
    if not len(triangles):
        return sheet
    table = edge_table(sheet)
    corners = sheet.offsets[triangles, None].astype(np.int64) + np.arange(3)
    points = rest[sheet.corners[corners]]
    lengths = np.linalg.norm(np.roll(points, -1, axis=1) - points, axis=2)
    longest = corners[np.arange(len(triangles)), lengths.argmax(axis=1)]
    edge = table.corner_edges[longest]
    tally = np.bincount(edge, minlength=len(table.vertices))
    both = (tally == 2) & (np.diff(table.face_offsets) == 2)  # noqa: PLR2004
    order = np.argsort(edge, kind="stable")
    order = order[both[edge[order]]].reshape(-1, 2)
    first, second = longest[order[:, 0]], longest[order[:, 1]]
    start_a = corners[order[:, 0], 0]
    start_b = corners[order[:, 1], 0]
    e0 = sheet.corners[first]
    e1 = sheet.corners[start_a + (first - start_a + 1) % 3]
    a = sheet.corners[start_a + (first - start_a + 2) % 3]
    b = sheet.corners[start_b + (second - start_b + 2) % 3]
    same_turn = sheet.corners[second] == e1
    quad = np.stack([e0, b, e1, a], axis=1).astype(np.int64)
    corner = rest[quad]
    ahead = np.roll(corner, -1, axis=1) - corner
    back = np.roll(corner, 1, axis=1) - corner
    scale = np.linalg.norm(ahead, axis=2) * np.linalg.norm(back, axis=2)
    cosine = (ahead * back).sum(axis=2) / np.maximum(scale, 1e-300)
    axis = corner[:, 2] - corner[:, 0]
    axis /= np.maximum(np.linalg.norm(axis, axis=1, keepdims=True), 1e-300)
    wings = []
    for tip in (3, 1):
        wing = corner[:, tip] - corner[:, 0]
        wing = wing - (wing * axis).sum(axis=1, keepdims=True) * axis
        wings.append(wing / np.maximum(np.linalg.norm(wing, axis=1, keepdims=True), 1e-300))
    good = same_turn & (np.abs(cosine) < _SQUARE).all(axis=1) & (a != b)
    good &= (wings[0] * wings[1]).sum(axis=1) < _FLAT
    alone = np.ones(sheet.face_count, dtype=np.bool_)
    alone[triangles[order[good]].reshape(-1)] = False
    others = select_faces(sheet, np.flatnonzero(alone))
    quads = quad[good].reshape(-1)
    starts = np.arange(0, len(quads), _QUAD)
    return Mesh(
        sheet.vertex_count,
        np.concatenate([starts, others.offsets + len(quads)]).astype(np.int32),
        np.concatenate([quads, others.corners]).astype(np.int32),
        sheet.loose_edges,
    )


def _wing_points(sheet: Mesh) -> Integers:
    """(L, 2) vertices whose middle lies opposite the edge that starts at each corner."""
    sizes = np.repeat(sheet.sizes, sheet.sizes)
    start = np.repeat(sheet.offsets[:-1].astype(np.int64), sheet.sizes)
    place = np.arange(len(sheet.corners)) - start
    first = start + (place + (sizes + 1) // 2) % np.maximum(sizes, 1)
    second = start + (place + sizes // 2 + 1) % np.maximum(sizes, 1)
    return np.stack([sheet.corners[first], sheet.corners[second]], axis=1).astype(np.int64)


def _edge_hinges(
    sheet: Mesh,
    table: EdgeTable,
    planes: FacePlanes,
    faces: Integers,
    corners: Integers,
    wing_points: Integers,
) -> tuple[Integers, Mask]:
    """Hinges (N, n, 6) across the edges of faces of one size, and whether they are there.

    Where more than two faces share an edge, each bends against the next of them.
    """
    count, size = corners.shape
    following = np.roll(corners, -1, axis=1)
    edge = table.corner_edges[corners]
    begin, end = table.face_offsets[edge], table.face_offsets[edge + 1]
    position = np.empty(len(sheet.corners), dtype=np.int64)
    position[table.corners] = np.arange(len(table.corners))
    slot = position[corners]
    pair = slot + 1
    pair = np.where(pair >= end, np.where(end - begin == 2, begin, slot), pair)  # noqa: PLR2004
    other = table.corners[np.clip(pair, 0, max(len(table.corners) - 1, 0))]
    neighbour = table.faces[np.clip(pair, 0, max(len(table.faces) - 1, 0))]
    present = (edge >= 0) & (pair != slot) & (planes.area[neighbour] > 0.0)
    e0, e1 = sheet.corners[corners].astype(np.int64), sheet.corners[following].astype(np.int64)
    own, far = wing_points[corners], wing_points[other]
    vertices = np.stack(
        [e0, e1, own[:, :, 0], own[:, :, 1], far[:, :, 0], far[:, :, 1]], axis=2
    ).reshape(count, size, 6)
    return vertices, present


def _diagonal_hinges(names: Integers) -> Integers:
    """Hinges (N, n, 6) on the diagonals from corner i to the one opposite."""
    size = names.shape[1]
    half = size // 2
    start = np.arange(half if size % 2 == 0 else size)
    opposite = start + half
    columns = [
        start,
        opposite,
        start + half // 2,
        start + (half + 1) // 2,
        opposite + (size - half) // 2,
        opposite + (size - half + 1) // 2,
    ]
    return np.stack([names[:, column % size] for column in columns], axis=2)
