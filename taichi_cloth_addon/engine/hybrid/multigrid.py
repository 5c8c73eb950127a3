# SPDX-License-Identifier: GPL-3.0-or-later
"""Conjugate gradients with a multigrid V-cycle as preconditioner."""

import math

import numpy as np
import numpy.typing as npt

from .. import heap, hierarchy, runtime
from ..hierarchy import PARENTS, Level
from ..model import ClothModel
from ..runtime import DeviceArray
from ..sorting import stable_order
from ..springs import SpringKind
from . import cycle_kernels, linear_kernels, multigrid_kernels
from .device import DeviceModel
from .linear import Solution, System

Indices = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]

# Levels of at most so many nodes together are cycled by one thread, in one launch.
_SERIAL = 1500
# Iterations in which r^T D^-1 r must fall to this share; else float32 has no more to give.
_PATIENCE = 16
_LEAST_FALL = 0.5


class Multigrid:
    """Keeps linear.LinearSolver. The levels are built once, their matrices at every prepare."""

    bounding = True

    def __init__(self, device: DeviceModel, *, release: bool = False) -> None:
        """Build the levels of the device's model.

        Args:
            device: has the model.
            release: whether to drop what only the set-up needs of the model, see its ``release``.
        """
        self._device = device
        model = device.model
        network = model.network
        if release:
            model.release("hinges", "rows")
        graph = hierarchy.Graph(
            network.vertices,
            network.stiffness,
            network.kind != SpringKind.FLEXION,
            model.fixed,
            _bending(model),
        )
        if release:
            model.release()
        levels = hierarchy.build_levels(graph)
        del graph
        heap.trim()
        count = device.count
        springs = len(network.vertices)
        nodes = np.cumsum([count, *(level.count for level in levels)])
        tensors = np.cumsum([springs, *(len(level.springs) for level in levels)])
        # Node and spring numbers: where each level begins, the finest first.
        self._nodes = [0, *(int(end) for end in nodes)]
        self._springs = [0, *(int(end) for end in tensors)]
        self.nodes = self._nodes[-1]
        self._upload_transfer(levels)
        self._upload_springs(levels)
        self._upload_bending(levels)
        self._tensors = runtime.zeros(2 * (self._springs[-1] - springs), 3)
        self._b = runtime.zeros(self.nodes, 3)
        self._x = runtime.zeros(self.nodes, 3)
        self._y = runtime.zeros(self.nodes, 3)
        self._direction = runtime.zeros(count, 3)
        self._product = runtime.zeros(count, 3)
        self._partial = runtime.zeros(count // linear_kernels.CHUNK + 1)
        self._scalars = runtime.zeros(multigrid_kernels.SCALARS)
        # The first level that the one-thread cycle takes.
        self._serial = next(
            level
            for level in range(1, len(self._nodes))
            if self.nodes - self._nodes[level] <= _SERIAL
        )
        tasks = []
        if len(levels) > 0:
            tasks = cycle_kernels.small_tasks(self._nodes, self._serial)
        self._task_count = len(tasks)
        self._tasks = runtime.upload(np.array(tasks, dtype=np.int32).reshape(-1))

    def _upload_transfer(self, levels: tuple[Level, ...]) -> None:
        """P as rows of each node, its transpose as rows of each coarse node."""
        parents = np.zeros((self.nodes, PARENTS), dtype=np.int32)
        weights = np.zeros((self.nodes, PARENTS), dtype=np.float32)
        free = []
        for number, level in enumerate(levels):
            rows = slice(self._nodes[number], self._nodes[number + 1])
            parents[rows] = level.parents + self._nodes[number + 1]
            weights[rows] = level.weights
            free.append(~level.fixed)
        used = np.flatnonzero(weights.reshape(-1) > 0.0)
        target = parents.reshape(-1)[used]
        order = np.argsort(target, kind="stable")
        used = used[order]
        coarse = self.nodes - self._nodes[1]
        offsets = np.zeros(coarse + 1, dtype=np.int32)
        np.cumsum(np.bincount(target - self._nodes[1], minlength=coarse), out=offsets[1:])
        self._parents = runtime.upload(parents.reshape(-1))
        self._weights = runtime.upload(weights.reshape(-1))
        self._child_offsets = runtime.upload(offsets)
        self._children = runtime.upload((used // PARENTS).astype(np.int32))
        self._child_weights = runtime.upload(weights.reshape(-1)[used])
        self._free = runtime.upload(
            np.concatenate([*free, np.zeros(0, dtype=np.bool_)]).astype(np.int32)
        )

    def _upload_springs(self, levels: tuple[Level, ...]) -> None:
        """Each coarse node's springs, and the map C by which their tensors are made."""
        ends, offsets, sources, shares = [], [np.zeros(1, dtype=np.int64)], [], []
        for number, level in enumerate(levels):
            ends.append(level.springs + self._nodes[number + 1])
            offsets.append(level.offsets[1:] + offsets[-1][-1])
            sources.append(level.sources + self._springs[number])
            shares.append(level.shares)
        pairs = np.concatenate([*ends, np.zeros((0, 2), dtype=np.int32)])
        springs = np.arange(len(pairs), dtype=np.int32)
        owner = pairs.T.reshape(-1) - self._nodes[1]
        order = np.argsort(owner, kind="stable")
        links = np.stack([pairs[:, ::-1].T.reshape(-1), np.tile(springs, 2)], axis=1)[order]
        coarse = self.nodes - self._nodes[1]
        rows = np.zeros(coarse + 1, dtype=np.int32)
        np.cumsum(np.bincount(owner, minlength=coarse), out=rows[1:])
        self._offsets = runtime.upload(rows)
        self._links = runtime.upload(links.reshape(-1))
        self._map_offsets = runtime.upload(np.concatenate(offsets))
        self._map_sources = runtime.upload(np.concatenate([*sources, np.zeros(0, dtype=np.int32)]))
        self._map_shares = runtime.upload(np.concatenate([*shares, np.zeros(0, dtype=np.float32)]))

    def _upload_bending(self, levels: tuple[Level, ...]) -> None:
        """Each coarse node's bending; strengths are uploaded at the first prepare."""
        empty = np.zeros((0, 2), dtype=np.int32)
        pairs = np.concatenate(
            [
                empty,
                *(
                    level.bending.pairs + start
                    for level, start in zip(levels, self._nodes[1:], strict=False)
                ),
            ]
        )
        strength = np.concatenate([np.zeros(0), *(level.bending.strength for level in levels)])
        owner = pairs.T.reshape(-1) - self._nodes[1]
        order = stable_order(owner)
        coarse = self.nodes - self._nodes[1]
        offsets = np.zeros(coarse + 1, dtype=np.int32)
        np.cumsum(np.bincount(owner, minlength=coarse), out=offsets[1:])
        self._bend_offsets = runtime.upload(offsets)
        self._bend_neighbours = runtime.upload(pairs[:, ::-1].T.reshape(-1)[order])
        self._bend_strength = np.tile(strength, 2)[order]
        self._bend_weights = runtime.upload(self._bend_strength)
        self._bend_step = 0.0
        rate = self._device.model.bend_rate
        self._bend_damped = bool((rate > 0.0).any())
        if not self._bend_damped:
            # The weights are the strengths, whatever the step.
            self._bend_strength = np.zeros(0)
        elif (rate == rate[0]).all():
            self._bend_rate = rate[:1].copy()
        else:
            rates = [rate]
            for level in levels:
                rate_of = np.zeros(level.count)
                rate_of[level.parents[:, 0]] = rates[-1]
                rates.append(rate_of)
            self._bend_rate = np.concatenate(rates)[self._nodes[1] :][owner[order]]

    def prepare(self, system: System, h: float) -> None:
        """See LinearSolver: make the coarse matrices of a new Hessian."""
        if self._bend_damped and len(self._bend_strength) and h != self._bend_step:
            self._bend_step = h
            weights = self._bend_strength * (1.0 + self._bend_rate / h)
            # Into the same array: launches remember a new one, and the old ones with it.
            self._bend_weights.from_numpy(weights.astype(np.float32))
        for level in range(1, len(self._nodes) - 1):
            cycle_kernels.coarsen(
                self._nodes[1],
                self._springs[1],
                self._nodes[level],
                self._nodes[level + 1],
                self._springs[level],
                self._springs[level + 1],
                self._map_offsets,
                self._map_sources,
                self._map_shares,
                self._child_offsets,
                self._children,
                self._child_weights,
                self._offsets,
                self._links,
                self._bend_offsets,
                self._bend_weights,
                self._free,
                system.tensors,
                self._tensors,
                system.own,
                system.inverse,
            )

    def solve(self, system: System, step: DeviceArray, tolerance: float, limit: int) -> Solution:
        """See LinearSolver. The guess in ``step`` is not used."""
        device = self._device
        square = tolerance * tolerance
        multigrid_kernels.start_cycle(
            system.gradient,
            device.offsets,
            device.neighbours,
            system.couplings,
            system.own,
            system.inverse,
            self._child_offsets,
            self._children,
            self._child_weights,
            self._second,
            step,
            self._b,
            self._x,
            self._y,
            self._partial,
            self._scalars,
            square,
        )
        before = math.inf
        for number in range(limit):
            if self._scalars[multigrid_kernels.DONE] != 0.0:
                break
            if number % _PATIENCE == 0:
                now = float(self._scalars[multigrid_kernels.RZ])
                if now > _LEAST_FALL * before:
                    break
                before = now
            self._cycle(system)
            multigrid_kernels.finish_cycle(
                device.offsets,
                device.neighbours,
                system.couplings,
                system.own,
                system.inverse,
                self._parents,
                self._weights,
                self._direction,
                self._b,
                self._x,
                self._y,
                self._partial,
                self._scalars,
            )
            multigrid_kernels.iterate(
                device.offsets,
                device.neighbours,
                system.couplings,
                system.own,
                system.inverse,
                self._child_offsets,
                self._children,
                self._child_weights,
                self._second,
                step,
                self._direction,
                self._product,
                self._b,
                self._x,
                self._y,
                self._partial,
                self._scalars,
                square,
            )
        scalars = self._scalars.to_numpy()
        start = float(scalars[multigrid_kernels.RZ_START])
        left = float(scalars[multigrid_kernels.RZ])
        residual = math.sqrt(max(left, 0.0) / start) if start > 0.0 else 0.0
        return Solution(int(scalars[multigrid_kernels.COUNT]), residual)

    @property
    def _second(self) -> int:
        """Where the first coarse level ends; the vertex count when there is none."""
        return self._nodes[min(2, len(self._nodes) - 1)]

    def _cycle(self, system: System) -> None:
        """The V-cycle from the first coarse level on, of the right side in b; result in y."""
        levels = len(self._nodes) - 1
        if levels == 1:
            return
        for level in range(1, self._serial):
            cycle_kernels.go_down(
                self._nodes[1],
                self._nodes[level],
                self._nodes[level + 1],
                self._nodes[level + 2],
                self._offsets,
                self._links,
                self._bend_offsets,
                self._bend_neighbours,
                self._bend_weights,
                self._tensors,
                system.own,
                system.inverse,
                self._child_offsets,
                self._children,
                self._child_weights,
                self._b,
                self._x,
                self._y,
            )
        cycle_kernels.coarse_cycle(
            self._nodes[1],
            self._tasks,
            self._task_count,
            self._parents,
            self._weights,
            self._child_offsets,
            self._children,
            self._child_weights,
            self._offsets,
            self._links,
            self._bend_offsets,
            self._bend_neighbours,
            self._bend_weights,
            self._tensors,
            system.own,
            system.inverse,
            self._b,
            self._x,
            self._y,
        )
        for level in reversed(range(1, self._serial)):
            cycle_kernels.go_up(
                self._nodes[1],
                self._nodes[level],
                self._nodes[level + 1],
                self._parents,
                self._weights,
                self._offsets,
                self._links,
                self._bend_offsets,
                self._bend_neighbours,
                self._bend_weights,
                self._tensors,
                system.own,
                system.inverse,
                self._b,
                self._x,
                self._y,
            )


def _bending(model: ClothModel) -> hierarchy.Bending:
    """The bending matrix's pairs, without the cosines of the rest angles."""
    matrix = model.bending_upper
    rows = np.repeat(np.arange(model.vertex_count, dtype=np.int32), np.diff(matrix.offsets))
    upper = rows < matrix.neighbours
    pairs = np.empty((int(np.count_nonzero(upper)), 2), dtype=np.int32)
    pairs[:, 0], pairs[:, 1] = rows[upper], matrix.neighbours[upper]
    strength = matrix.weights[upper]
    np.negative(strength, out=strength)
    return hierarchy.Bending(pairs, strength)
