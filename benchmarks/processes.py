# SPDX-License-Identifier: GPL-3.0-or-later
"""What a measuring process asks the system for; imports nothing that takes memory."""

import os
import resource
import sys
import time
from pathlib import Path


def one_processor() -> None:
    """Keep this process on one processor, where the system can: threads then cannot help."""
    if hasattr(os, "sched_setaffinity"):
        # The last one: the first has the system's interrupts.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])


def cpu_time() -> float:
    """CPU time of all threads of this process, s."""
    return time.process_time()


def peak_memory() -> float:
    """Most resident memory of this process so far, MB."""
    status = Path("/proc/self/status")
    if status.is_file():
        # getrusage would also count the process that started this one.
        for line in status.read_text("utf-8").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)
