# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost model by which AUTO chooses between explicit and implicit steps.

It counts in explicit steps of the same mesh. It uses no clock, so that a bake gives the same
result on every run and every machine.
"""

# One step of the implicit integrator without its linear iterations: two to three Newton passes
# of assembly, gradient and energies (measured at 64 x 64 vertices on a CPU).
_IMPLICIT_STEP = 20.0
# One iteration of conjugate gradients.
_ITERATION = 1.0
# Iterations of a step's linear solves for each vertex that a step reaches across (measured on
# hanging sheets of 32 x 32 and 64 x 64 vertices: 3.7 and 4), and those of the easiest solve.
_ITERATIONS_PER_VERTEX = 4.0
_LEAST_ITERATIONS = 5.0


def implicit_cost(steps: int, coupling: float) -> float:
    """Cost of ``steps`` implicit steps that are felt ``coupling`` vertices away."""
    iterations = _LEAST_ITERATIONS + _ITERATIONS_PER_VERTEX * coupling
    return steps * (_IMPLICIT_STEP + _ITERATION * iterations)
