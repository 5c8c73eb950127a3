# SPDX-License-Identifier: GPL-3.0-or-later
"""The locally adaptive hybrid integrator: criterion, explicit and implicit steps."""
