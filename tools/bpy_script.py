# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a script in a Python that has the module bpy: `python bpy_script.py SCRIPT ARGUMENTS`.

Ends the process itself. The module's static destructors run after Python has ended; in them the
module of 4.2 crashes once a property with a Python callback was registered, and that of 4.5 hangs
at times.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import runpy
import sys
import traceback
from typing import NoReturn


def leave(status: int) -> NoReturn:
    """Ends the process like sys.exit, without the destructors of C++ libraries."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def main() -> NoReturn:
    """Runs the script that the arguments name as if Python had been started with it."""
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    status = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    leave(status)


if __name__ == "__main__":
    main()
