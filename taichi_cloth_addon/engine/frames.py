# SPDX-License-Identifier: GPL-3.0-or-later
"""The plane of each face, and the directions of warp and weft in it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .fit import Array, Complex, FitWeights, Mask, fit_misfit
from .mesh import EdgeTable, Integers, Mesh, components, face_of_corner, face_vectors

_QUAD = 4
_SAMPLES = 512  # faces of a component that vote on its warp direction
_COARSE = 24  # angles tried over a quarter turn
_FINE = 9  # then between two of those
_NEAR = np.radians(15.0)  # a direction this close to the reference ...
_NEAR_GAIN = 0.9  # ... must reach this part of its misfit to be taken instead
_FAR_GAIN = 0.6  # and any other direction this part
_ORTHOTROPY = 0.925  # M4 / M0 of the sheet that is fitted to find the direction: a woven one
_FIT = FitWeights(m0=1.0, m2=1.0, m4=1.0, ridge=1e-3, sparsity=2e-2)
_ALIGNED = 0.5  # order of the border's directions that makes it the reference
_LAYERS = 64  # of other faces around quads that take over the quads' directions


@dataclass(frozen=True)
class FacePlanes:
    """A flat coordinate system for each face.

    Attributes:
        first, second: (F, 3) orthonormal axes in the face's plane.
        area: (F,) m²; 0 for a degenerate face.
        component: (F,) number of the connected piece.
    """

    first: Array
    second: Array
    area: Array
    component: Integers

    def flat(self, vectors: Array, faces: Integers) -> Complex:
        """Vectors (N, ..., 3) in the planes of the given faces (N,), as complex numbers."""
        first, second = self.first[faces], self.second[faces]
        extra = (1,) * (vectors.ndim - 2)
        first = first.reshape(len(first), *extra, 3)
        second = second.reshape(len(second), *extra, 3)
        return np.asarray((vectors * first).sum(axis=-1) + 1j * (vectors * second).sum(axis=-1))


def face_planes(mesh: Mesh, table: EdgeTable, rest: Array) -> FacePlanes:
    """Planes of the faces; the first axis is a world axis laid into the face.

    The world axis is, for each connected piece, the one that lies flattest in its faces (z
    before x before y if several do).
    """
    vectors = face_vectors(mesh, rest)
    area = np.linalg.norm(vectors, axis=1)
    normal = vectors / np.maximum(area, np.finfo(float).tiny)[:, None]
    normal[area <= 0.0] = (0.0, 0.0, 1.0)
    label = components(table.vertices, mesh.vertex_count)
    face_label = np.zeros(mesh.face_count, dtype=np.int64)
    owner = face_of_corner(mesh)
    face_label[owner] = label[mesh.corners]
    _, component = np.unique(face_label, return_inverse=True)
    component = component.reshape(-1)
    count = int(component.max()) + 1 if len(component) else 0
    upright = np.zeros((count, 3))
    for axis in range(3):
        upright[:, axis] = np.bincount(component, area * normal[:, axis] ** 2, count)
    upright /= np.maximum(upright.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    best = (upright + np.array([1e-3, 2e-3, 0.0])).argmin(axis=1)[component]
    world = np.eye(3)[best] if len(best) else np.zeros((0, 3))
    steep = np.abs((world * normal).sum(axis=1)) > 0.95  # noqa: PLR2004
    other = (best + 1) % 3
    other = np.where(np.abs(normal[np.arange(len(other)), other]) > 0.95, (best + 2) % 3, other)  # noqa: PLR2004
    world[steep] = np.eye(3)[other[steep]]
    first = world - (world * normal).sum(axis=1, keepdims=True) * normal
    first /= np.maximum(np.linalg.norm(first, axis=1, keepdims=True), np.finfo(float).tiny)
    return FacePlanes(first, np.cross(normal, first), area, component.astype(np.int64))


def quad_frames(flat: Complex) -> Complex:
    """exp(4iψ) of quads (N, 4) given by their corners in the plane.

    Warp and weft are the lines through the middles of opposite edges, made orthogonal by
    turning both alike.
    """
    one = flat[:, 1] + flat[:, 2] - flat[:, 0] - flat[:, 3]
    two = flat[:, 2] + flat[:, 3] - flat[:, 0] - flat[:, 1]
    phase = -(one**2) * two**2
    return np.asarray(phase / np.maximum(np.abs(phase), np.finfo(float).tiny))


def border_phase(
    mesh: Mesh, table: EdgeTable, planes: FacePlanes, rest: Array
) -> tuple[Complex, Array]:
    """Mean of exp(4iφ) over the border edges of each component, and how aligned they are.

    Returns:
        (components,) unit phases and (components,) order from 0 (all directions) to 1.
    """
    count = int(planes.component.max()) + 1 if len(planes.component) else 0
    single = np.flatnonzero(np.diff(table.face_offsets) == 1)
    slot = table.face_offsets[single]
    face = table.faces[slot]
    ends = rest[table.vertices[single]]
    along = planes.flat(ends[:, 1] - ends[:, 0], face)
    length = np.maximum(np.abs(along), np.finfo(float).tiny)
    quadruple = (along / length) ** 4 * length
    component = planes.component[face]
    total: Complex = np.bincount(component, quadruple.real, count) + 1j * np.bincount(
        component, quadruple.imag, count
    )
    norm = np.maximum(np.bincount(component, length, count), np.finfo(float).tiny)
    size = np.maximum(np.abs(total), np.finfo(float).tiny)
    phase: Complex = total / size
    return phase, np.abs(total) / norm


@dataclass(frozen=True)
class Elements:
    """The elements of some faces of one kind that a fit may use.

    Attributes:
        faces: (N,) the faces.
        angles, allowed, price: (N, n), see ``fit.fit_weights``.
    """

    faces: Integers
    angles: Array
    allowed: Mask
    price: Array


def component_frames(
    groups: list[Elements],
    planes: FacePlanes,
    border: tuple[Complex, Array],
) -> Complex:
    """(components,) exp(4iψ), ψ measured from the first axis of each face.

    Polygons other than quads have no warp and weft of their own. All those of a connected piece
    share one angle from their common world axis: the one that their springs can represent best
    (up to ``_SAMPLES`` faces vote), provided it is clearly better than the reference. The
    reference is the direction of the piece's border, if that is straight or square enough,
    else the world axis. The fabric has no say in this, so a mesh keeps its warp whatever the
    stiffness.
    """
    count = len(border[0])
    reference = np.where(border[1] > _ALIGNED, border[0], 1.0)
    votes = [(group, _sample(planes.component[group.faces])) for group in groups]
    votes = [(group, rows) for group, rows in votes if len(rows)]
    if not votes:
        return reference

    def misfit(phase: Complex) -> Array:
        total = np.zeros(count)
        for group, rows in votes:
            component = planes.component[group.faces[rows]]
            value = fit_misfit(
                group.angles[rows],
                group.allowed[rows],
                group.price[rows],
                _ORTHOTROPY * phase[component],
                _FIT,
            )
            total += np.bincount(component, value * planes.area[group.faces[rows]], count)
        return total

    def search(centre: Complex, offsets: npt.NDArray[np.floating]) -> tuple[Complex, Array]:
        tried = np.stack([misfit(centre * np.exp(1j * offset)) for offset in offsets])
        best = tried.argmin(axis=0)
        return centre * np.exp(1j * offsets[best]), tried[best, np.arange(count)]

    step = 2 * np.pi / _COARSE
    at_reference = misfit(reference)
    result, limit = reference, _NEAR_GAIN * at_reference - 1e-12
    near = np.linspace(-4.0 * _NEAR, 4.0 * _NEAR, 2 * _FINE - 1)
    all_round = np.arange(_COARSE) * step
    for offsets, gain in ((all_round, _FAR_GAIN), (near, _NEAR_GAIN)):
        width = float(offsets[1] - offsets[0])
        centre, value = search(reference, offsets)
        for _ in range(2):
            centre, value = search(centre, np.linspace(-width, width, _FINE))
            width *= 2.0 / (_FINE - 1)
        taken = value < np.minimum(limit, gain * at_reference)
        result = np.where(taken, centre, result)
        limit = np.where(taken, value / _FAR_GAIN * _NEAR_GAIN, limit)
    return result


def _sample(component: Integers) -> Integers:
    """Rows that stand for their component: all, or evenly spread ones of a large component."""
    order = np.argsort(component, kind="stable")
    sizes = np.bincount(component) if len(component) else np.zeros(0, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    stride = -(-sizes // _SAMPLES)
    rank = np.arange(len(order)) - starts[component[order]]
    return np.sort(order[rank % np.maximum(stride[component[order]], 1) == 0])


def spread_frames(
    known: Mask, phase: Complex, pairs: Integers, turns: Complex
) -> tuple[Mask, Complex]:
    """Carry exp(4iψ) from faces that know it to their neighbours, layer by layer.

    Args:
        known: (F,) faces whose phase is given.
        phase: (F,) exp(4iψ).
        pairs: (N, 2) neighbouring faces.
        turns: (N,) factor that carries the phase of the first of a pair to the second.
    """
    known, phase = known.copy(), phase.copy()
    if not len(pairs) or not known.any() or known.all():
        return known, phase
    source = np.concatenate([pairs[:, 0], pairs[:, 1]])
    target = np.concatenate([pairs[:, 1], pairs[:, 0]])
    factor = np.concatenate([turns, np.conj(turns)])
    for _ in range(_LAYERS):
        live = known[source] & ~known[target]
        if not live.any():
            break
        carried = phase[source[live]] * factor[live]
        total = np.bincount(target[live], carried.real, len(phase)) + 1j * np.bincount(
            target[live], carried.imag, len(phase)
        )
        reached = np.abs(total) > 1e-6  # noqa: PLR2004
        if not reached.any():
            break
        phase[reached] = total[reached] / np.abs(total[reached])
        known |= reached
    return known, phase
