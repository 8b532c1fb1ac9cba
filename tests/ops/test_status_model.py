"""What the numbers of a job mean."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from ops.deploy.engine import held_reason, not_ready
from ops.status import partitions, screen
from ops.status.model import Exit, Phase, Progress, Reading, judge, watched
from ops.status.reader import complete_until, duration_ms
from udfs.core.gate import CLOSED_MS, OPENED_SHORT_MS, Target
from udfs.core.hold import Consistency
from udfs.core.marks import Marks

NOW = 1_800_000_000_000
RUNNING = Reading(
    at_ms=NOW,
    job_id="0" * 32,
    name="orders",
    state="RUNNING",
    tasks_running=True,
    attempt_ms=600_000,
    watermark_ms=NOW - 200,
    table_topic="customers",
    stream_topic="orders",
    table_offsets={0: 99, 1: 49},
    table_goals={0: Target(0, 100, 99), 1: Target(0, 51, 49)},
    stream_offsets={0: 999},
    stream_goals={0: Target(0, 1000, 999)},
    counters={"hits": 9, "misses": 0, "held_events": 5, "released_events": 5},
    decided={"HIT": 90, "NOT_FOUND": 7, "STALE_TABLE": 3, "NO_KEY": 50, "RETRIED_HIT": 4},
    last_rate_bp=9_950,
)
LOADING = replace(
    RUNNING, watermark_ms=-1, table_offsets={0: 24, 1: 49}, stream_offsets={0: -1}, counters={}
)


@pytest.mark.parametrize(
    ("change", "phase", "code"),
    [
        ({}, Phase.READY, Exit.READY),
        ({"state": ""}, Phase.ABSENT, Exit.DEAD),
        ({"state": "CREATED"}, Phase.STARTING, Exit.NOT_READY),
        ({"tasks_running": False}, Phase.STARTING, Exit.NOT_READY),
        ({"tasks_running": False, "restarts": 1}, Phase.RESTARTING, Exit.NOT_READY),
        ({"state": "RESTARTING"}, Phase.RESTARTING, Exit.NOT_READY),
        ({"state": "SUSPENDED"}, Phase.RESTARTING, Exit.NOT_READY),
        ({"watermark_ms": None}, Phase.STARTING, Exit.NOT_READY),
        # Flink's lowest watermark, before the gate said anything.
        ({"watermark_ms": -(2**63)}, Phase.LOADING, Exit.NOT_READY),
        ({"watermark_ms": OPENED_SHORT_MS}, Phase.SHORT, Exit.NOT_READY),
        ({"watermark_ms": NOW - 60_001}, Phase.STALE, Exit.NOT_READY),
        ({"watermark_ms": NOW - 60_000}, Phase.READY, Exit.READY),
        ({"stream_offsets": {0: 898}}, Phase.CATCHING_UP, Exit.NOT_READY),
        ({"stream_offsets": {0: 899}}, Phase.READY, Exit.READY),
        ({"state": "FINISHED"}, Phase.STOPPED, Exit.DEAD),
        ({"state": "CANCELED"}, Phase.STOPPED, Exit.DEAD),
        ({"state": "FAILED"}, Phase.FAILED, Exit.DEAD),
    ],
)
def test_each_phase_and_its_exit_code(change: dict[str, Any], phase: Phase, code: Exit) -> None:
    status = judge(replace(RUNNING, **change), max_lag=100)
    assert (status.phase, status.exit_code) == (phase, code)


def test_why_it_does_not_run_is_said_with_the_way_out() -> None:
    trace = "Could not restore keyed state backend\nCaused by: FileNotFoundException: /sp/84c7 (No"
    status = judge(replace(RUNNING, state="RESTARTING", failure=trace))
    assert "the state file /sp/84c7 is missing. Start from" in screen.cause(status)
    assert dict(screen.facts(status))["cause"] == screen.cause(status)
    assert screen.as_json(status)["cause"] == screen.cause(status)
    # Flink keeps no exception of a job that failed before it had tasks.
    assert "JobManager's log" in screen.cause(judge(replace(RUNNING, state="FAILED")))
    assert screen.cause(judge(RUNNING)) == ""


def test_a_long_load_is_alive_and_not_ready() -> None:
    status = judge(LOADING)
    assert status.phase is Phase.LOADING
    assert status.alive
    assert not status.ready


def test_numbers_that_may_be_of_the_attempt_before_say_nothing() -> None:
    after = replace(RUNNING, restarts=1, attempt_ms=19_000, refresh_ms=10_000)
    assert judge(after).phase is Phase.RESTARTING
    assert judge(replace(after, attempt_ms=20_000)).phase is Phase.READY
    assert judge(replace(after, restarts=0)).phase is Phase.READY


def test_a_lag_that_is_not_known_is_not_under_budget() -> None:
    unknown = replace(RUNNING, stream_offsets={0: -1})
    assert judge(unknown).phase is Phase.CATCHING_UP
    assert judge(replace(unknown, pending=7)).lag == 7
    assert judge(replace(unknown, pending=7)).phase is Phase.READY
    assert judge(replace(unknown, stream_from={0: 1000})).phase is Phase.READY
    assert judge(replace(unknown, stream_from={0: 10}), max_lag=100).lag == 990
    assert judge(replace(unknown, stream_from_end=True)).lag == 0
    # Not a partition that no task has taken yet.
    assert judge(replace(unknown, stream_from_end=True, stream_offsets={})).lag is None
    # Nothing was ever written: nothing to know.
    empty = replace(unknown, stream_goals={0: Target(0, 0, None)})
    assert judge(empty).lag == 0


def test_without_the_brokers_flinks_own_lag_has_to_do() -> None:
    blind = replace(RUNNING, stream_goals={}, table_goals={}, pending=3)
    assert (judge(blind).lag, judge(blind).phase) == (3, Phase.READY)


def test_a_source_that_asks_in_vain_for_a_minute_has_nothing_to_read() -> None:
    quiet = replace(RUNNING, stream_goals={}, stream_offsets={0: -1}, stream_silent=True)
    assert judge(quiet).phase is Phase.READY
    assert judge(replace(quiet, attempt_ms=59_999)).lag is None
    assert judge(replace(quiet, stream_silent=False)).lag is None


def test_transaction_markers_at_the_end_are_no_lag() -> None:
    marked = replace(RUNNING, stream_goals={0: Target(0, 1002, 999)})
    assert judge(marked).lag == 0


def test_held_events_count_as_lag_until_they_are_released() -> None:
    held = replace(RUNNING, counters={"held_events": 150, "released_events": 49})
    assert judge(held, max_lag=100).phase is Phase.CATCHING_UP
    assert judge(held, max_lag=101).phase is Phase.READY
    assert judge(held).lag == 0


# ------------------------------------------------------------------------------------- the table


def test_percent_counts_offsets_and_is_not_a_hundred_before_the_gate_is_open() -> None:
    status = judge(LOADING)
    assert status.percent == pytest.approx(50.0)
    all_read = replace(LOADING, table_offsets={0: 99, 1: 49})
    assert judge(all_read).percent == pytest.approx(99.9)
    assert judge(RUNNING).percent == 100.0


def test_an_open_gate_s_unread_partition_is_loaded_and_a_shut_one_s_unknown() -> None:
    warm = replace(LOADING, restored=True, table_offsets={0: -1, 1: 49})
    (zero, one) = judge(warm).table
    assert (zero.position, zero.left, zero.percent) == (None, None, None)
    assert one.percent == 100.0
    (cold, _) = judge(replace(warm, restored=False)).table
    assert (cold.position, cold.left, cold.percent) == (0, 100, 0.0)
    (opened, _) = judge(replace(warm, watermark_ms=NOW)).table
    assert (opened.left, opened.percent) == (0, 100.0)


def test_an_unfinished_transaction_and_a_moved_end_are_named() -> None:
    waiting = replace(
        LOADING, table_goals={0: Target(0, 100, None, waiting=True), 1: Target(0, 10, 9)}
    )
    zero, one = judge(waiting).table
    assert (zero.left, zero.why) == (75, "unfinished transaction")
    assert one.why == "the log ends at 10, and 50 offsets of it have been read"
    assert judge(waiting).slowest == zero


@pytest.mark.parametrize(
    ("restored", "read", "left"), [(True, -1, None), (False, 99, 0), (False, 98, 1)]
)
def test_a_partition_with_an_unfinished_transaction_is_short_however_little_is_left(
    *, restored: bool, read: int, left: int | None
) -> None:
    reading = replace(
        LOADING,
        restored=restored,
        table_offsets={0: read, 1: 49},
        table_goals={0: Target(0, 100, None, waiting=True), 1: Target(0, 51, 49)},
        table_rate=0.0,
    )
    status = judge(reading)
    assert status.phase is Phase.STALLED
    assert status.slowest == status.table[0]
    assert status.table[0].left == left
    told = f"short{f' by {left}' if left else ''} (unfinished transaction)"
    assert not_ready(status) == f"stalled, customers[0] is {told}"
    shown = "1 left (unfinished transaction)" if left else "unfinished transaction"
    assert f"slowest customers[0]: {shown}" in screen.one_line(status)
    assert ("slowest partition", f"customers[0], {shown}") in list(screen.facts(status))
    assert screen.as_json(status)["table"]["slowest_partition"] == 0
    # The table may come nearer elsewhere, or the attempt be young.
    assert judge(replace(reading, table_rate=0.1)).phase is Phase.LOADING
    assert judge(replace(reading, attempt_ms=59_999)).phase is Phase.LOADING


def test_an_open_gate_waits_for_no_transaction_and_more_left_is_slower() -> None:
    goals = {0: Target(0, 100, None, waiting=True), 1: Target(0, 51, 49)}
    both = replace(LOADING, table_offsets={0: 99, 1: 40}, table_goals=goals)
    assert judge(both).slowest == judge(both).table[1]
    assert judge(replace(both, watermark_ms=NOW, table_offsets={0: 99, 1: 49})).slowest is None
    opened = judge(replace(both, watermark_ms=OPENED_SHORT_MS, table_offsets={0: 99, 1: 49}))
    assert not_ready(opened) == "short, customers[0] is short (unfinished transaction)"


def test_a_partition_of_which_nothing_is_known_has_no_percentage() -> None:
    reading = replace(
        LOADING,
        restored=True,
        table_offsets={0: -1, 1: 49},
        table_goals={0: Target(0, 100, None, waiting=True), 1: Target(0, 51, 49)},
    )
    console = Console(width=100, record=True, file=StringIO())
    console.print(screen.page(judge(reading)))
    text = console.export_text()
    assert "0.0 %" not in text
    assert "0 left" not in text
    assert text.count("unfinished transaction") == 2


def test_partitions_share_the_rate_until_each_is_done() -> None:
    table = (
        partitions.Partition(0, 0, 100, 100, 100),
        partitions.Partition(1, 0, 300, 300, 300),
        partitions.Partition(2, 9, 9, 0, 9),
    )
    found = {p.number: p.eta_s for p in partitions.with_eta(table, 100.0)}
    # 100 each at 50 a second; then 200 more at 100 a second.
    assert found == {0: 2.0, 1: 4.0, 2: None}
    assert all(p.eta_s is None for p in partitions.with_eta(table, 0.0))


def test_what_was_watched_gives_the_rate_and_the_stall() -> None:
    progress = watched(None, 1_000, NOW)
    assert progress.rate(NOW + 1_000) is None
    progress = watched(progress, 500, NOW + 5_000)
    assert progress.rate(NOW + 5_000) == pytest.approx(100.0)
    progress = watched(progress, 500, NOW + 30_000)
    at = replace(LOADING, at_ms=NOW + 64_999)
    assert judge(at, progress=progress).phase is Phase.LOADING
    at = replace(LOADING, at_ms=NOW + 65_000)
    assert judge(at, progress=progress).phase is Phase.STALLED
    assert judge(at, progress=progress, stall_after_ms=90_000).phase is Phase.LOADING
    # More to read than before is no progress.
    more = watched(progress, 800, NOW + 40_000)
    assert (more.moved_ms, more.first_left) == (NOW + 5_000, 800)
    assert Progress(NOW, 5, 5, NOW).rate(NOW + 9_000) is None


def test_one_look_knows_a_stall_by_flinks_rate_of_the_last_minute() -> None:
    still = replace(LOADING, table_rate=0.0)
    assert judge(still).phase is Phase.STALLED
    assert judge(replace(still, attempt_ms=59_999)).phase is Phase.LOADING
    assert judge(replace(still, table_rate=0.1)).phase is Phase.LOADING


# ------------------------------------------------------------------------------------ for others


def test_held_events_never_count_below_zero() -> None:
    assert judge(RUNNING).held == 0
    more = replace(RUNNING, counters={"held_events": 1, "released_events": 9})
    assert judge(more).held == 0
    assert judge(replace(RUNNING, counters={})).held is None
    sized = {"held_events": 1, "released_events": 0, "held_bytes": 9, "released_bytes": 2}
    assert judge(replace(RUNNING, counters=sized)).held_bytes == 7


def test_events_may_be_held_unless_the_gate_is_open_and_all_are_released() -> None:
    assert held_reason(judge(RUNNING), continuous=False) == ""
    assert "continuous" in held_reason(judge(RUNNING), continuous=True)
    assert '"hold"' in held_reason(judge(RUNNING), continuous=False, for_ever=True)
    assert "loading" in held_reason(judge(LOADING), continuous=False)
    some = replace(RUNNING, counters={"held_events": 3, "released_events": 1})
    assert held_reason(judge(some), continuous=False) == "2 are being released"
    assert "not there" in held_reason(judge(replace(RUNNING, counters={})), continuous=False)


def test_events_that_wait_for_their_row_are_held_too() -> None:
    counters = {**RUNNING.counters, "parked_events": 3, "unparked_events": 1}
    waiting = judge(replace(RUNNING, counters=counters))
    assert waiting.parked == screen.as_json(waiting)["join"]["parked"] == 2
    assert held_reason(waiting, continuous=False) == ""
    assert "2 wait for their row" in held_reason(waiting, continuous=False, grace_ms=5_000)
    assert "not there" in held_reason(judge(RUNNING), continuous=False, grace_ms=5_000)
    none = replace(RUNNING, counters={**counters, "unparked_events": 3}, restored=True)
    assert held_reason(judge(none), continuous=False, grace_ms=5_000) == ""
    # What an earlier attempt had parked is in no counter until its grace is over.
    young = replace(none, attempt_ms=24_999)
    assert "earlier attempt" in held_reason(judge(young), continuous=False, grace_ms=5_000)
    assert (
        held_reason(judge(replace(young, attempt_ms=25_000)), continuous=False, grace_ms=5_000)
        == ""
    )


@pytest.mark.parametrize(
    ("decided", "told"),
    [
        ({"NOT_FOUND": 90, "DELETED": 10}, True),
        ({"NOT_FOUND": 99}, False),
        ({"NOT_FOUND": 5_000, "HIT": 1}, False),
        ({}, False),
    ],
)
def test_a_job_in_which_nothing_ever_met_a_row_is_noted(
    decided: dict[str, int], told: bool
) -> None:
    status = judge(replace(RUNNING, decided=decided, notes=("brokers: gone",)))
    assert screen.as_json(status)["notes"][0] == "brokers: gone"
    assert any("none has met a row" in note for note in screen.as_json(status)["notes"]) is told
    assert any("none has met a row" in value for _, value in screen.facts(status)) is told


def test_why_it_is_not_ready_names_the_partition_or_the_lag() -> None:
    waiting = replace(LOADING, table_goals={0: Target(0, 100, None, waiting=True)})
    assert "customers[0] is short by 75 (unfinished transaction)" in not_ready(judge(waiting))
    behind = replace(RUNNING, stream_offsets={0: 0})
    assert "lag is 999" in not_ready(judge(behind, max_lag=1))


def test_a_status_as_text_and_as_json() -> None:
    status = judge(replace(LOADING, table_rate=10.0))
    line = screen.one_line(status)
    assert line.startswith("loading, table 50.0 %, 8 s left, slowest customers[0]: 75 left")
    found = screen.as_json(judge(RUNNING))
    assert (found["phase"], found["ready"], found["join"]["hit_rate"]) == ("ready", True, 0.9)
    assert found["complete_until_ms"] == NOW - 200
    assert found["table"]["partitions"][1]["left"] == 0


def test_flinks_durations() -> None:
    assert [duration_ms(text) for text in ("500 ms", "10 s", "10s", "1 min", "1000")] == [
        500,
        10_000,
        10_000,
        60_000,
        1_000,
    ]


@pytest.mark.parametrize(
    ("consistency", "complete_ms", "phase"),
    [
        (Consistency.STARTUP, CLOSED_MS, Phase.LOADING),
        (Consistency.STARTUP, OPENED_SHORT_MS, Phase.SHORT),
        (Consistency.STARTUP, NOW - 1_000, Phase.READY),
        (Consistency.CONTINUOUS, NOW - 1_000, Phase.READY),
    ],
)
def test_the_sql_variants_marks_say_where_it_stands(
    consistency: Consistency, complete_ms: int, phase: Phase
) -> None:
    marks = Marks(consistency, 60_000)
    # Also the announcement, which is the first of them.
    for _ in range(3):
        told = complete_until(marks.after(complete_ms, NOW), NOW)
        assert judge(replace(RUNNING, watermark_ms=told)).phase == phase


def test_a_mark_of_a_table_that_fell_behind_is_stale_and_says_not_since_when() -> None:
    marks = Marks(Consistency.STARTUP, 60_000)
    marks.after(NOW - 200_000, NOW - 200_000)
    told = complete_until(marks.after(NOW - 200_000, NOW), NOW)
    status = judge(replace(RUNNING, watermark_ms=told))
    assert status.phase == Phase.STALE
    assert status.complete_until_ms is None
    assert complete_until(None, NOW) is None
