# SPDX-License-Identifier: GPL-3.0-or-later
"""Taichi Cloth: bakes cloth animation with a Taichi solver in a child process.

Importing the package needs no Blender: the worker process imports it without.
"""


def register() -> None:
    """Register everything with Blender."""
    from . import blender  # noqa: PLC0415 - only Blender has bpy

    blender.register()


def unregister() -> None:
    """Take everything back, in reverse order."""
    from . import blender  # noqa: PLC0415 - only Blender has bpy

    blender.unregister()
