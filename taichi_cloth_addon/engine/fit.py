# SPDX-License-Identifier: GPL-3.0-or-later
"""Fits the elements of a face (springs or hinges) to the stiffness a sheet shall have.

A spring of stiffness k, rest length l and in-plane direction d adds
``k l² / A · d ⊗ d ⊗ d ⊗ d`` to the membrane tensor of a face of area A; a hinge does the same
to the bending tensor with its width l and the direction d across its axis. Such tensors are
fully symmetric, and in the plane they have five components, best written as moments of the
weights ``w = k l² / A`` over the angle φ of d::

    M0 = Σ w        M2 = Σ w exp(2iφ)        M4 = Σ w exp(4iφ)

    C1111 = 3/8 M0 + 1/2 Re M2 + 1/8 Re M4      C1112 = 1/4 Im M2 + 1/8 Im M4
    C2222 = 3/8 M0 - 1/2 Re M2 + 1/8 Re M4      C1222 = 1/4 Im M2 - 1/8 Im M4
    C1122 = C1212 = 1/8 (M0 - Re M4)

A sheet with C1111 = C2222 = C11 and C1122 = C1212 = G along its own axes, turned by ψ, has
``M0 = 2 (C11 + G)``, ``M2 = 0`` and ``M4 = 2 (C11 - 3 G) exp(4iψ)``. A fit is a least-squares
problem in the moments with w >= 0, at most a few unknowns for a face, solved for many faces
at once.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Complex = npt.NDArray[np.complex128]
Mask = npt.NDArray[np.bool_]

CHUNK = 8192  # faces at a time: their arrays stay in the processor's cache
_UNROLLED = 10  # largest number of unknowns solved by the vectorised Cholesky
_ROUNDS = 40


@dataclass(frozen=True)
class FitWeights:
    """What a fit cares about.

    Attributes:
        m0, m2, m4: weight of the squared error of each moment.
        ridge: pull towards the first guess.
        sparsity: cost of a unit of price, so that dear elements are used only where needed.
        refinements: times the pull is repeated from the result so far, which takes its bias
            away where the moments determine the weights.
    """

    m0: float
    m2: float
    m4: float
    ridge: float
    sparsity: float
    refinements: int = 3


def fit_weights(
    angles: Array,
    allowed: Mask,
    price: Array,
    m0: Array,
    m4: Complex,
    weights: FitWeights,
    guess: Array | None = None,
    least: Array | None = None,
) -> Array:
    """Weights w >= 0 of the elements of each face.

    Args:
        angles: (F, n) angle of each element's direction in its face.
        allowed: (F, n) false for elements that are not there.
        price: (F, n) relative cost of using an element.
        m0: (F,) wanted M0, N/m; M2 is wanted to vanish.
        m4: (F,) wanted M4.
        weights: what matters.
        guess: (F, n) weights that are right on a regular mesh; none: 0.
        least: (F, n) lower bounds of the weights; none: 0.

    Returns:
        (F, n) weights in the unit of ``m0``, 0 where not allowed.
    """
    result = np.zeros_like(angles)
    unit = np.where(m0 > 0.0, m0, 1.0)
    for start in range(0, len(angles), CHUNK):
        part = slice(start, start + CHUNK)
        scale = unit[part, None]
        first = np.zeros_like(angles[part]) if guess is None else guess[part] / scale
        bound = np.zeros_like(first) if least is None else allowed[part] * least[part] / scale
        result[part] = scale * _fit(
            angles[part], allowed[part], price[part], m4[part] / unit[part], weights, first, bound
        )
    result[m0 <= 0.0] = 0.0
    return result


def fit_misfit(
    angles: Array, allowed: Mask, price: Array, m4: Complex, weights: FitWeights
) -> Array:
    """(F,) objective reached by ``fit_weights`` for M0 = 1: errors plus prices paid."""
    fitted = fit_weights(angles, allowed, price, np.ones(len(angles)), m4, weights)
    got0, got2, got4 = moments(fitted, angles)
    error = weights.m0 * (got0 - 1.0) ** 2 + weights.m2 * np.abs(got2) ** 2
    error += weights.m4 * np.abs(got4 - m4) ** 2
    return np.asarray(error + 2.0 * weights.sparsity * (price * fitted).sum(axis=1))


def moments(weights: Array, angles: Array) -> tuple[Array, Complex, Complex]:
    """(F,) moments M0, M2 and M4 of weights (F, n) at angles (F, n)."""
    phase: Complex = np.exp(2j * angles)
    second: Complex = weights * phase
    fourth: Complex = second * phase
    return weights.sum(axis=1), second.sum(axis=1), fourth.sum(axis=1)


def uniaxial(m0: Array, m2: Complex, m4: Complex, frame: Complex) -> tuple[Array, Array]:
    """Stiffness along warp and weft with the other direction free, N/m.

    Args:
        m0: moment M0 of the sheet.
        m2: M2.
        m4: M4.
        frame: exp(4iψ), ψ the angle of the warp (or weft, the sheet has both alike).
    """
    turned = m4 * np.conj(frame)
    skew = np.real(m2 * np.conj(np.sqrt(frame)))
    warp = 0.375 * m0 + 0.5 * skew + 0.125 * turned.real
    weft = 0.375 * m0 - 0.5 * skew + 0.125 * turned.real
    cross = 0.125 * (m0 - turned.real)
    tiny = np.finfo(float).tiny
    return (
        warp - cross**2 / np.maximum(weft, tiny),
        weft - cross**2 / np.maximum(warp, tiny),
    )


def _fit(
    angles: Array,
    allowed: Mask,
    price: Array,
    m4: Complex,
    weights: FitWeights,
    guess: Array,
    least: Array,
) -> Array:
    double, quadruple = np.exp(2j * angles), np.exp(4j * angles)
    gram = (
        weights.m0
        + weights.m2 * np.real(double[:, :, None] * np.conj(double[:, None, :]))
        + weights.m4 * np.real(quadruple[:, :, None] * np.conj(quadruple[:, None, :]))
    )
    wanted = weights.m0 + weights.m4 * np.real(np.conj(quadruple) * m4[:, None])
    wanted = wanted - (gram * least[:, None, :]).sum(axis=2)
    return least + fit_system(gram, wanted, allowed, price, weights, guess - least)


def fit_system(
    gram: Array, wanted: Array, allowed: Mask, price: Array, weights: FitWeights, guess: Array
) -> Array:
    """Weights w >= 0 that minimise w·G·w/2 - wanted·w, with the pulls of ``weights``.

    Args:
        gram: (F, n, n) G of each face; changed in place.
        wanted: (F, n).
        allowed: (F, n) false for elements that are not there.
        price: (F, n) relative cost of using an element.
        guess: (F, n) weights that are right on a regular mesh.
        weights: ridge, sparsity and refinements.
    """
    diagonal = np.arange(gram.shape[1])
    gram[:, diagonal, diagonal] += weights.ridge
    found, passive = _nonnegative(
        gram, wanted + weights.ridge * guess - weights.sparsity * price, allowed
    )
    # The price chose the elements; now the moments alone set their weights.
    for _ in range(weights.refinements):
        refined = _solve(gram, wanted + weights.ridge * found, passive)
        fine = (refined >= 0.0).all(axis=1)
        found = np.where(fine[:, None], refined, found)
    return found


def _solve(gram: Array, wanted: Array, passive: Mask) -> Array:
    """Solution of each face's system restricted to its passive unknowns, 0 elsewhere."""
    size = gram.shape[1]
    if size > _UNROLLED:
        masked = np.where(passive[:, :, None] & passive[:, None, :], gram, np.eye(size))
        solved = np.linalg.solve(masked, np.where(passive, wanted, 0.0)[:, :, None])
        return np.asarray(solved[:, :, 0], dtype=np.float64)
    on = [passive[:, i].astype(np.float64) for i in range(size)]
    rows: list[list[Array]] = []  # Cholesky factor, one (F,) array for each entry
    inverse: list[Array] = []
    for i in range(size):
        row: list[Array] = []
        for j in range(i):
            value = gram[:, i, j] * on[i] * on[j]
            for k in range(j):
                value = value - row[k] * rows[j][k]
            row.append(value * inverse[j])
        pivot = np.where(passive[:, i], gram[:, i, i], 1.0)
        for value in row:
            pivot = pivot - value * value
        inverse.append(1.0 / np.sqrt(np.maximum(pivot, 1e-30)))
        rows.append(row)
    half: list[Array] = []
    for i in range(size):
        value = wanted[:, i] * on[i]
        for k in range(i):
            value = value - rows[i][k] * half[k]
        half.append(value * inverse[i])
    result = np.empty_like(wanted)
    for i in reversed(range(size)):
        value = half[i]
        for k in range(i + 1, size):
            value = value - rows[k][i] * result[:, k]
        result[:, i] = value * inverse[i]
    return result


def _nonnegative(gram: Array, wanted: Array, allowed: Mask) -> tuple[Array, Mask]:
    """Non-negative least squares by block principal pivoting (Júdice and Pires; Kim and Park).

    Exchanges every infeasible unknown at once while that reduces their number, otherwise the
    last one alone, which cannot cycle.

    Returns:
        The solutions (F, n) and the unknowns that may be positive (F, n).
    """
    passive = allowed.copy()
    result = np.zeros_like(wanted)
    todo = np.arange(len(gram))
    fewest = np.full(len(gram), gram.shape[1] + 1)
    chances = np.full(len(gram), 3)
    slack = 1e-9
    for _ in range(_ROUNDS):
        own, open_gram, open_wanted = passive[todo], gram[todo], wanted[todo]
        solution = _solve(open_gram, open_wanted, own)
        slope = (open_gram * solution[:, None, :]).sum(axis=2) - open_wanted
        wrong = np.where(own, solution < -slack, slope < -slack) & allowed[todo]
        result[todo] = solution
        count = wrong.sum(axis=1)
        going = count > 0
        todo, wrong, count = todo[going], wrong[going], count[going]
        if not len(todo):
            break
        better = count < fewest[todo]
        chances[todo] = np.where(better, 3, chances[todo] - 1)
        fewest[todo] = np.where(better, count, fewest[todo])
        last = gram.shape[1] - 1 - wrong[:, ::-1].argmax(axis=1)
        single = np.zeros_like(wrong)
        single[np.arange(len(todo)), last] = True
        flip = np.where((chances[todo] >= 0)[:, None], wrong, single)
        passive[todo] ^= flip
    return np.maximum(result, 0.0), passive & (result > 0.0)
