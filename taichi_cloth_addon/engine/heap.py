# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory that was freed, given back to the system."""

import ctypes
import sys


def trim() -> None:
    """Give back what this process has freed.

    GNU's C library keeps freed blocks of less than 32 MB for later ones: after the set-up of a
    million vertices that is 0.6 GB. Elsewhere this does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    release = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if release is not None:
        release(0)
