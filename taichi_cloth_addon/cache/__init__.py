# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a bake: job folder in, point cache and sidecar out. Pure numpy, no bpy."""
