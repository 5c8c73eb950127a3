# SPDX-License-Identifier: GPL-3.0-or-later
"""Orders by counting are those by comparison."""

import numpy as np
import pytest

from taichi_cloth_addon.engine.sorting import run_starts, stable_order, symmetric_rows


@pytest.mark.parametrize("largest", [1, 300, 70_000, 2**31 - 2])
def test_the_order_is_that_of_lexsort(largest):
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 5, 2000), rng.integers(0, largest + 1, 2000)
    order = stable_order(first.astype(np.int32), second)
    assert np.array_equal(order, np.lexsort((second, first)))


def test_nothing_has_an_order_and_no_runs():
    nothing = np.zeros(0, dtype=np.int32)
    assert len(stable_order(nothing, nothing)) == 0
    assert len(run_starts(nothing)) == 0
    offsets, entries, columns = symmetric_rows(nothing, nothing, 3)
    assert (offsets.tolist(), entries.tolist(), columns.tolist()) == ([0, 0, 0, 0], [], [])


def test_runs_start_where_a_key_changes():
    starts = run_starts(np.array([0, 0, 1, 1]), np.array([2, 2, 2, 3]))
    assert starts.tolist() == [True, False, True, True]


def test_rows_of_a_symmetric_pattern():
    rng = np.random.default_rng(2)
    full = rng.random((90, 90)) < 0.1
    low, high = (part.astype(np.int32) for part in np.nonzero(np.triu(full)))
    offsets, entries, columns = symmetric_rows(low, high, 90)
    expected = np.triu(full) | np.triu(full).T
    assert np.array_equal(np.repeat(np.arange(90), np.diff(offsets)), np.nonzero(expected)[0])
    assert np.array_equal(columns, np.nonzero(expected)[1])
    rows = np.repeat(np.arange(90), np.diff(offsets))
    assert np.array_equal(np.minimum(rows, columns), low[entries])
    assert np.array_equal(np.maximum(rows, columns), high[entries])
