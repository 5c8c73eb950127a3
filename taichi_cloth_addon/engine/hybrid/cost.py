# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost model by which AUTO chooses between explicit and implicit steps.

It counts in explicit steps of the same mesh. It uses no clock, so that a bake gives the same
result on every run and every machine.
"""

# One implicit step without its linear iterations, and one iteration of multigrid, in explicit
# steps (measured on hanging sheets of 32² to 128² vertices, one thread).
_IMPLICIT_STEP = 16.0
_ITERATION = 2.2
# Iterations of a step for each vertex that the step reaches across (2 at 31, 9 at 124), and
# those of the easiest.
_ITERATIONS_PER_VERTEX = 0.055
_LEAST_ITERATIONS = 2.0
# Explicit steps are far more accurate: they are preferred until they cost this much more.
_PREMIUM = 1.5


def implicit_cost(steps: int, coupling: float) -> float:
    """Explicit steps that ``steps`` implicit ones, felt ``coupling`` vertices away, are worth."""
    iterations = _LEAST_ITERATIONS + _ITERATIONS_PER_VERTEX * coupling
    return _PREMIUM * steps * (_IMPLICIT_STEP + _ITERATION * iterations)
