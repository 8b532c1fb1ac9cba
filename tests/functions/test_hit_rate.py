"""The hit rate as a Flink function: windows that are told once, and totals that a restart keeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyflink.common import Row

from tests.support.keyed_harness import Harness
from udfs.hit_rate import _KEPT, HitRate

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
    _second(harness, 11_000, HIT=7)
    assert _told(harness) == [(0, {"HIT": 7, "NOT_FOUND": 1})]
    harness.clock(START_MS + 60_000)
    assert _told(harness) == [(0, {"HIT": 7, "NOT_FOUND": 1}), (10_000, {"HIT": 7})]


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
    harness.clock(START_MS + 100_000)
    after = _new(harness)
    assert _shown(after)("HIT") == 0
    after.clock(START_MS + 111_000)
    assert (_shown(after)("HIT"), _shown(after)("DELETED")) == (3, 1)
    assert after.count("hit_rate_bp") == 7_500
    assert after.out == []


def test_what_an_attempt_counted_after_its_last_checkpoint_is_counted_again_and_once() -> None:
    harness = _new()
    _second(harness, 1_000, HIT=60)
    checkpoint = _new(harness)
    _second(harness, 2_000, HIT=40)
    harness.clock(START_MS + 20_000)
    windows = dict(_told(harness))
    assert windows == {0: {"HIT": 100}}
    # The next attempt tells the window again, without them, and reads them once more.
    checkpoint.now_ms = START_MS + 30_000
    _second(checkpoint, 31_000, HIT=40)
    checkpoint.clock(START_MS + 50_000)
    windows |= dict(_told(checkpoint))
    assert windows == {0: {"HIT": 60}, 30_000: {"HIT": 40}}
    assert _shown(checkpoint)("HIT") == 100


def test_a_clock_that_goes_back_adds_to_a_window_that_was_told() -> None:
    harness = _new()
    _second(harness, 1_000, HIT=5)
    harness.clock(START_MS + 15_000)
    behind = _new(harness)
    behind.now_ms = START_MS
    _second(behind, 9_000, HIT=1)
    behind.clock(START_MS + 20_000)
    assert _told(behind) == [(0, {"HIT": 6})]


def test_old_windows_are_forgotten() -> None:
    harness = _new()
    for number in range(2 * _KEPT):
        _second(harness, number * WINDOW_MS + 1_000, HIT=1)
    harness.clock(START_MS + 3 * _KEPT * WINDOW_MS)
    (windows,) = harness.state["hit-rate-windows"].values()
    assert len(_map(windows)) == _KEPT
    assert len(harness.out) == 2 * _KEPT


def _map(pickled: bytes) -> Any:
    import pickle  # noqa: PLC0415

    return pickle.loads(pickled)  # noqa: S301
