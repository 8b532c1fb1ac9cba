"""The gate of a session's query: it opens on what it saw from the beginning, on nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.core.cold_start import ColdStart
from udfs.core.errors import TargetError
from udfs.core.gate import Target


def test_it_opens_with_the_last_target_and_stays_open() -> None:
    gate = ColdStart("products", {0: Target(0, 3, 2), 1: Target(0, 1, 0)}, {0: 0, 1: 0})
    assert [gate.take(*place) for place in [(0, 0), (1, 0), (0, 1), (0, 2), (0, 3)]] == [
        False,
        False,
        False,
        True,
        True,
    ]


def test_the_target_is_the_last_record_that_can_be_read_and_not_the_log_end() -> None:
    # Two offsets of an aborted transaction and its marker stand behind the record.
    assert ColdStart("products", {0: Target(0, 5, 1)}, {0: 1}).take(0, 1)


def test_a_record_behind_its_target_is_enough() -> None:
    # Compaction took the record itself away; a newer one of its key stands further on.
    assert ColdStart("products", {0: Target(0, 3, 2)}, {0: 0}).take(0, 0) is False
    gate = ColdStart("products", {0: Target(0, 3, 2)}, {0: 0})
    gate.take(0, 0)
    assert gate.take(0, 7)


def test_partitions_without_anything_to_read_are_not_waited_for() -> None:
    assert ColdStart("products", {0: Target(0, 1, 0), 1: Target(4, 4, None)}, {0: 0}).take(0, 0)


@pytest.mark.parametrize("targets", [{}, {0: Target(0, 0, None)}, {0: Target(0, 9, None)}])
def test_a_topic_with_nothing_to_read_is_refused(targets: dict[int, Target]) -> None:
    with pytest.raises(TargetError, match=r"products holds nothing .* would never open"):
        ColdStart("products", targets, {})


def test_a_start_further_on_is_refused_with_the_place() -> None:
    gate = ColdStart("products", {0: Target(0, 9, 8), 1: Target(0, 9, 8)}, {0: 0, 1: 3})
    gate.take(0, 0)
    # The first record of this partition that can be read: what stood before was compacted away.
    gate.take(1, 3)
    with pytest.raises(TargetError, match=r"products\[1\]@5, but the topic can be read from offs"):
        ColdStart("products", {1: Target(0, 9, 8)}, {1: 3}).take(1, 5)


def test_a_start_behind_the_target_is_refused_too() -> None:
    with pytest.raises(TargetError, match=r"products\[0\]@9"):
        ColdStart("products", {0: Target(0, 9, 8)}, {0: 0}).take(0, 9)


def test_a_partition_that_was_added_later_is_not_waited_for() -> None:
    gate = ColdStart("products", {0: Target(0, 1, 0)}, {0: 0})
    assert not gate.take(7, 12)
    assert gate.take(0, 0)


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any),
    st.randoms(use_true_random=False),
)
def test_it_opens_exactly_when_the_last_target_was_read(counts: list[int], order: object) -> None:
    """In whatever way the partitions are interleaved."""
    targets = {p: Target(0, n, n - 1 if n else None) for p, n in enumerate(counts)}
    left = {p: list(range(n)) for p, n in enumerate(counts) if n}
    gate = ColdStart("products", targets, dict.fromkeys(left, 0))
    while left:
        p = order.choice(sorted(left))  # type: ignore[attr-defined]
        opened = gate.take(p, left[p].pop(0))
        if not left[p]:
            del left[p]
        assert opened == (not left)
