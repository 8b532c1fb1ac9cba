"""What has been replayed: any set of offsets is written as text and read back as itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.retry.marks import BLOCK, Marks


def ledger_of(marks: Marks) -> dict[tuple[int, int], str]:
    return {(partition, block): text for partition, block, text in marks.changes()}


def test_a_block_is_written_as_ranges_that_people_read() -> None:
    marks = Marks()
    for offset in (0, 1, 2, 5, 7, 8, BLOCK - 1, BLOCK, BLOCK + 3):
        marks.add(1, offset)
    assert ledger_of(marks) == {
        (1, 0): f"0-2,5,7-8,{BLOCK - 1}",
        (1, 1): f"{BLOCK},{BLOCK + 3}",
    }
    assert ledger_of(marks) == {}, "what has been told is no change"
    marks.add(1, 3)
    assert ledger_of(marks) == {(1, 0): f"0-3,5,7-8,{BLOCK - 1}"}


@settings(max_examples=40)
@given(
    st.sets(st.tuples(st.integers(0, 2), st.integers(0, 3 * BLOCK))),
    st.sets(st.tuples(st.integers(0, 2), st.integers(0, 3 * BLOCK))),
)
def test_what_was_added_is_marked_also_by_way_of_the_ledger(
    first: set[tuple[int, int]], second: set[tuple[int, int]]
) -> None:
    marks, read = Marks(), Marks()
    told: dict[tuple[int, int], str] = {}
    for batch in (first, second):
        for partition, offset in batch:
            marks.add(partition, offset)
        told |= ledger_of(marks)
    for (partition, block), text in told.items():
        read.set_block(partition, block, text)
    for at in first | second:
        assert at in marks
        assert at in read
    for partition, offset in first:
        beside = (partition, offset + 1)
        assert (beside in read) == (beside in first | second)


@pytest.mark.parametrize("text", ["", "x", "1-", "3-1", str(BLOCK), f"0-{BLOCK}", "1,,2"])
def test_what_no_replay_wrote_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"range of offsets|not in block"):
        Marks().set_block(0, 0, text)
