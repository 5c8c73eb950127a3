# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read off the positions of any solver: stretch and error."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .cloths import Cloth, Indices
from .scenes import Array

Positions = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Stretch:
    """Of edges over all frames, relative.

    Attributes:
        worst: the longest edge of any frame.
        mean: mean of what is longer than at rest, the others counting 0.
        p99: the 99th percentile.
    """

    worst: float
    mean: float
    p99: float


def stretch(cloth: Cloth, positions: Sequence[Positions]) -> Stretch:
    """Stretch in the frames but the first, away from the pins where the pin is a strip."""
    edges, _, lengths = cloth.judged_edges()
    return stretch_of(edges, lengths, positions[1:])


def stretch_of(edges: Indices, lengths: Array, positions: Sequence[Positions]) -> Stretch:
    """Stretch of edges (E, 2) with their rest lengths (E,) in all of the frames."""
    found = np.empty((len(positions), len(edges)), dtype=np.float32)
    for number, frame in enumerate(positions):
        wide = frame.astype(np.float64)
        ends = wide[edges[:, 1]] - wide[edges[:, 0]]
        found[number] = np.linalg.norm(ends, axis=1) / lengths - 1.0
    if not np.isfinite(found).all():
        return Stretch(np.inf, np.inf, np.inf)
    return Stretch(
        float(found.max()),
        float(np.maximum(found, 0.0).mean(dtype=np.float64)),
        float(np.percentile(found, 99.0)),
    )


def rms(positions: Positions, truth: Array) -> float:
    """Root mean square distance of the vertices, m."""
    offsets = positions.astype(np.float64) - truth
    return float(np.sqrt((offsets**2).sum(axis=1).mean()))
