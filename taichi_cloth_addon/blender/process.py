# SPDX-License-Identifier: GPL-3.0-or-later
"""The worker process as seen from Blender: start it, read its progress, end it.

Its progress goes to a file in the job folder, not to a pipe: a file can be read at any time
without blocking, on every system, and stays for a bug report. A line on its standard input
asks it to leave; so does the end of that input, which comes when Blender dies.
"""

import importlib.util
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .preferences import PACKAGE, user_folder

PROGRESS_FILE = "progress.jsonl"
LOG_FILE = "worker.log"
GRACE_SECONDS = 0.6
"""A cancelled bake is over within a second, so the worker has a little less to leave."""
LEAVE_SECONDS = 10.0
POLITENESS = 10

Event = dict[str, Any]


class WorkerError(Exception):
    """The worker cannot be started. The text names the way out."""


def python_binary() -> str:
    """Blender's own Python interpreter."""
    executable = Path(sys.executable)
    if "python" in executable.name.lower():
        return str(executable)
    folder = Path(sys.prefix) / ("" if sys.platform == "win32" else "bin")
    for found in sorted(folder.glob("python*")):
        if found.is_file() and os.access(found, os.X_OK) and "config" not in found.name:
            return str(found)
    raise WorkerError(f"No Python interpreter was found in {folder}; reinstall Blender")


def worker_module() -> tuple[str, Path]:
    """Name of the worker module and the folder that Python has to look in for it."""
    package = Path(next(iter(sys.modules[PACKAGE].__path__)))
    return f"{package.name}.worker", package.parent


def search_path() -> list[str]:
    """Folders that the worker needs besides those of the interpreter."""
    folders = []
    for name in ("taichi", "numpy"):
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        if spec is None or not spec.submodule_search_locations:
            raise WorkerError(
                f"The Python package {name} is missing; "
                "install the extension again from the zip made for this system"
            )
        folders.append(str(Path(next(iter(spec.submodule_search_locations))).parent))
    # Last, because other extensions lie there too.
    folders.append(str(worker_module()[1]))
    return list(dict.fromkeys(folders))


def environment() -> dict[str, str]:
    """The environment of the worker: Blender's, without what redirects Python."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env["PYTHONPATH"] = os.pathsep.join(search_path())
    env["PYTHONNOUSERSITE"] = "1"
    env["PYTHONIOENCODING"] = "utf-8"
    env["XDG_CACHE_HOME"] = str(user_folder("cache"))
    return env


def command(job_folder: Path, *, resume: bool) -> list[str]:
    """The command line that simulates a job."""
    module, _folder = worker_module()
    # -P: what lies in the current folder is not to be imported.
    line = [python_binary(), "-s", "-P", "-m", module, str(job_folder), "--attended"]
    return [*line, "--resume"] if resume else line


class WorkerProcess:
    """A running worker."""

    def __init__(self, job_folder: Path, *, resume: bool, polite: bool = False) -> None:
        """Start the worker on a job folder.

        Args:
            job_folder: the job.
            resume: go on from its checkpoint.
            polite: let other programs, such as the window that waits for it, go first.

        Raises:
            WorkerError: it cannot be started.
            OSError: the job folder cannot be written.
        """
        self._log = job_folder / LOG_FILE
        line = command(job_folder, resume=resume)
        env = environment()
        flags = getattr(subprocess, "CREATE_NO_WINDOW", 0)
        if polite:
            flags |= getattr(subprocess, "BELOW_NORMAL_PRIORITY_CLASS", 0)
        reap()
        with (
            (job_folder / PROGRESS_FILE).open("wb") as progress,
            self._log.open("wb") as log,
        ):
            try:
                self._process = subprocess.Popen(
                    line,
                    stdin=subprocess.PIPE,
                    stdout=progress,
                    stderr=log,
                    env=env,
                    creationflags=flags,
                )
            except OSError as error:
                raise WorkerError(f"The worker did not start: {error}") from error
        if polite and hasattr(os, "setpriority"):
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, POLITENESS)
        self._progress = (job_folder / PROGRESS_FILE).open("rb")
        self._rest = b""
        self._deadline: float | None = None

    @property
    def pid(self) -> int:
        """Process id, for messages and tests."""
        return self._process.pid

    def events(self) -> list[Event]:
        """Progress lines that came since the last call. Never waits."""
        lines = (self._rest + self._progress.read()).split(b"\n")
        self._rest = lines.pop()
        found = []
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # Something that a driver printed.
            if isinstance(event, dict):
                found.append(event)
        return found

    def running(self) -> bool:
        """Whether the process lives; kills it if it was asked to leave and does not."""
        if self._process.poll() is not None:
            return False
        if self._deadline is not None and time.monotonic() > self._deadline:
            self.kill()
            return False
        return True

    def cancel(self) -> None:
        """Ask the worker to leave. It is killed after the time of grace."""
        if self._deadline is not None:
            return
        self._deadline = time.monotonic() + GRACE_SECONDS
        pipe = self._process.stdin
        if pipe is not None:
            with suppress(OSError):  # It may have left already.
                pipe.write(b"cancel\n")
                pipe.close()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Cancel and wait, at most for the time of grace."""
        self.cancel()
        while self.running():
            time.sleep(0.01)

    def leave_alone(self) -> None:
        """Close it without waiting: it has said its last word and is only tidying up."""
        self.close()
        self._deadline = time.monotonic() + LEAVE_SECONDS
        _leaving.append(self)

    def close(self) -> None:
        """Free the files that tell about it."""
        self._progress.close()
        if self._process.stdin is not None and not self._process.stdin.closed:
            with suppress(OSError):
                self._process.stdin.close()

    @property
    def exit_code(self) -> int | None:
        """Exit code, None while it runs, negative after a signal."""
        return self._process.poll()

    def log_tail(self, lines: int = 3) -> str:
        """The last lines that the worker wrote to its standard error."""
        try:
            text = self._log.read_text("utf-8", errors="replace")
        except OSError:
            return ""
        return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])


_leaving: list[WorkerProcess] = []


def reap() -> None:
    """Forget workers that have left, and kill those that take too long."""
    _leaving[:] = [worker for worker in _leaving if worker.running()]


def end_leaving() -> None:
    """Kill workers that are still tidying up: Blender or the add-on ends."""
    while _leaving:
        _leaving.pop().kill()
