"""The gate's rules, over plain numbers."""

import random

from hypothesis import given
from hypothesis import strategies as st

from udfs.core.gate import CLOSED_MS, Gate, StartKind, Target

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


def test_an_unfinished_transaction_keeps_the_gate_shut() -> None:
    gate = Gate({0: WAITING})
    gate.reach(0, 8)
    assert not gate.is_open
    assert list(gate.waiting) == [0]


def test_a_record_from_the_very_end_proves_that_the_transactions_before_it_ended() -> None:
    gate = Gate({0: WAITING})
    gate.reach(0, 9)
    assert gate.is_open
    assert gate.waiting == {}


def test_the_target_found_after_the_transaction_may_have_been_reached_before() -> None:
    gate = Gate({0: WAITING})
    gate.reach(0, 6)
    gate.answer({0: Target(begin=0, end=10, last=6)})
    assert gate.is_open


def test_a_transaction_that_leaves_nothing_readable_opens_the_gate() -> None:
    gate = Gate({0: WAITING})
    gate.answer({0: Target(begin=0, end=10, last=None)})
    assert gate.is_open


def test_an_answer_about_another_end_is_no_answer() -> None:
    gate = Gate({0: WAITING})
    gate.answer({0: Target(begin=0, end=4, last=None)})
    assert not gate.is_open


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


# ---------------------------------------------------------------- the time of completeness


def test_the_table_is_complete_until_the_look_whose_targets_were_reached() -> None:
    gate = Gate({0: SHORT}, asked_ms=1_000)
    assert gate.complete_until_ms == CLOSED_MS
    gate.reach(0, 9)
    assert gate.complete_until_ms == 1_000
    gate.look(2_000, {0: 12})
    gate.look(3_000, {0: 15})
    gate.reach(0, 11)
    assert gate.complete_until_ms == 2_000
    gate.reach(0, 14)
    assert gate.complete_until_ms == 3_000


def test_a_look_that_finds_nothing_new_moves_the_time_on_at_once() -> None:
    gate = Gate({0: SHORT, 1: EMPTY}, asked_ms=1_000)
    gate.reach(0, 9)
    gate.look(2_000, {0: 10, 1: 57})
    assert gate.complete_until_ms == 2_000


def test_a_look_behind_a_target_that_nobody_knows_waits_for_the_answer() -> None:
    gate = Gate({0: SHORT}, asked_ms=1_000)
    gate.reach(0, 9)
    # Two offsets more, of which the last is a commit marker.
    gate.look(2_000, {0: 12})
    gate.reach(0, 10)
    assert gate.complete_until_ms == 1_000
    assert gate.waiting == {0: Target(0, 12, None, waiting=True)}
    gate.answer({0: Target(0, 12, 10)})
    assert gate.complete_until_ms == 2_000


def test_a_later_look_that_is_met_includes_the_earlier_ones() -> None:
    gate = Gate({0: SHORT}, asked_ms=1_000)
    gate.reach(0, 9)
    gate.look(2_000, {0: 12})
    gate.look(3_000, {0: 14})
    gate.reach(0, 13)
    assert gate.complete_until_ms == 3_000
    assert gate.missing() == {}


def test_a_new_partition_is_part_of_the_looks_that_see_it() -> None:
    gate = Gate({0: SHORT}, asked_ms=1_000)
    gate.reach(0, 9)
    gate.look(2_000, {0: 10, 1: 3})
    assert gate.complete_until_ms == 1_000
    assert gate.missing() == {1: 3}
    gate.reach(1, 2)
    assert gate.complete_until_ms == 2_000


def test_nobody_looks_again_before_the_gate_is_open_or_while_many_looks_wait() -> None:
    gate = Gate({0: SHORT}, asked_ms=1_000)

    def looks() -> int:
        n = 0
        while gate.wants_look and n < 20:
            n += 1
            gate.look(1_000 + n, {0: 100 + n})
        return n

    assert looks() == 0
    gate.reach(0, 9)
    assert looks() == 8
    gate.reach(0, 100)
    assert gate.complete_until_ms == 1_001


@given(st.data())
def test_the_time_never_runs_ahead_of_the_rows(data: st.DataObject) -> None:
    """Rows are written, looked at and applied in any interleaving."""
    random = data.draw(st.randoms(use_true_random=False))
    written = [0, 0]
    applied = [0, 0]
    gate = Gate({0: Target(0, 0, None), 1: Target(0, 0, None)}, asked_ms=0)
    # What was written before each look.
    at_look = {0: (0, 0)}
    for at in range(1, 60):
        p = random.randrange(2)
        step = random.choice(["write", "write", "apply", "apply", "look"])
        if step == "write":
            written[p] += 1
        elif step == "apply" and applied[p] < written[p]:
            applied[p] += 1
            gate.reach(p, applied[p] - 1)
        elif step == "look" and gate.wants_look:
            at_look[at] = (written[0], written[1])
            gate.look(at, {0: written[0], 1: written[1]})
        seen = at_look[gate.complete_until_ms]
        assert applied[0] >= seen[0]
        assert applied[1] >= seen[1]
    for p in (0, 1):
        gate.reach(p, written[p] - 1 if written[p] else None)
    assert gate.complete_until_ms == max(at_look)


# ------------------------------------------------------------------------ what kind of start


def test_a_start_without_progress_is_cold_and_reads_the_whole_table() -> None:
    gate = Gate({0: SHORT, 1: EMPTY}, announced=(0, 1))
    gate.reach(0, None)
    gate.reach(1, None)
    assert gate.started(warm=()) == (StartKind.COLD, 10)


def test_a_warm_start_reads_what_was_written_since_and_nothing_more() -> None:
    gate = Gate({0: SHORT, 1: EMPTY}, announced=(0, 1))
    gate.reach(0, 6)
    gate.reach(1, 56)
    gate.reach(0, 9)
    assert gate.started(warm=(0, 1)) == (StartKind.WARM_DELTA, 3)


def test_a_warm_start_on_a_quiet_table_has_nothing_to_read() -> None:
    gate = Gate({0: SHORT}, announced=(0,))
    gate.reach(0, 9)
    assert gate.started(warm=(0,)) == (StartKind.WARM_QUIET, 0)
