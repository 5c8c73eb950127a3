# SPDX-License-Identifier: GPL-3.0-or-later
"""How much an irregular network gives way by moving its vertices, and making up for it.

The fit of the faces takes for granted that a stretched sheet moves its vertices evenly. On an
irregular mesh they do not stay there: zigzag chains straighten, and the sheet is softer than
the sum of its faces. Here the sheet is stretched along the warp and along the weft in thought:
each spring gets the strain that the sheet has in its direction, the vertices may move (some
rounds of conjugate gradients; the movement is local), and the energy that is left tells the
true stiffness. Only what varies from vertex to vertex counts: vertices at borders are held, the
rest move in the surface, and forces that they share with their neighbours are left out, or the
stretch would simply be undone, as it can be on a curved surface.
"""

from dataclasses import dataclass

import numpy as np

from .fit import Array, Complex, Mask
from .frames import FacePlanes
from .membrane import Candidates
from .mesh import EdgeTable, Integers, Mesh, face_of_corner

_PATCH = 12_000  # faces of a component that are looked at
_ROUNDS = 5
_REGULAR = 1e-4  # energy that the first step may win, over the whole, to call a mesh regular
_COHERENT = 0.5  # cosine of twice the angle between the warps of faces at a free vertex
_LEAST, _MOST = 0.67, 1.5  # bounds of the correction


@dataclass(frozen=True)
class _Bars:
    """Springs of single faces.

    Attributes:
        ends: (B, 2) vertices.
        direction: (B, 3) unit vectors.
        length: (B,) m.
        stiffness: (B,) N/m.
        warp: (B,) squared cosine of the angle to the warp.
        contraction: (B,) Poisson's ratio of the sheet there.
        component: (B,).
    """

    ends: Integers
    direction: Array
    length: Array
    stiffness: Array
    warp: Array
    contraction: Array
    component: Integers


@dataclass(frozen=True)
class _Surface:
    """Where the vertices may go.

    Attributes:
        normals: (V, 3) unit vectors.
        held: (V,) vertices that stay.
        pairs: (N, 2) neighbouring vertices.
    """

    normals: Array
    held: Mask
    pairs: Integers

    def tangential(self, forces: Array) -> Array:
        """Forces (V, 3) without their part along the normals, none at held vertices."""
        inside = forces - (forces * self.normals).sum(axis=1, keepdims=True) * self.normals
        return np.where(self.held[:, None], 0.0, inside)

    def uneven(self, forces: Array) -> Array:
        """Forces (V, 3) less their mean over the neighbourhood, two edges wide."""
        one, two = self.pairs.T
        count = len(forces)
        number = np.bincount(one, minlength=count) + np.bincount(two, minlength=count)
        smooth = forces
        for _ in range(2):
            total = [
                np.bincount(one, smooth[two, axis], count)
                + np.bincount(two, smooth[one, axis], count)
                for axis in range(3)
            ]
            smooth = np.stack(total, axis=1) / np.maximum(number, 1)[:, None]
        return self.tangential(forces - smooth)


def corrected(
    sheet: Mesh,
    table: EdgeTable,
    planes: FacePlanes,
    rest: Array,
    groups: list[Candidates],
    shares: list[Array],
    frames: Complex,
    tension: float,
    contraction: Array,
) -> list[Array]:
    """Shares with which the sheet has its uniaxial stiffness, the vertices' own movement included.

    Args:
        sheet: the faces.
        table: its edges.
        planes: its faces' planes.
        rest: (V, 3) m.
        groups: the springs of the faces.
        shares: (N, n) stiffness each face asks of them, N/m.
        frames: (F,) exp(4iψ) of the warp.
        tension: wanted uniaxial stiffness, N/m.
        contraction: (F,) Poisson's ratio of the sheet.
    """
    if not groups:
        return shares
    count = int(planes.component.max()) + 1
    warp = _warp_angles(planes, frames, count)
    chosen = _patches(sheet, planes, rest)
    held = _held(sheet, table, planes, warp, chosen)
    squares = [_squared_cosines(group, warp) for group in groups]
    bars = _bars(planes, rest, groups, shares, squares, contraction, chosen)
    surface = _Surface(_normals(sheet, planes, len(rest)), held, table.vertices.astype(np.int64))
    area = np.bincount(planes.component[chosen], planes.area[chosen], count)
    factors = []
    for along in (bars.warp, 1.0 - bars.warp):
        strain = along - bars.contraction * (1.0 - along)
        energy = _relaxed_energy(bars, strain, surface, count)
        reached = 2.0 * energy / np.maximum(tension * area, 1e-300)
        factors.append(np.clip(1.0 / np.maximum(reached, 1e-300), _LEAST, _MOST))
    result = []
    for group, share, square in zip(groups, shares, squares, strict=True):
        component = planes.component[group.elements.faces]
        scale = factors[0][component, None] * square + factors[1][component, None] * (1.0 - square)
        result.append(share * scale)
    return result


def _warp_angles(planes: FacePlanes, frames: Complex, count: int) -> Array:
    """(F,) ψ, of the four directions that a frame allows those that agree in a component."""
    weight = frames * planes.area
    mean = np.bincount(planes.component, weight.real, count) + 1j * np.bincount(
        planes.component, weight.imag, count
    )
    mean = np.where(np.abs(mean) > 0.0, mean, 1.0)[planes.component]
    return np.asarray(0.25 * (np.angle(frames * np.conj(mean)) + np.angle(mean)))


def _squared_cosines(group: Candidates, warp: Array) -> Array:
    angle = group.elements.angles - warp[group.elements.faces, None]
    return np.asarray(np.cos(angle) ** 2)


def _patches(sheet: Mesh, planes: FacePlanes, rest: Array) -> Integers:
    """Faces to look at: those of small components, a round patch of a large one."""
    sizes = np.bincount(planes.component)
    chosen = [np.flatnonzero(sizes[planes.component] <= _PATCH)]
    for number in np.flatnonzero(sizes > _PATCH):
        faces = np.flatnonzero(planes.component == number)
        corner = rest[sheet.corners[sheet.offsets[faces]]]
        distance = np.linalg.norm(corner - corner[len(corner) // 2], axis=1)
        chosen.append(faces[np.argpartition(distance, _PATCH)[:_PATCH]])
    return np.concatenate(chosen)


def _held(sheet: Mesh, table: EdgeTable, planes: FacePlanes, warp: Array, chosen: Integers) -> Mask:
    """(V,) vertices that stay: outside and at the rim of the patch, or between unlike warps."""
    inside = np.zeros(sheet.face_count, dtype=np.bool_)
    inside[chosen] = True
    owner = face_of_corner(sheet)
    used = inside[owner] & (table.corner_edges >= 0)
    tally = np.bincount(table.corner_edges[used], minlength=len(table.vertices))
    held = np.ones(sheet.vertex_count, dtype=np.bool_)
    held[sheet.corners[inside[owner]]] = False
    held[table.vertices[tally == 1].reshape(-1)] = True
    pairs = np.flatnonzero(np.diff(table.face_offsets) == 2)  # noqa: PLR2004
    one, two = (table.faces[table.face_offsets[pairs] + step] for step in (0, 1))
    axes = []
    for face in (one, two):
        turn = warp[face, None]
        axes.append(np.cos(turn) * planes.first[face] + np.sin(turn) * planes.second[face])
    cosine = (axes[0] * axes[1]).sum(axis=1)
    apart = 2.0 * cosine**2 - 1.0 < _COHERENT
    held[table.vertices[pairs[apart]].reshape(-1)] = True
    return held


def _bars(
    planes: FacePlanes,
    rest: Array,
    groups: list[Candidates],
    shares: list[Array],
    squares: list[Array],
    contraction: Array,
    chosen: Integers,
) -> _Bars:
    inside = np.zeros(len(planes.area), dtype=np.bool_)
    inside[chosen] = True
    ends, stiffness, warp, ratio, component = [], [], [], [], []
    for group, share, square in zip(groups, shares, squares, strict=True):
        used = inside[group.elements.faces, None] & (share > 0.0)
        ends.append(group.pairs[used])
        stiffness.append(share[used])
        warp.append(square[used])
        faces = np.broadcast_to(group.elements.faces[:, None], share.shape)[used]
        ratio.append(contraction[faces])
        component.append(planes.component[faces])
    joined = np.concatenate(ends)
    along = rest[joined[:, 1]] - rest[joined[:, 0]]
    length = np.linalg.norm(along, axis=1)
    return _Bars(
        joined,
        along / np.maximum(length, 1e-300)[:, None],
        length,
        np.concatenate(stiffness),
        np.concatenate(warp),
        np.concatenate(ratio),
        np.concatenate(component),
    )


def _normals(sheet: Mesh, planes: FacePlanes, vertex_count: int) -> Array:
    """(V, 3) normals, from the faces around each vertex that turn alike."""
    owner = face_of_corner(sheet)
    normal = np.cross(planes.first, planes.second) * planes.area[:, None]
    total = [np.bincount(sheet.corners, normal[owner, axis], vertex_count) for axis in range(3)]
    stacked = np.stack(total, axis=1)
    length = np.linalg.norm(stacked, axis=1, keepdims=True)
    return np.asarray(stacked / np.maximum(length, 1e-300), dtype=np.float64)


def _relaxed_energy(bars: _Bars, strain: Array, surface: _Surface, count: int) -> Array:
    """(components,) energy of the strained bars after some rounds of conjugate gradients, J."""
    first, second = bars.ends.T
    vertex_count = len(surface.held)
    owner = np.zeros(vertex_count, dtype=np.int64)
    owner[first], owner[second] = bars.component, bars.component

    def gather(tension: Array) -> Array:
        pull = tension[:, None] * bars.direction
        total = [
            np.bincount(second, pull[:, axis], vertex_count)
            - np.bincount(first, pull[:, axis], vertex_count)
            for axis in range(3)
        ]
        return surface.tangential(np.stack(total, axis=1))

    def stretch(moved: Array) -> Array:
        return np.asarray(((moved[second] - moved[first]) * bars.direction).sum(axis=1))

    def sums(values: Array) -> Array:
        return np.bincount(owner, values.sum(axis=1), count)

    wanted = bars.length * strain
    energy = 0.5 * np.bincount(bars.component, bars.stiffness * wanted**2, count)
    diagonal = np.bincount(first, bars.stiffness, vertex_count)
    diagonal += np.bincount(second, bars.stiffness, vertex_count)
    inverse = np.where(diagonal > 0.0, 1.0 / np.maximum(diagonal, 1e-300), 0.0)[:, None]
    residual = -surface.uneven(gather(bars.stiffness * wanted))
    ready = inverse * residual
    search = ready
    slope = sums(residual * ready)
    for number in range(_ROUNDS):
        if number == 0 and (slope <= _REGULAR * energy).all():
            break
        image = gather(bars.stiffness * stretch(search))
        step = slope / np.maximum(sums(search * image), 1e-300)
        energy = energy - 0.5 * step * slope
        residual = residual - step[owner, None] * image
        ready = inverse * residual
        fresh = sums(residual * ready)
        search = ready + (fresh / np.maximum(slope, 1e-300))[owner, None] * search
        slope = fresh
    return np.maximum(energy, 0.0)
