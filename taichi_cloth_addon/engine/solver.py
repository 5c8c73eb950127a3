# SPDX-License-Identifier: GPL-3.0-or-later
"""The contract that every solver keeps, and the options and report that go with it."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from .inputs import FrameInputs
from .model import ClothState
from .runtime import Device as Device


class Integrator(Enum):
    """How a step is integrated in time."""

    AUTO = "AUTO"
    EXPLICIT = "EXPLICIT"
    IMPLICIT = "IMPLICIT"
    SOR = "SOR"


@dataclass(frozen=True)
class SolverOptions:
    """Choices of the user.

    Attributes:
        integrator: see Integrator.
        substeps: steps per frame; 0 lets the solver choose. EXPLICIT takes more where its
            stability needs them.
    """

    integrator: Integrator = Integrator.AUTO
    substeps: int = 0


@dataclass(frozen=True)
class StepReport:
    """What a frame's steps did.

    Attributes:
        integrator: the one that ran.
        substeps: steps taken.
        iterations: iterations of the linear solver over all steps.
        residual: worst relative residual left by a linear solve.
        worst_strain: largest relative stretch of a structural spring at the end.
        explicit_share: share of springs that were integrated explicitly.
        warnings: complete sentences for the user; empty when all tolerances hold.
    """

    integrator: Integrator
    substeps: int
    iterations: int
    residual: float
    worst_strain: float
    explicit_share: float
    warnings: tuple[str, ...] = ()


class Solver(Protocol):
    """Advances a cloth through one frame."""

    def step(
        self, state: ClothState, before: FrameInputs, now: FrameInputs, duration: float
    ) -> StepReport:
        """Advance ``state`` in place by ``duration`` seconds.

        The inputs go from the last sample of ``before`` to the samples of ``now``.
        """
        ...
