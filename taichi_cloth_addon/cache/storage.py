# SPDX-License-Identifier: GPL-3.0-or-later
"""Writing files so that a kill at any instant leaves the old content or the new, never half."""

import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

REPLACE_ATTEMPTS = 8
REPLACE_PAUSE = 0.15
"""s between attempts; virus scanners and sync tools hold a file for moments only."""


class CacheError(Exception):
    """A file of a bake cannot be read or written. The text names it and the way out."""


class LockedError(CacheError):
    """Another program holds the file that is to be replaced."""


def explain(error: OSError, action: str, path: Path) -> str:
    """Return a sentence for the user: what could not be done with ``path``, why, and what helps.

    Args:
        error: what the system said.
        action: such as "written" or "read".
        path: the file or folder.
    """
    reason = error.strerror or str(error)
    help_text = {
        errno.ENOSPC: "The disk is full: free some space, or choose another cache folder.",
        getattr(errno, "EDQUOT", -1): "The disk quota is used up: free some space.",
        errno.EROFS: "The disk is read-only: choose another cache folder.",
        errno.ENOENT: "The folder is missing: choose another cache folder, or bake again.",
        errno.ENOTDIR: "A part of the path is no folder: choose another cache folder.",
        errno.EACCES: "Allow writing there, or choose another cache folder.",
        errno.EPERM: "Allow writing there, or choose another cache folder.",
    }.get(error.errno or 0, "Check the disk, or choose another cache folder.")
    return f'"{path}" could not be {action} ({reason}). {help_text}'


def make_folder(path: Path) -> None:
    """Create a folder and those above it.

    Raises:
        CacheError: it cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CacheError(explain(error, "created", path)) from error


def temporary(path: Path) -> Path:
    """Where the new content of ``path`` is written before it takes the name."""
    return path.with_name(path.name + ".tmp")


def replace(source: Path, target: Path) -> None:
    """Rename ``source`` over ``target``, with patience for a target held for a moment.

    Raises:
        LockedError: another program keeps the target.
        CacheError: any other refusal.
    """
    for attempt in range(REPLACE_ATTEMPTS):
        try:
            os.replace(source, target)
        except PermissionError as error:
            if attempt == REPLACE_ATTEMPTS - 1:
                raise LockedError(
                    f'"{target}" cannot be replaced ({error.strerror or error}): another program '
                    f"holds it, or the folder does not allow it."
                ) from error
            time.sleep(REPLACE_PAUSE)
        except OSError as error:
            raise CacheError(explain(error, "written", target)) from error
        else:
            return


def write_atomically(
    path: Path, write: Callable[[IO[bytes]], object], *, durable: bool = False
) -> None:
    """Give ``path`` new content in one step.

    Args:
        path: the file.
        write: writes the content into the open binary file it is handed.
        durable: wait until the disk has it (for the last write of a bake).

    Raises:
        CacheError: it cannot be written; the old content is still there.
    """
    part = temporary(path)
    try:
        with part.open("wb") as file:
            write(file)
            if durable:
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        part.unlink(missing_ok=True)
        raise CacheError(explain(error, "written", path)) from error
    replace(part, path)


def write_json(path: Path, content: dict[str, Any], *, durable: bool = False) -> None:
    """Write a JSON file in one step (UTF-8; odd file names of a system survive).

    Raises:
        CacheError: it cannot be written.
        ValueError: a number in it is not finite.
    """
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    data = text.encode("utf-8", "surrogatepass")
    write_atomically(path, lambda file: file.write(data), durable=durable)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Raises:
        FileNotFoundError: there is none.
        CacheError: it cannot be read, or is something else.
    """
    try:
        content = json.loads(path.read_bytes().decode("utf-8", "surrogatepass"))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CacheError(explain(error, "read", path)) from error
    except ValueError as error:
        raise CacheError(
            f'"{path}" is damaged ({error}). Delete the bake and bake again.'
        ) from error
    if not isinstance(content, dict):
        raise CacheError(f'"{path}" is damaged (no JSON object). Delete the bake and bake again.')
    return content


def delete(path: Path) -> None:
    """Delete a file if it is there.

    Raises:
        CacheError: it is there and cannot be deleted.
    """
    try:
        path.unlink(missing_ok=True)
    except NotADirectoryError:
        return
    except OSError as error:
        raise CacheError(
            f'"{path}" could not be deleted ({error.strerror or error}). '
            "Close the program that uses it and try again."
        ) from error
