# SPDX-License-Identifier: GPL-3.0-or-later
"""Orders of whole numbers, by counting: several times as fast as sorting by comparison.

numpy counts only when it sorts 16 bits with kind="stable"; longer keys take several passes.
"""

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int32]
Integers = npt.NDArray[np.int64]
Keys = npt.NDArray[np.integer]
Mask = npt.NDArray[np.bool_]

_DIGIT = 16  # bits
_PIECE = 65536  # pairs at a time


def stable_order(*keys: Keys) -> Integers:
    """(N,) order by the first of the keys (N,), then by the second and so on; stable.

    The keys are not negative.
    """
    order: Integers | None = None
    for key in reversed(keys):
        largest = int(key.max(initial=0))
        for shift in range(0, max(largest.bit_length(), 1), _DIGIT):
            digit = (key >> shift if shift else key).astype(np.uint16)
            if order is None:
                order = np.argsort(digit, kind="stable")
            else:
                order = order[np.argsort(digit[order], kind="stable")]
    assert order is not None
    return order


def run_starts(*keys: Keys) -> Mask:
    """(N,) where in sorted keys another value begins."""
    starts = np.ones(len(keys[0]), dtype=np.bool_)
    if len(starts):
        np.not_equal(keys[0][1:], keys[0][:-1], out=starts[1:])
    for key in keys[1:]:
        starts[1:] |= key[1:] != key[:-1]
    return starts


def symmetric_rows(low: Indices, high: Indices, count: int) -> tuple[Indices, Indices, Indices]:
    """Rows of a symmetric pattern given by its upper half.

    Args:
        low: (P,) rows.
        high: (P,) columns, not below the rows; sorted by row, then by column.
        count: number of rows.

    Returns:
        offsets (count + 1,), and by row: the pair that each entry comes from, and its column,
        ascending in each row.
    """
    back = np.flatnonzero(low != high).astype(np.int32)
    back = back[stable_order(high[back])]
    upper = np.bincount(low, minlength=count)
    lower = np.bincount(high[back], minlength=count)
    offsets = np.concatenate([[0], np.cumsum(upper + lower)])
    entries = np.empty(offsets[-1], dtype=np.int32)
    columns = np.empty(offsets[-1], dtype=np.int32)
    begin = offsets[:-1] - (np.cumsum(lower) - lower)
    for start in range(0, len(back), _PIECE):
        pairs = back[start : start + _PIECE]
        place = np.arange(start, start + len(pairs)) + begin[high[pairs]]
        entries[place] = pairs
        columns[place] = low[pairs]
    begin = offsets[:-1] + lower - (np.cumsum(upper) - upper)
    for start in range(0, len(low), _PIECE):
        end = min(start + _PIECE, len(low))
        place = np.arange(start, end) + begin[low[start:end]]
        entries[place] = np.arange(start, end, dtype=np.int32)
        columns[place] = high[start:end]
    return offsets.astype(np.int32), entries, columns
