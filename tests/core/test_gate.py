"""The gate's rules, over plain numbers."""

import random

from hypothesis import given
from hypothesis import strategies as st

from udfs.core.gate import Gate, Target

SHORT = Target(begin=0, end=10, last=9)
EMPTY = Target(begin=57, end=57, last=None)
WAITING = Target(begin=0, end=10, last=None, waiting=True)


def test_a_wholly_empty_table_is_loaded_at_once() -> None:
    assert Gate({0: EMPTY, 1: Target(0, 0, None)}).is_open


def test_only_partitions_with_something_to_read_are_waited_for() -> None:
    gate = Gate({0: EMPTY, 1: SHORT})
    assert not gate.is_open
    gate.reach(1, 9)
    assert gate.is_open


def test_one_offset_short_is_shut() -> None:
    gate = Gate({0: SHORT})
    gate.reach(0, 8)
    assert not gate.is_open
    assert gate.missing() == {0: 1}


def test_a_target_before_the_log_end_is_enough() -> None:
    # Offsets 8 and 9 are a commit marker and a compacted hole: no record of them ever comes.
    gate = Gate({0: Target(begin=0, end=10, last=7)})
    gate.reach(0, 7)
    assert gate.is_open


def test_progress_never_goes_back() -> None:
    gate = Gate({0: SHORT})
    gate.reach(0, 9)
    gate.reach(0, 3)
    assert gate.is_open
    assert gate.reached(0) == 9


def test_an_unfinished_transaction_keeps_the_gate_shut_whatever_is_reached() -> None:
    gate = Gate({0: WAITING})
    gate.reach(0, 25)
    assert not gate.is_open
    assert gate.waiting == (0,)


def test_the_target_found_after_the_transaction_may_have_been_reached_before() -> None:
    gate = Gate({0: WAITING})
    gate.reach(0, 6)
    gate.resolve(0, Target(begin=0, end=10, last=6))
    assert gate.is_open


def test_a_transaction_that_leaves_nothing_readable_opens_the_gate() -> None:
    gate = Gate({0: WAITING})
    gate.resolve(0, Target(begin=0, end=10, last=None))
    assert gate.is_open


def test_a_partition_added_after_the_start_is_no_part_of_the_promise() -> None:
    gate = Gate({0: SHORT})
    gate.reach(1, 0)
    gate.reach(0, 9)
    assert gate.is_open


def test_progress_at_or_past_the_end_of_the_start_is_noticed() -> None:
    gate = Gate({0: SHORT})
    gate.reach(0, 9)
    assert not gate.overtaken(0)
    gate.reach(0, 10)
    assert gate.overtaken(0)


def test_ten_thousand_basis_points_mean_open() -> None:
    gate = Gate({0: Target(begin=0, end=100_000, last=99_999)})
    gate.reach(0, 99_998)
    assert gate.loaded_basis_points() == 9_999
    gate.reach(0, 99_999)
    assert gate.loaded_basis_points() == 10_000


@st.composite
def _logs(draw: st.DrawFn) -> dict[int, tuple[Target, list[int]]]:
    """Partitions as (target, offsets of the readable records, beyond the end included)."""
    logs = {}
    for partition in range(draw(st.integers(1, 4))):
        offsets = sorted(draw(st.sets(st.integers(0, 30), max_size=8)))
        end = draw(st.integers(0, 31))
        last = max((o for o in offsets if o < end), default=None)
        logs[partition] = (Target(0, end, last), offsets)
    return logs


@given(_logs(), st.randoms())
def test_it_opens_exactly_with_the_last_readable_record_below_the_ends(
    logs: dict[int, tuple[Target, list[int]]], random: random.Random
) -> None:
    # Deliveries in any interleaving, each partition in its own order.
    queue = [p for p, (_, offsets) in logs.items() for _ in offsets]
    random.shuffle(queue)
    left = {p: iter(offsets) for p, (_, offsets) in logs.items()}
    gate = Gate({p: target for p, (target, _) in logs.items()})
    delivered: dict[int, int] = {}
    for partition in [None, *queue]:
        if partition is not None:
            delivered[partition] = next(left[partition])
            gate.reach(partition, delivered[partition])
        complete = all(
            t.last is None or delivered.get(p, -1) >= t.last for p, (t, _) in logs.items()
        )
        assert gate.is_open == complete
        assert (gate.loaded_basis_points() == 10_000) == complete
