# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulation engine: numpy and Taichi only. No bpy, no files, no printing."""
