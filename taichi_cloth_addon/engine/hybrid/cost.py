# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost model by which AUTO chooses between explicit and implicit steps.

It counts in explicit steps of the same mesh. It uses no clock, so that a bake gives the same
result on every run and every machine.
"""

# One implicit step without its linear iterations, and one iteration of multigrid, in explicit
# steps (measured on hanging sheets of 24² to 128² vertices, one thread: all of a step was worth
# 11 to 13 of them where it reaches across 5 vertices, 19 to 23 at 50, 21 to 60 at 150).
_IMPLICIT_STEP = 10.0
_ITERATION = 2.2
# Iterations of a step for each vertex that the step reaches across, and those of the easiest.
_ITERATIONS_PER_VERTEX = 0.08
_LEAST_ITERATIONS = 2.0
# Explicit steps are far more accurate: they are preferred until they cost this much more.
_PREMIUM = 1.2


def implicit_cost(steps: int, coupling: float) -> float:
    """Explicit steps that ``steps`` implicit ones, felt ``coupling`` vertices away, are worth."""
    iterations = _LEAST_ITERATIONS + _ITERATIONS_PER_VERTEX * coupling
    return _PREMIUM * steps * (_IMPLICIT_STEP + _ITERATION * iterations)
