"""The hit rate as a Flink function: windows that are told once, and totals that a restart keeps."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pyflink.common import Row

from tests.support.keyed_harness import Harness
from udfs.hit_rate import HitRate

START_MS = 1_700_000_000_000
WINDOW_MS = 10_000


def _new(before: Harness | None = None) -> Harness:
    function = HitRate("orders-enrich", WINDOW_MS)
    if before is None:
        harness = Harness(function)
        harness.now_ms = START_MS
        return harness
    harness = before.restarted(function)
    harness.now_ms = before.now_ms
    return harness


def _second(harness: Harness, at_ms: int, **counts: int) -> None:
    """The counts of the second that ended at ``at_ms`` come in, a moment later."""
    harness.clock(START_MS + at_ms + 3)
    for what, count in counts.items():
        harness.event("all", Row(what, count))


def _told(harness: Harness) -> list[tuple[int, dict[str, int]]]:
    found = []
    for out in harness.out:
        value = json.loads(out[1])
        assert out[0].decode() == f"orders-enrich/{value['window_start_ms']}"
        assert (out[2], out[3], out[4]) == (None, value["window_end_ms"], "")
        counts = {what: count for what, count in value["counts"].items() if count}
        found.append((value["window_start_ms"] - START_MS, counts))
    return found


def _shown(harness: Harness) -> Callable[[str], int]:
    return lambda what: harness.count(f"verdict.{what}.decided")


def test_a_window_is_told_once_when_it_is_over_with_its_last_second() -> None:
    harness = _new()
    _second(harness, 1_000, HIT=5, NOT_FOUND=1)
    _second(harness, 10_000, HIT=2)
    assert _told(harness) == []
    _second(harness, 11_000, HIT=7)
    assert _told(harness) == [(0, {"HIT": 7, "NOT_FOUND": 1})]
    harness.clock(START_MS + 20_500)
    assert _told(harness) == [(0, {"HIT": 7, "NOT_FOUND": 1}), (10_000, {"HIT": 7})]


def test_a_window_in_which_nothing_was_decided_is_told_as_well() -> None:
    harness = _new()
    _second(harness, 1_000, HIT=5)
    for at_ms in range(0, 41_000, 500):
        harness.clock(START_MS + at_ms)
    assert _told(harness) == [(0, {"HIT": 5}), (10_000, {}), (20_000, {}), (30_000, {})]
    assert len(harness.clock_timers) == 1


def test_before_the_first_event_nothing_is_told() -> None:
    harness = _new()
    harness.clock(START_MS + 100_000)
    assert (harness.out, harness.clock_timers) == ([], set())


def test_totals_are_shown_at_once_and_the_rate_when_a_window_is_over() -> None:
    harness = _new()
    assert harness.count("hit_rate_bp") == -1
    _second(harness, 1_000, HIT=3, DELETED=1)
    assert (_shown(harness)("HIT"), _shown(harness)("DELETED")) == (3, 1)
    assert harness.count("hit_rate_bp") == -1
    _second(harness, 12_000, NO_KEY=1)
    assert harness.count("hit_rate_bp") == 7_500
    # A window without hits and misses says nothing about the rate.
    _second(harness, 25_000, HIT=1)
    assert harness.count("hit_rate_bp") == 7_500
    harness.clock(START_MS + 40_000)
    assert harness.count("hit_rate_bp") == 10_000


def test_after_a_restart_of_a_quiet_job_the_counts_are_shown_without_an_event() -> None:
    harness = _new()
    _second(harness, 1_000, HIT=3, DELETED=1)
    # In the middle of a window.
    harness.clock(START_MS + 94_000)
    after = _new(harness)
    assert (_shown(after)("HIT"), after.count("hit_rate_bp")) == (0, -1)
    after.clock(START_MS + 95_001)
    assert (_shown(after)("HIT"), _shown(after)("DELETED")) == (3, 1)
    assert after.count("hit_rate_bp") == 7_500


@pytest.mark.parametrize("checkpoint_ms", [2_000, 9_000, 11_000, 19_000])
@pytest.mark.parametrize("away_ms", [0, 7_000, 100_000])
def test_what_an_attempt_counted_after_its_last_checkpoint_is_told_once_in_the_end(
    checkpoint_ms: int, away_ms: int
) -> None:
    harness = _new()
    _second(harness, 1_000, HIT=60)
    harness.clock(START_MS + checkpoint_ms)
    checkpoint = _new(harness)
    # In this window and in the next ones, told before the failure.
    for at_ms in (20_000, 25_000, 35_000):
        _second(harness, at_ms, HIT=40)
    harness.clock(START_MS + 45_000)
    windows = dict(_told(harness))
    assert sum(counts.get("HIT", 0) for counts in windows.values()) == 180
    # The next attempt tells them again without, and reads the events once more.
    checkpoint.clock(START_MS + 45_000 + away_ms)
    _second(checkpoint, 46_000 + away_ms, HIT=120)
    checkpoint.clock(START_MS + 80_000 + away_ms)
    windows |= dict(_told(checkpoint))
    assert sum(counts.get("HIT", 0) for counts in windows.values()) == 180
    assert _shown(checkpoint)("HIT") == 180


def test_a_clock_that_goes_back_changes_no_window_that_was_told() -> None:
    harness = _new()
    _second(harness, 1_000, HIT=5)
    harness.clock(START_MS + 15_000)
    behind = _new(harness)
    behind.now_ms = START_MS
    _second(behind, 9_000, HIT=1)
    behind.clock(START_MS + 21_000)
    assert _told(behind) == [(10_000, {"HIT": 1})]


def test_after_a_very_long_time_the_windows_next_to_the_failure_are_told_and_those_that_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("udfs.hit_rate._MOST_AT_ONCE", 5)
    harness = _new()
    _second(harness, 1_000, HIT=5)
    after = _new(harness)
    after.now_ms = START_MS + 1_000_000
    after.event("all", Row("HIT", 1))
    after.clock(START_MS + 1_021_000)
    told = _told(after)
    assert told[0] == (0, {"HIT": 5})
    assert told[1:5] == [(10_000, {}), (20_000, {}), (30_000, {}), (40_000, {})]
    assert told[5:] == [(990_000, {"HIT": 1})]
    assert len(after.clock_timers) == 1


@pytest.mark.parametrize("window_ms", [1_000, 4_000, 7_000, 60_000])
def test_windows_may_have_another_length_after_a_restart(window_ms: int) -> None:
    harness = _new()
    for at_ms in range(1_000, 26_000, 1_000):
        _second(harness, at_ms, HIT=1, DELETED=1)
    windows = {out[0]: json.loads(out[1])["counts"]["HIT"] for out in harness.out}
    assert list(windows.values()) == [10, 10]
    after = harness.restarted(HitRate("orders-enrich", window_ms))
    after.now_ms = START_MS + 25_500
    for at_ms in range(26_000, 40_000, 1_000):
        _second(after, at_ms, HIT=1)
    after.clock(START_MS + 200_000)
    for out in after.out:
        value = json.loads(out[1])
        assert value["window_end_ms"] - value["window_start_ms"] == window_ms
        assert value["window_start_ms"] >= START_MS + 20_000
        assert out[0] not in windows
        windows[out[0]] = value["counts"]["HIT"]
    assert sum(windows.values()) == 39
