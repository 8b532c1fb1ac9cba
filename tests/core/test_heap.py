"""A table on the heap: told that it does not fit before it does not."""

from __future__ import annotations

import pytest

from udfs.core.errors import TableTooLargeError
from udfs.core.heap import HEAP_SHARE, LOOK_EVERY_ROWS, HeapBudget, heap_bytes

_KEY, _ROW = 10, 500


def _heap_for(rows: int) -> int:
    return int(rows * heap_bytes(_KEY, _ROW) / HEAP_SHARE) + 1


def test_a_table_that_fits_may_be_written_as_often_as_one_likes() -> None:
    rows = LOOK_EVERY_ROWS
    budget = HeapBudget("products", _heap_for(rows), lambda: rows)
    for _ in range(5 * rows):
        budget.add(_KEY, _ROW)


def test_one_that_does_not_is_refused_with_its_sizes_and_the_way_out() -> None:
    rows = 3 * LOOK_EVERY_ROWS
    budget = HeapBudget("products", _heap_for(rows) - 2, lambda: rows)
    for _ in range(LOOK_EVERY_ROWS - 1):
        budget.add(_KEY, _ROW)
    with pytest.raises(TableTooLargeError) as caught:
        budget.add(_KEY, _ROW)
    text = str(caught.value)
    assert "products: 30000 rows take 35 MB of the heap during a checkpoint, 1190 bytes" in text
    assert "heap of 47 MB has room for 35 MB" in text
    assert 'join.lookup_state = "keyed"' in text


def test_it_is_looked_at_now_and_then_and_not_for_each_row() -> None:
    asked: list[int] = []

    def entries() -> int:
        asked.append(1)
        return 1

    budget = HeapBudget("products", 1 << 40, entries)
    for _ in range(LOOK_EVERY_ROWS - 1):
        budget.add(_KEY, _ROW)
    assert asked == []
    budget.add(_KEY, _ROW)
    assert asked == [1]
