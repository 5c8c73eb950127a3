# SPDX-License-Identifier: GPL-3.0-or-later
"""An engine without Taichi for tests of the worker: a motion that needs the exact state."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from taichi_cloth_addon.engine.inputs import FrameInputs
from taichi_cloth_addon.engine.model import ClothPart, ClothState
from taichi_cloth_addon.engine.solver import Integrator, SolverOptions, StepReport
from taichi_cloth_addon.worker import Engine
from tests.cache.recurrence import advance, first_state

Array = npt.NDArray[np.float64]


class Cancelled(Exception):  # noqa: N818
    pass


class SimulationError(Exception):
    pass


@dataclass(frozen=True)
class Runtime:
    description: str = "Abacus (2 beads)"
    messages: tuple[str, ...] = ("CUDA is not there; Abacus is used.",)


@dataclass(frozen=True)
class Model:
    slices: tuple[slice, ...]
    positions: Array
    warnings: tuple[str, ...] = ("A loose vertex falls freely.",)


@dataclass(frozen=True)
class Frame:
    index: int
    positions: Array
    state: ClothState
    report: StepReport | None


@dataclass
class FakeEngine:
    """What tests can make the engine do, and what it saw.

    Attributes:
        step_seconds: time that a frame takes.
        on_frame: called before the frame of that index is simulated.
        warnings: of the solver, on every frame.
        spoil: index of a frame whose first position is NaN.
        starts: arguments of each start.
        seen: z of gravity in each input, in order.
    """

    step_seconds: float = 0.0
    on_frame: Callable[[int], None] = lambda _: None
    warnings: tuple[str, ...] = ()
    spoil: int | None = None
    starts: list[tuple[str, str | None]] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)

    def load(self) -> Engine:
        return Engine(
            start=self.start,
            build_model=self.build_model,
            simulate=self.simulate,
            cancelled=Cancelled,
            known_errors=(SimulationError, ValueError),
        )

    def start(self, device: str, cache_folder: str | None, _vertex_count: int) -> Runtime:
        self.starts.append((device, cache_folder))
        return Runtime()

    def build_model(
        self, parts: Sequence[ClothPart], on_phase: Callable[[str], None] = lambda _: None
    ) -> Any:
        on_phase("building")
        ends = np.cumsum([part.mesh.vertex_count for part in parts]).tolist()
        slices = tuple(slice(a, b) for a, b in zip([0, *ends], ends, strict=False))
        return Model(slices, np.concatenate([part.positions for part in parts]))

    def simulate(
        self,
        model: Model,
        inputs: Iterable[FrameInputs],
        options: SolverOptions,
        frame_duration: float,
        *,
        start: ClothState | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        on_phase: Callable[[str], None] | None = None,
        first_frame: int = 0,
    ) -> Iterator[Any]:
        stream = iter(inputs)
        self.seen.append(float(next(stream).samples[-1].gravity[2]))
        state = start or first_state(model.positions)
        if start is None:
            yield Frame(0, state.positions.astype(np.float64), state, None)
        if on_phase:
            on_phase("compiling")
        for index, now in enumerate(stream, 1):
            self.seen.append(float(now.samples[-1].gravity[2]))
            end = time.perf_counter() + self.step_seconds
            self.on_frame(index)
            while True:
                if cancelled():
                    raise Cancelled
                if time.perf_counter() >= end:
                    break
                time.sleep(0.002)
            advance(state)
            if on_phase:
                on_phase("simulating")
            positions = state.positions.astype(np.float64)
            if index == self.spoil:
                positions[0, 0] = np.nan
            report = StepReport(Integrator.SOR, 5, 50, 1e-6, np.inf, 0.25, self.warnings)
            yield Frame(index, positions, state, report)
