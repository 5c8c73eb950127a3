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

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..bending import hinge_weights
from ..model import ClothModel
from ..rows import curved_mask
from ..springs import SpringKind

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

# Share of the bound that is used: the shape changes within a step, and the a + b + c >= 0
# condition of the analysis (compressed springs) is not covered.
SAFETY = 0.8
_SHORTEST = 1e-12
_IDENTITY = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])[:, None]
_MOST = 0.98
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


@dataclass(frozen=True)
class _Tensors:
    """Stiffness and damping tensors of springs: (6, S) each, xx, yy, zz, xy, xz, yz."""

    stiffness: Array
    damping: Array


def mark(model: ClothModel, positions: Array, h: float, safety: float = SAFETY) -> Marking:
    """Mark what may be explicit with steps of ``h`` seconds at the shape ``positions``."""
    network = model.network
    tensors = _spring_tensors(model, positions)
    step = h * h * tensors.stiffness + 2.0 * h * tensors.damping
    budget = safety * 4.0 * model.mass
    budget[model.fixed] = np.inf
    weights = _end_weights(model)

    hinge_load = _hinge_loads(model, h)
    load = _sum_hinges(model, hinge_load)
    hinge = (load <= budget)[model.hinges.vertices].all(axis=1)
    # The curved part of a hinge is evaluated in the implicit part alone.
    hinge &= ~curved_mask(model.hinges)
    load = _sum_hinges(model, hinge_load * hinge[:, None])
    matrix = load * _IDENTITY

    spring = np.zeros(len(network.vertices), dtype=bool)
    for kind in _ORDER:
        chosen = network.kind == kind
        trial = matrix + _sum_springs(model, step, weights, chosen)
        passes = _largest_eigenvalue(trial) <= budget
        chosen &= passes[network.vertices].all(axis=1)
        spring |= chosen
        matrix = matrix + _sum_springs(model, step, weights, chosen)
    return Marking(spring, hinge, _share(model, matrix))


def largest_load(model: ClothModel, positions: Array, h: float, marking: Marking) -> float:
    """Largest left side of the test over 4 m_i, for a marking made at another shape."""
    tensors = _spring_tensors(model, positions)
    step = h * h * tensors.stiffness + 2.0 * h * tensors.damping
    load = _sum_hinges(model, _hinge_loads(model, h) * marking.hinge[:, None])
    matrix = load * _IDENTITY + _sum_springs(model, step, _end_weights(model), marking.spring)
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

    def coupling(self, h: float) -> float:
        """How many vertices away an implicit step of ``h`` seconds is felt, for most of them.

        The few stiffest do not count: the diagonal blocks take care of them.
        """
        if not len(self.mass):
            return 0.0
        ratio = (h * h * self.stiffness + h * self.damping) / (4.0 * self.mass)
        return float(np.sqrt(np.quantile(ratio, _MOST)))


def bounds(model: ClothModel, positions: Array) -> Bounds:
    """Bound stiffness and damping at each free vertex at the shape ``positions``."""
    free = ~model.fixed
    tensors = _spring_tensors(model, positions)
    weights = _end_weights(model)
    k = _largest_eigenvalue(_sum_springs(model, tensors.stiffness, weights))
    c = _largest_eigenvalue(_sum_springs(model, tensors.damping, weights))
    sums = _bending_row_sums(model)
    k += sums
    c += sums * model.bend_rate
    k[model.pin_vertices] += model.pin_stiffness
    c[model.pin_vertices] += model.pin_damping
    return Bounds(k[free], c[free], model.mass[free])


def stable_step(model: ClothModel, positions: Array, safety: float = SAFETY) -> float:
    """Longest step (s) at which everything may be explicit; infinity without forces."""
    return bounds(model, positions).stable_step(safety)


def _spring_tensors(model: ClothModel, positions: Array) -> _Tensors:
    network = model.network
    first, second = network.vertices.T
    x, y, z = (positions[second, axis] - positions[first, axis] for axis in range(3))
    square = np.maximum(x * x + y * y + z * z, _SHORTEST**2)
    outer = np.stack([x * x, y * y, z * z, x * y, x * z, y * z]) / square
    k = network.stiffness
    a = np.maximum(0.0, k * (1.0 - network.rest_length / np.sqrt(square)))
    return _Tensors(a * _IDENTITY + (k - a) * outer, network.damping * outer)


def _end_weights(model: ClothModel) -> Array:
    """1 + t for the two ends of each spring, (S, 2)."""
    fixed = model.fixed[model.network.vertices]
    return np.where(fixed[:, ::-1], 1.0, 2.0)


def _sum_springs(
    model: ClothModel, tensors: Array, weights: Array, chosen: Mask | None = None
) -> Array:
    """Sum springs' tensors (6, S) at each vertex, (6, V); all of them or the chosen."""
    if chosen is not None:
        weights = weights * chosen[:, None]
    count = model.vertex_count
    first, second = model.network.vertices.T
    at_first, at_second = np.ascontiguousarray(weights.T)
    sums = [
        np.bincount(first, part * at_first, count) + np.bincount(second, part * at_second, count)
        for part in tensors
    ]
    return np.stack(sums)


def _largest_eigenvalue(matrices: Array) -> Array:
    """Largest eigenvalue of symmetric 3x3 matrices, (6, N) to (N,), in closed form."""
    xx, yy, zz, xy, xz, yz = matrices
    mean = (xx + yy + zz) / 3.0
    a, b, c = xx - mean, yy - mean, zz - mean
    square = (a * a + b * b + c * c + 2.0 * (xy * xy + xz * xz + yz * yz)) / 6.0
    radius = np.sqrt(square)
    determinant = a * (b * c - yz * yz) - xy * (xy * c - yz * xz) + xz * (xy * yz - b * xz)
    cube = np.maximum(2.0 * radius**3, 1e-300)
    angle = np.arccos(np.clip(determinant / cube, -1.0, 1.0)) / 3.0
    return np.asarray(mean + 2.0 * radius * np.cos(angle))


def _hinge_weights(model: ClothModel) -> Array:
    """|dtheta/dz| of each hinge at its six vertices, (H, 6), 1/m."""
    return np.abs(hinge_weights(model.rest, model.hinges.vertices))


def _hinge_loads(model: ClothModel, h: float) -> Array:
    """What each hinge adds to the left side of the test at its vertices, (H, 6)."""
    hinges = model.hinges
    weights = _hinge_weights(model)
    rate = hinges.stiffness * h * h + hinges.damping * 2.0 * h
    return rate[:, None] * weights * weights.sum(axis=1)[:, None]


def _sum_hinges(model: ClothModel, loads: Array) -> Array:
    return np.bincount(
        model.hinges.vertices.reshape(-1), loads.reshape(-1), minlength=model.vertex_count
    )


def _bending_row_sums(model: ClothModel) -> Array:
    matrix = model.bending_upper
    rows = np.repeat(np.arange(model.vertex_count), np.diff(matrix.offsets))
    return np.bincount(rows, np.abs(matrix.weights), minlength=model.vertex_count)
