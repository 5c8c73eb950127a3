# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the Newton passes of implicit steps, and what they did."""

from dataclasses import dataclass

# A step left with more of its residual counts as unsolved.
_LARGE_RESIDUAL = 0.5


@dataclass(frozen=True)
class NewtonSettings:
    """When to stop.

    Attributes:
        passes: most Newton passes in a step.
        tolerance: a step is solved when its residual is below this share of its scale: the
            smaller of the residuals at its two starts, but not below the weight's norm.
        energy_share: and when its error adds to the kinetic energy or takes from it less than
            this share.
        linear_tolerance: each linear solve lowers its residual to this share.
        linear_limit: most iterations in a linear solve.
        warm_start: begin at the inertial target where its energy is lower. Otherwise a step
            is linearised at its start, and the linear solve begins with the velocity kept, so
            that what it leaves unsolved does not brake the cloth.
        second_order: BDF2 where the step before had the same length; else backward Euler.
    """

    passes: int = 30
    tolerance: float = 0.3
    energy_share: float = 0.002
    linear_tolerance: float = 0.2
    linear_limit: int = 200
    warm_start: bool = True
    second_order: bool = True


@dataclass
class Work:
    """What the steps of a frame did.

    Attributes:
        steps: steps taken.
        passes: Newton passes.
        iterations: iterations of the linear solver.
        cuts: halvings of the line search.
        residual: worst residual that a step was left with, relative to its scale, or to the whole
            weight if that is more.
        unsolved: steps left with more than half of it.
        excess: worst relative length of a spring beyond its limit.
    """

    steps: int = 0
    passes: int = 0
    iterations: int = 0
    cuts: int = 0
    residual: float = 0.0
    unsolved: int = 0
    excess: float = 0.0

    def left(self, residual: float) -> None:
        """Count what a step was left with."""
        self.residual = max(self.residual, residual)
        self.unsolved += residual > _LARGE_RESIDUAL
