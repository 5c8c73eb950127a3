# SPDX-License-Identifier: GPL-3.0-or-later
"""Which springs may be explicit at a given step, and the longest stable explicit step.

With springs split into explicit (E) and implicit (I) ones the step is stable if

    h² K_E + 2 h C_E <= 4 M + h² K_I + 2 h C_I         (as symmetric matrices).

Dropping the implicit side and bounding each spring by its two ends gives a sufficient test
that each vertex makes alone:

    lambda_max( sum over s in E(i) of (1 + t) (h² K_s + 2 h C_s) ) <= 4 m_i

with t = 1 between free vertices and t = 0 against a fixed one, K_s = a 1 + (k - a) d d^T,
a = max(0, k (1 - l / L)). A spring is explicit only if both its ends allow it, so that forces
stay equal and opposite. Bending enters with the absolute row sums of its matrix (Gershgorin).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..bending import hinge_weights
from ..model import ClothModel
from ..rows import curved_mask
from ..springs import SpringKind

Array = npt.NDArray[np.float64]
Shape = npt.NDArray[np.floating[Any]]
Mask = npt.NDArray[np.bool_]

# Share of the bound that is used: the shape changes within a step, and the a + b + c >= 0
# condition of the analysis (compressed springs) is not covered.
SAFETY = 0.8
_SHORTEST = 1e-12
_IDENTITY = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])[:, None]
_DIAGONAL = 3
_MOST = 0.98
_OVERDAMPED = 0.2
# Springs, hinges or vertices at a time: bounds the memory.
_PIECE = 1 << 17
# Cheapest to give up first: bending, then flexion, shear, stretch.
_ORDER = (SpringKind.FLEXION, SpringKind.SHEAR, SpringKind.STRUCTURAL)


@dataclass(frozen=True)
class Marking:
    """The outcome of the criterion.

    Attributes:
        spring: (S,) springs that are explicit.
        hinge: (H,) bending elements that are explicit.
        load: (V,) the left side of the test over 4 m_i, for what is explicit.
    """

    spring: Mask
    hinge: Mask
    load: Array

    @property
    def explicit_share(self) -> float:
        """Share of all springs and bending elements that is explicit."""
        total = len(self.spring) + len(self.hinge)
        return float(self.spring.sum() + self.hinge.sum()) / max(total, 1)


def mark(model: ClothModel, positions: Shape, h: float, safety: float = SAFETY) -> Marking:
    """Mark what may be explicit with steps of ``h`` seconds at the shape ``positions``."""
    network = model.network
    budget = safety * 4.0 * model.mass
    budget[model.fixed] = np.inf

    load = _sum_hinges(model, h, None)
    # The curved part of a hinge is evaluated in the implicit part alone.
    hinge = ~curved_mask(model.hinges)
    for piece in _pieces(len(hinge)):
        hinge[piece] &= (load <= budget)[model.hinges.vertices[piece]].all(axis=1)
    matrix = _sum_hinges(model, h, hinge) * _IDENTITY

    spring = np.zeros(len(network.vertices), dtype=bool)
    for kind in _ORDER:
        chosen = network.kind == kind
        trial = _sum_springs(model, positions, (h * h, 2.0 * h), chosen)
        trial += matrix
        passes = _largest_eigenvalue(trial) <= budget
        del trial
        for piece in _pieces(len(chosen)):
            piece_chosen = chosen[piece]
            allowed = passes[network.vertices[piece][piece_chosen]].all(axis=1)
            piece_chosen[piece_chosen] = allowed
        spring |= chosen
        if chosen.any():
            matrix += _sum_springs(model, positions, (h * h, 2.0 * h), chosen)
    return Marking(spring, hinge, _share(model, matrix))


def largest_load(model: ClothModel, positions: Shape, h: float, marking: Marking) -> float:
    """Largest left side of the test over 4 m_i, for a marking made at another shape."""
    matrix = _sum_springs(model, positions, (h * h, 2.0 * h), marking.spring)
    matrix[:3] += _sum_hinges(model, h, marking.hinge)
    return float(_share(model, matrix).max(initial=0.0))


def _share(model: ClothModel, matrix: Array) -> Array:
    share = _largest_eigenvalue(matrix) / (4.0 * model.mass)
    share[model.fixed] = 0.0
    return share


@dataclass(frozen=True)
class Bounds:
    """What limits explicit steps at each free vertex, F of them.

    Attributes:
        stiffness: (F,) bound of the stiffness, k in h² k + 2 h c <= 4 m; N/m.
        damping: (F,) c likewise; N s/m.
        mass: (F,) kg.
    """

    stiffness: Array
    damping: Array
    mass: Array

    def stable_step(self, safety: float = SAFETY) -> float:
        """Longest step (s) at which everything may be explicit; infinity without forces."""
        right = 4.0 * safety * self.mass
        root = np.sqrt(self.damping**2 + right * self.stiffness)
        with np.errstate(divide="ignore"):
            steps = right / (self.damping + root)
        return float(np.min(steps, initial=np.inf))

    def is_overdamped(self) -> bool:
        """Whether damping alone makes the longest stable step several times shorter.

        Explicit steps near that bound turn velocities round instead of calming them.
        """
        still = Bounds(self.stiffness, np.zeros_like(self.damping), self.mass)
        return self.stable_step() < _OVERDAMPED * still.stable_step()

    def coupling(self, h: float) -> float:
        """How many vertices away an implicit step of ``h`` seconds is felt, for most of them.

        The few stiffest do not count: the diagonal blocks take care of them.
        """
        if not len(self.mass):
            return 0.0
        ratio = (h * h * self.stiffness + h * self.damping) / (4.0 * self.mass)
        return float(np.sqrt(np.quantile(ratio, _MOST)))


def bounds(model: ClothModel, positions: Shape) -> Bounds:
    """Bound stiffness and damping at each free vertex at the shape ``positions``."""
    free = ~model.fixed
    k = _largest_eigenvalue(_sum_springs(model, positions, (1.0, 0.0)))
    c = np.zeros_like(k)
    if model.network.damping.any():
        c = _largest_eigenvalue(_sum_springs(model, positions, (0.0, 1.0)))
    sums = model.bending_row_sums
    k += sums
    c += sums * model.bend_rate
    k[model.pin_vertices] += model.pin_stiffness
    c[model.pin_vertices] += model.pin_damping
    return Bounds(k[free], c[free], model.mass[free])


def stable_step(model: ClothModel, positions: Shape, safety: float = SAFETY) -> float:
    """Longest step (s) at which everything may be explicit; infinity without forces."""
    return bounds(model, positions).stable_step(safety)


def _pieces(count: int) -> Iterator[slice]:
    return (slice(start, start + _PIECE) for start in range(0, count, _PIECE))


def _sum_springs(
    model: ClothModel, positions: Shape, factors: tuple[float, float], chosen: Mask | None = None
) -> Array:
    """Sum (1 + t) (f K_s + g C_s) of springs at each vertex, (6, V): xx, yy, zz, xy, xz, yz.

    Args:
        model: the cloths.
        positions: their shape.
        factors: f and g.
        chosen: which springs; all of them by default.
    """
    network = model.network
    stiffness_factor, damping_factor = factors
    total = np.zeros((6, model.vertex_count))
    for piece in _pieces(len(network.vertices)):
        which = piece if chosen is None else piece.start + np.flatnonzero(chosen[piece])
        ends = network.vertices[which]
        if not len(ends):
            continue
        first, second = np.ascontiguousarray(ends.T)
        offset = positions[second].astype(np.float64) - positions[first]
        x, y, z = np.ascontiguousarray(offset.T)
        square = np.maximum(x * x + y * y + z * z, _SHORTEST**2)
        # The isotropic part and that along the spring, over the length squared.
        k = network.stiffness[which]
        a = np.maximum(0.0, k * (1.0 - network.rest_length[which] / np.sqrt(square)))
        along = (stiffness_factor * (k - a) + damping_factor * network.damping[which]) / square
        a *= stiffness_factor
        # Vertices from here on; springs lie in their order.
        start = int(min(first.min(), second.min()))
        span = slice(start, int(max(first.max(), second.max())) + 1)
        for end, other in ((first, second), (second, first)):
            weight = np.where(model.fixed[other], 1.0, 2.0)
            place = end - start
            pull = weight * along
            rest = weight * a
            for row, (one, two) in enumerate(((x, x), (y, y), (z, z), (x, y), (x, z), (y, z))):
                part = pull * (one * two)
                if row < _DIAGONAL:
                    part += rest
                total[row, span] += np.bincount(place, part, span.stop - start)
    return total


def _largest_eigenvalue(matrices: Array) -> Array:
    """Largest eigenvalue of symmetric 3x3 matrices, (6, N) to (N,), in closed form."""
    result = np.empty(matrices.shape[1])
    for piece in _pieces(len(result)):
        xx, yy, zz, xy, xz, yz = matrices[:, piece]
        mean = (xx + yy + zz) / 3.0
        a, b, c = xx - mean, yy - mean, zz - mean
        square = (a * a + b * b + c * c + 2.0 * (xy * xy + xz * xz + yz * yz)) / 6.0
        radius = np.sqrt(square)
        determinant = a * (b * c - yz * yz) - xy * (xy * c - yz * xz) + xz * (xy * yz - b * xz)
        cube = np.maximum(2.0 * radius**3, 1e-300)
        angle = np.arccos(np.clip(determinant / cube, -1.0, 1.0)) / 3.0
        result[piece] = mean + 2.0 * radius * np.cos(angle)
    return result


def _sum_hinges(model: ClothModel, h: float, chosen: Mask | None) -> Array:
    """What hinges add to the left side of the test at each vertex, all of them or the chosen."""
    hinges = model.hinges
    total = np.zeros(model.vertex_count)
    for piece in _pieces(len(hinges.vertices)):
        which = piece if chosen is None else piece.start + np.flatnonzero(chosen[piece])
        vertices = hinges.vertices[which]
        if not len(vertices):
            continue
        start = int(vertices.min())
        span = slice(start, int(vertices.max()) + 1)
        # |dtheta/dz| of each hinge at its six vertices, 1/m.
        weights = np.abs(hinge_weights(model.rest[span], vertices - start))
        rate = hinges.stiffness[which] * h * h + hinges.damping[which] * 2.0 * h
        loads = rate[:, None] * weights * weights.sum(axis=1)[:, None]
        places = (vertices - start).reshape(-1)
        total[span] += np.bincount(places, loads.reshape(-1), span.stop - start)
    return total
