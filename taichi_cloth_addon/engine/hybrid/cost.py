# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost model by which AUTO chooses between explicit and implicit steps.

It counts in explicit steps of the same mesh. It uses no clock, so that a bake gives the same
result on every run and every machine.
"""

import math

# One step of the implicit integrator without its linear iterations: about two Newton passes of
# assembly, gradient and energies.
_IMPLICIT_STEP = 12.0
# One iteration of conjugate gradients.
_ITERATION = 1.0
# Iterations of a step's linear solves per unit of h / h_stable (the number of cells that a
# wave crosses in a step), and those that even the easiest solve takes.
_ITERATIONS_PER_RATIO = 9.0
_LEAST_ITERATIONS = 10.0


def explicit_cost(steps: int) -> float:
    """Cost of a frame in explicit steps."""
    return float(steps)


def implicit_cost(steps: int, ratio: float) -> float:
    """Cost of a frame in implicit steps, ``ratio`` times as long as the stable one."""
    iterations = _LEAST_ITERATIONS + _ITERATIONS_PER_RATIO * ratio
    return steps * (_IMPLICIT_STEP + _ITERATION * iterations)


def explicit_is_cheaper(duration: float, stable: float, implicit_steps: int) -> bool:
    """Whether a frame of ``duration`` seconds is cheaper explicitly."""
    if math.isinf(stable):
        return True
    explicit_steps = math.ceil(duration / stable)
    ratio = duration / implicit_steps / stable
    return explicit_cost(explicit_steps) <= implicit_cost(implicit_steps, ratio)
