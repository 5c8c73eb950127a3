# SPDX-License-Identifier: GPL-3.0-or-later
"""Remembers that something about an object may have changed, so that a look can be cheap.

Handlers and property callbacks only raise a counter here; whoever wants to know the state of
a cloth compares the counter with the one it saw last and computes anew if they differ.
Objects are named by their ``session_uid``, which survives undo and renaming.
"""

_counters: dict[int, int] = {}
_epoch = 0


def mark(session_uid: int) -> None:
    """Note that the object may have changed."""
    _counters[session_uid] = _counters.get(session_uid, 0) + 1


def mark_all() -> None:
    """Note that any object may have changed (undo, a bake, a saved file)."""
    global _epoch  # noqa: PLW0603 - one counter per Blender
    _epoch += 1


def clear() -> None:
    """Forget all objects: another file was loaded."""
    _counters.clear()
    mark_all()


def stamp(session_uid: int) -> tuple[int, int]:
    """Value that differs from an earlier one if the object was marked in between."""
    return _epoch, _counters.get(session_uid, 0)
