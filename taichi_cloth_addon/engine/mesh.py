# SPDX-License-Identifier: GPL-3.0-or-later
"""Polygon meshes: triangles, edges, adjacency; diagnosis of bad input; topology hash."""

import hashlib
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from .polygons import triangulate_corners
from .sorting import run_starts, stable_order

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int32]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_T = TypeVar("_T")
Steps: TypeAlias = Generator[None, None, _T]
"""Work with pauses, so that a window can stay alive in between."""

_FACES = 32768  # at a time
_PAIRS = 1 << 17  # at a time
_ZERO_AREA = 1e-10  # of the squared perimeter
_ZERO_LENGTH = 1e-12  # of the mesh's extent
_LISTED = 8  # indices named in one sentence
_COMPARED = 8  # largest polygon whose corners are compared each with each


def finished(steps: Steps[_T]) -> _T:
    """Take all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: _T = stop.value
            return result


@dataclass(frozen=True)
class Mesh:
    """A polygon mesh without positions.

    Attributes:
        vertex_count: V.
        offsets: (F + 1,) polygon f uses corners[offsets[f] : offsets[f + 1]].
        corners: (L,) vertex of each polygon corner, in order around the polygon.
        loose_edges: (E, 2) edges that belong to no polygon.
    """

    vertex_count: int
    offsets: Indices
    corners: Indices
    loose_edges: Indices

    @classmethod
    def from_polygons(
        cls,
        vertex_count: int,
        polygons: Iterable[Sequence[int]],
        loose_edges: Iterable[Sequence[int]] = (),
    ) -> "Mesh":
        """Build a mesh from lists of vertex indices."""
        faces = [list(polygon) for polygon in polygons]
        offsets = np.zeros(len(faces) + 1, dtype=np.int32)
        np.cumsum([len(face) for face in faces], out=offsets[1:])
        corners = np.array([vertex for face in faces for vertex in face], dtype=np.int32)
        loose = np.array(list(loose_edges), dtype=np.int32).reshape(-1, 2)
        return cls(vertex_count, offsets, corners, loose)

    @property
    def face_count(self) -> int:
        """F."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Integers:
        """(F,) corners of each polygon."""
        wide = self.offsets.astype(np.int64)
        return wide[1:] - wide[:-1]


@dataclass(frozen=True)
class EdgeTable:
    """The unique edges of a mesh and the faces beside them.

    Attributes:
        vertices: (E, 2) smaller vertex first, sorted; loose edges included.
        face_offsets: (E + 1,) edge e lies in faces[face_offsets[e] : face_offsets[e + 1]].
        faces: faces by edge, ascending.
        corners: the corner (index into Mesh.corners) at which that face starts the edge.
        corner_edges: (L,) edge from each corner to the next one of its polygon; -1 where the
            polygon repeats the vertex.
    """

    vertices: Indices
    face_offsets: Integers
    faces: Integers
    corners: Integers
    corner_edges: Integers


@dataclass(frozen=True)
class Triangulation:
    """Triangles of a polygon mesh.

    Attributes:
        triangles: (T, 3) vertices, turning like their polygon.
        face_of_triangle: (T,) polygon each triangle belongs to, ascending.
    """

    triangles: Indices
    face_of_triangle: Indices


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with a mesh; every array is empty for a sound one.

    Attributes:
        loose_vertices: vertices in no face.
        loose_edges: (E, 2) edges in no face.
        duplicate_faces: later copies of a face on the same vertices.
        degenerate_faces: faces of zero area or with a repeated vertex.
        non_finite_vertices: vertices with a coordinate that is no finite number.
        coincident_pairs: (P, 2) vertices joined by an edge of zero length.
        non_manifold_edges: (N, 2) edges with more than two faces that are not left out.
        face_count: number of faces looked at.
    """

    loose_vertices: Indices
    loose_edges: Indices
    duplicate_faces: Indices
    degenerate_faces: Indices
    non_finite_vertices: Indices
    coincident_pairs: Indices
    non_manifold_edges: Indices
    face_count: int

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.sentences("")

    def sentences(self, name: str) -> list[str]:
        """One English sentence for each kind of fault, for the object called ``name``."""
        kinds: tuple[tuple[Indices, str, str], ...] = (
            (
                self.non_finite_vertices,
                "vertex positions that are not finite",
                "it cannot be simulated until they are repaired",
            ),
            (
                self.duplicate_faces,
                "faces on the vertices of another face",
                "these copies are ignored",
            ),
            (
                self.degenerate_faces,
                "faces without area or with a repeated vertex",
                "they carry no weight (Mesh > Clean Up > Degenerate Dissolve removes them)",
            ),
            (self.coincident_pairs, "edges of zero length", "their ends are held together"),
            (
                self.non_manifold_edges,
                "edges with more than two faces",
                "they bend between successive faces",
            ),
            (self.loose_edges, "edges in no face", "they act as threads"),
            (
                self.loose_vertices,
                "vertices in no face",
                "they have no area, so the cloth leaves them alone",
            ),
        )
        found = [
            f"{name}: {what}: {len(items)} ({_listed(items)}); {consequence}"
            for items, what, consequence in kinds
            if len(items)
        ]
        if self.face_count == 0:
            found.insert(0, f"{name}: has no faces, so there is no cloth to simulate")
        return found


def _listed(items: Indices) -> str:
    shown = ["–".join(str(v) for v in np.atleast_1d(item)) for item in items[:_LISTED]]
    return ", ".join(shown) + (", …" if len(items) > _LISTED else "")


def face_of_corner(mesh: Mesh) -> Integers:
    """(L,) polygon each corner belongs to."""
    return np.repeat(np.arange(mesh.face_count, dtype=np.int64), mesh.sizes)


def next_corner(mesh: Mesh) -> Integers:
    """(L,) index of the corner that follows each corner around its polygon."""
    following = np.arange(1, len(mesh.corners) + 1, dtype=np.int64)
    used = mesh.sizes > 0
    following[mesh.offsets[1:][used] - 1] = mesh.offsets[:-1][used]
    return following


def select_faces(mesh: Mesh, faces: npt.ArrayLike) -> Mesh:
    """The mesh with only the given faces (same vertices, same loose edges)."""
    chosen = np.asarray(faces, dtype=np.int64)
    if np.array_equal(chosen, np.arange(mesh.face_count)):
        return mesh
    sizes = mesh.sizes[chosen]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    starts = mesh.offsets[chosen].astype(np.int64)
    gather = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], sizes)
    return Mesh(mesh.vertex_count, offsets.astype(np.int32), mesh.corners[gather], mesh.loose_edges)


def edge_table(mesh: Mesh) -> EdgeTable:
    """Unique edges of the mesh with the faces at each."""
    return finished(_edge_steps(mesh))


def _edge_steps(mesh: Mesh) -> Steps[EdgeTable]:
    first = mesh.corners
    second = first[next_corner(mesh)] if len(first) else first
    loose = mesh.loose_edges.reshape(-1, 2)
    low = np.concatenate([np.minimum(first, second), loose.min(axis=1)])
    high = np.concatenate([np.maximum(first, second), loose.max(axis=1)])
    proper = np.flatnonzero(low != high)
    yield
    order = proper[stable_order(high[proper])]
    yield
    order = order[stable_order(low[order])]
    yield
    low, high = low[order], high[order]
    new = run_starts(low, high)
    edge = np.cumsum(new) - 1
    in_face = order < len(first)
    corners, edge_of = order[in_face], edge[in_face]
    yield
    corner_edges = np.full(len(first), -1, dtype=np.int64)
    corner_edges[corners] = edge_of
    yield
    count = int(new.sum())
    offsets = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(edge_of, minlength=count), out=offsets[1:])
    return EdgeTable(
        vertices=np.stack([low[new], high[new]], axis=1).astype(np.int32),
        face_offsets=offsets,
        faces=face_of_corner(mesh)[corners],
        corners=corners,
        corner_edges=corner_edges,
    )


def edges(mesh: Mesh) -> Indices:
    """(E, 2) unique edges, smaller vertex first, sorted; loose edges included."""
    return edge_table(mesh).vertices


def face_vectors(mesh: Mesh, positions: Array) -> Array:
    """(F, 3) area times normal of each polygon (Newell)."""
    if not len(mesh.corners):
        return np.zeros((mesh.face_count, 3))
    owner = face_of_corner(mesh)
    origin = positions[mesh.corners[np.minimum(mesh.offsets[:-1], len(mesh.corners) - 1)]]
    local = positions[mesh.corners] - origin[owner]
    cross = np.cross(local, local[next_corner(mesh)])
    vectors = [np.bincount(owner, cross[:, axis], mesh.face_count) for axis in range(3)]
    return 0.5 * np.stack(vectors, axis=1)


def triangulate(mesh: Mesh, positions: Array) -> Triangulation:
    """Split the polygons into triangles.

    A quad is split along the diagonal that leaves two triangles of its orientation, and of
    those the better shaped ones; of equal ones along the diagonal at the smallest vertex index,
    so that it does not matter at which corner a polygon starts. Other polygons are cut by ear
    clipping in their plane. Copies of a face and faces with fewer than three different
    vertices give no triangles.
    """
    faces = clean_faces(mesh, positions)
    corners, owner = triangulate_corners(mesh.offsets, mesh.corners, positions, faces)
    triangles = mesh.corners[corners]
    a, b, c = triangles.T
    proper = (a != b) & (b != c) & (c != a)
    return Triangulation(np.ascontiguousarray(triangles[proper]), owner[proper].astype(np.int32))


def vertex_areas(triangulation: Triangulation, rest: Array, vertex_count: int) -> Array:
    """(V,) area of the sheet that each vertex carries, m².

    A polygon's area is spread evenly over its corners, so it does not depend on the diagonals.
    """
    triangles = triangulation.triangles.astype(np.int64)
    if not len(triangles):
        return np.zeros(vertex_count)
    a, b, c = (rest[triangles[:, corner]] for corner in range(3))
    area = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)
    owner = triangulation.face_of_triangle.astype(np.int64)
    face_area = np.bincount(owner, area)
    # Sorted by face already, so that a merge sort has little to do.
    pairs = np.sort((owner[:, None] * vertex_count + triangles).reshape(-1), kind="stable")
    pairs = pairs[run_starts(pairs)]
    face, vertex = pairs // vertex_count, pairs % vertex_count
    share = face_area / np.maximum(np.bincount(face, minlength=len(face_area)), 1)
    return np.bincount(vertex, share[face], vertex_count)


def _duplicates(mesh: Mesh) -> Mask:
    """(F,) true for later copies of a face on the same vertices."""
    copies = np.zeros(mesh.face_count, dtype=np.bool_)
    one = _mixed_sums(mesh, 0x9E3779B97F4A7C15)
    if run_starts(np.sort(one)).all():
        return copies
    two = _mixed_sums(mesh, 0xD1B54A32D192ED03)
    order = np.lexsort((two, one, mesh.sizes))
    new = run_starts(mesh.sizes[order], one[order], two[order])
    copies[order[~new]] = True
    return copies


def _mixed_sums(mesh: Mesh, seed: int) -> npt.NDArray[np.uint64]:
    """(F,) sum of a hash (splitmix64) of each polygon's vertices."""
    value = (mesh.corners.astype(np.uint64) + np.uint64(1)) * np.uint64(seed)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    value ^= value >> np.uint64(31)
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(value, dtype=np.uint64)])
    return np.asarray(total[mesh.offsets[1:]] - total[mesh.offsets[:-1]])


def _distinct(mesh: Mesh) -> Integers:
    """(F,) number of different vertices of each polygon."""
    sizes = mesh.sizes
    distinct = sizes.copy()
    for size in np.unique(sizes):
        faces = np.flatnonzero(sizes == size)
        names = mesh.corners[mesh.offsets[faces, None] + np.arange(size, dtype=np.int32)]
        if size <= _COMPARED:
            for corner in range(1, size):
                distinct[faces] -= (names[:, :corner] == names[:, corner, None]).any(axis=1)
        else:
            names.sort(axis=1)
            distinct[faces] -= (names[:, 1:] == names[:, :-1]).sum(axis=1)
    return distinct


def clean_faces(mesh: Mesh, positions: Array) -> Integers:
    """Faces to be used: no copies, three different vertices at least, finite corners."""
    good = (_distinct(mesh) >= 3) & ~_duplicates(mesh)  # noqa: PLR2004
    broken = ~np.isfinite(positions).all(axis=1)
    if broken.any():
        owner = face_of_corner(mesh)
        good[owner[broken[mesh.corners]]] = False
    return np.flatnonzero(good)


def diagnose(mesh: Mesh, positions: Array) -> Diagnosis:
    """Find everything that is wrong with the mesh, in one pass."""
    return finished(diagnose_steps(mesh, positions))


def diagnose_steps(mesh: Mesh, positions: Array) -> Steps[Diagnosis]:
    """As ``diagnose``, with pauses: none of its steps takes long on a large mesh."""
    finite = np.isfinite(positions).all(axis=1)
    safe = np.where(finite[:, None], positions, 0.0)
    in_face = np.zeros(mesh.vertex_count, dtype=np.bool_)
    in_face[mesh.corners] = True
    yield
    copies = _duplicates(mesh)
    yield
    distinct = _distinct(mesh)
    yield
    degenerate = distinct < mesh.sizes
    for start in range(0, mesh.face_count, _FACES):
        part = _faces_between(mesh, start, min(start + _FACES, mesh.face_count))
        walked = safe[part.corners[next_corner(part)]] - safe[part.corners]
        length = np.linalg.norm(walked, axis=1)
        perimeter = np.bincount(face_of_corner(part), length, part.face_count)
        area = np.linalg.norm(face_vectors(part, safe), axis=1)
        degenerate[start : start + _FACES] |= area <= _ZERO_AREA * perimeter**2
        yield
    used = (distinct >= 3) & ~copies  # noqa: PLR2004
    unfinished = np.zeros(mesh.face_count, dtype=np.bool_)
    if not finite.all():
        unfinished[face_of_corner(mesh)[~finite[mesh.corners]]] = True
    table = yield from _edge_steps(mesh)
    yield
    extent = float(np.ptp(safe, axis=0).max()) if mesh.vertex_count else 0.0
    together = finite[table.vertices].all(axis=1)
    for start in range(0, len(together), 4 * _FACES):
        pairs = table.vertices[start : start + 4 * _FACES]
        length = np.linalg.norm(safe[pairs[:, 1]] - safe[pairs[:, 0]], axis=1)
        together[start : start + 4 * _FACES] &= length <= _ZERO_LENGTH * extent
        yield
    edge_of = np.repeat(np.arange(len(table.vertices)), np.diff(table.face_offsets))
    faces_at = np.bincount(edge_of[used[table.faces]], minlength=len(table.vertices))
    loose = np.diff(table.face_offsets) == 0
    return Diagnosis(
        loose_vertices=np.flatnonzero(~in_face).astype(np.int32),
        loose_edges=table.vertices[loose],
        duplicate_faces=np.flatnonzero(copies).astype(np.int32),
        degenerate_faces=np.flatnonzero(degenerate & ~unfinished).astype(np.int32),
        non_finite_vertices=np.flatnonzero(~finite).astype(np.int32),
        coincident_pairs=table.vertices[together],
        non_manifold_edges=table.vertices[faces_at > 2],  # noqa: PLR2004
        face_count=mesh.face_count,
    )


def _faces_between(mesh: Mesh, start: int, end: int) -> Mesh:
    first, last = mesh.offsets[start], mesh.offsets[end]
    return Mesh(
        mesh.vertex_count,
        mesh.offsets[start : end + 1] - first,
        mesh.corners[first:last],
        np.zeros((0, 2), dtype=np.int32),
    )


def topology_hash(mesh: Mesh) -> str:
    """SHA-256 (hex) over the counts, polygons and loose edges."""
    digest = hashlib.sha256()
    counts = [mesh.vertex_count, mesh.face_count, len(mesh.corners), len(mesh.loose_edges)]
    digest.update(np.array(counts, dtype="<i8").tobytes())
    for array in (mesh.offsets, mesh.corners, mesh.loose_edges):
        digest.update(np.ascontiguousarray(array, dtype="<i4").tobytes())
    return digest.hexdigest()


def components(pairs: npt.ArrayLike, vertex_count: int) -> Integers:
    """(V,) smallest vertex of the connected component of each vertex, joined by ``pairs``."""
    ends = np.asarray(pairs).reshape(-1, 2)
    label = np.arange(vertex_count, dtype=np.int64)
    while len(ends):
        left = []
        for start in range(0, len(ends), _PAIRS):
            piece = ends[start : start + _PAIRS]
            one, two = label[piece[:, 0]], label[piece[:, 1]]
            apart = one != two
            one, two = one[apart], two[apart]
            np.minimum.at(label, np.maximum(one, two), np.minimum(one, two))
            left.append(piece[apart])
        ends = np.concatenate(left)
        while True:
            jumped = label[label]
            if np.array_equal(jumped, label):
                break
            label = jumped
    return label


def morton_order(positions: Array) -> Integers:
    """(V,) vertices along a Morton (Z-order) curve, so that neighbours lie close in memory."""
    if not len(positions):
        return np.zeros(0, dtype=np.int64)
    safe = np.where(np.isfinite(positions), positions, 0.0)
    low = safe.min(axis=0)
    extent = float((safe.max(axis=0) - low).max())
    scale = (2**21 - 1) / extent if extent > 0.0 else 0.0
    code = np.zeros(len(safe), dtype=np.uint64)
    for axis in range(3):
        spread = ((safe[:, axis] - low[axis]) * scale).astype(np.uint64)
        for shift, mask in (
            (32, 0x1F00000000FFFF),
            (16, 0x1F0000FF0000FF),
            (8, 0x100F00F00F00F00F),
            (4, 0x10C30C30C30C30C3),
            (2, 0x1249249249249249),
        ):
            spread = (spread | (spread << np.uint64(shift))) & np.uint64(mask)
        code |= spread << np.uint64(axis)
    return np.argsort(code, kind="stable")
