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


class Quality(Enum):
    """How far implicit steps may be from the converged motion.

    RMS distance after the fall of a 1 m sheet hanging by two corners (0.5 s): docs/benchmarks.md.
    """

    DRAFT = "DRAFT"
    NORMAL = "NORMAL"
    FINAL = "FINAL"


@dataclass(frozen=True)
class SolverOptions:
    """Choices of the user.

    Attributes:
        integrator: see Integrator.
        substeps: steps per frame; 0 lets the solver choose. EXPLICIT takes more where its
            stability needs them.
        quality: length and tolerance of implicit steps.
    """

    integrator: Integrator = Integrator.AUTO
    substeps: int = 0
    quality: Quality = Quality.NORMAL


@dataclass(frozen=True)
class StepReport:
    """What a frame's steps did.

    Attributes:
        integrator: the one that ran.
        substeps: steps taken.
        iterations: iterations of the linear solver over all steps.
        residual: worst residual that an implicit step left, relative to the force it began with,
            or to the weight if that is more; of SOR that of its linear system.
        worst_strain: largest relative stretch of a structural spring at the end.
        explicit_share: share of springs that were integrated explicitly.
        warnings: complete sentences for the user; empty when all tolerances hold.
        explicit_steps: steps that explicit integration would have taken; 0 if not asked.
    """

    integrator: Integrator
    substeps: int
    iterations: int
    residual: float
    worst_strain: float
    explicit_share: float
    warnings: tuple[str, ...] = ()
    explicit_steps: int = 0


class Solver(Protocol):
    """Advances a cloth through one frame."""

    def step(
        self, state: ClothState, before: FrameInputs, now: FrameInputs, duration: float
    ) -> StepReport:
        """Advance ``state`` in place by ``duration`` seconds.

        The inputs go from the last sample of ``before`` to the samples of ``now``.
        """
        ...
