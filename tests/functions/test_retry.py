"""Misses that come round again: their wait, their attempts, and their end."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from pyflink.common import Row

from tests.functions.joins import join
from tests.functions.test_join import RULES, order, product
from tests.support.clock import START_MS, Clock
from tests.support.keyed_harness import Harness
from udfs.core.retry import MAX_DELAY_MS, RetryPlan
from udfs.records import Record, retried
from udfs.retry import RetryDelay

pytestmark = pytest.mark.usefixtures("lookup")

TIERS = replace(RULES, retry_topic="orders.retry", retries=RetryPlan((10_000, 300_000)))


def _delay(state: Any = None) -> Harness:
    harness = Harness(RetryDelay()) if state is None else state.restarted(RetryDelay())
    harness.now_ms = START_MS if state is None else state.now_ms
    return harness


def _record(key: str, offset: int, due_ms: int | None) -> Row:
    headers = None if due_ms is None else {"tablegate-due": str(due_ms).encode()}
    value = json.dumps({"product": key}).encode()
    return Row(*Record(key, b"o", value, headers, 1, 3, offset))


def _offsets(harness: Harness) -> list[int]:
    return [out[1][6] for out in harness.out]


# -------------------------------------------------------------------------------------- the wait


def test_a_record_waits_until_it_is_due_and_then_comes_once() -> None:
    harness = _delay()
    harness.event("p1", _record("p1", 7, START_MS + 5_000))
    harness.clock(START_MS + 4_999)
    assert harness.out == []
    harness.clock(START_MS + 5_000)
    (out,) = harness.out
    # As one of the retry topic: its partition 3 is told by a number below 0.
    record = Record(*out[1])
    assert (out[0], record.routed_key, record.partition, record.offset) == ("p1", "p1", -4, 7)
    harness.clock(START_MS + 60_000)
    assert len(harness.out) == 1
    assert harness.clock_timers == set()
    assert {name: keys for name, keys in harness.state.items() if keys} == {}


@pytest.mark.parametrize("due_ms", [None, 0, START_MS - 1, START_MS])
def test_one_that_is_due_does_not_wait(due_ms: int | None) -> None:
    harness = _delay()
    harness.event("p1", _record("p1", 1, due_ms))
    assert _offsets(harness) == [1]


def test_one_without_a_key_is_routed_by_where_it_stands() -> None:
    harness = _delay()
    harness.event("x", Row(*Record(None, b"o", b"{", None, 1, 3, 7)))
    ((routed, record),) = harness.out
    assert (routed, record[0]) == ("no key: -4@7", None)


def test_none_holds_up_another_of_its_key_or_of_any() -> None:
    harness = _delay()
    harness.event("p1", _record("p1", 1, START_MS + 3_600_000))
    harness.event("p1", _record("p1", 2, START_MS + 1_000))
    harness.event("p2", _record("p2", 3, START_MS + 2_000))
    harness.clock(START_MS + 1_000)
    assert _offsets(harness) == [2]
    harness.clock(START_MS + 2_000)
    assert _offsets(harness) == [2, 3]
    harness.clock(START_MS + 3_600_000)
    assert _offsets(harness) == [2, 3, 1]


def test_no_record_waits_for_longer_than_ours_may() -> None:
    harness = _delay()
    harness.event("p1", _record("p1", 1, START_MS + 10**17))
    harness.clock(START_MS + MAX_DELAY_MS)
    assert _offsets(harness) == [1]


def test_after_a_restart_each_comes_at_its_own_time_and_once() -> None:
    harness = _delay()
    random = Random(7)
    dues = {n: START_MS + random.randrange(1, 60_000) for n in range(200)}
    for offset, due_ms in dues.items():
        key = f"p{offset % 3}"
        harness.event(key, _record(key, offset, due_ms))
    harness.clock(START_MS + 20_000)
    seen = _offsets(harness)
    after = _delay(harness)
    after.clock(START_MS + 60_100)
    seen += _offsets(after)
    assert sorted(seen) == list(dues)
    # Never early, and at most a tenth of a second late.
    assert all((dues[offset] <= START_MS + 20_000) for offset in _offsets(harness))
    assert {name: keys for name, keys in after.state.items() if keys} == {}


# -------------------------------------------------------------------------------------- the join


def _again(harness: Harness, out: Row) -> None:
    """What came out on the retry topic goes in as its delay lets it through."""
    key = json.loads(out[1])["product"]
    harness.event(key, Row(*retried(Record(key, out[0], out[1], out[2], out[3], 0, 99))))


def _open() -> Harness:
    harness = Harness(join(TIERS))
    harness.advance(START_MS)
    return harness


def test_the_tiers_one_after_the_other_and_then_the_dead_letters(clock: Clock) -> None:
    harness = _open()
    order(harness, "p1", 5)
    told, counted = [], []
    while "retry" in harness.side:
        (out,) = harness.side.pop("retry")
        headers = {name: value.decode() for name, value in out[2].items()}
        told.append((headers["tablegate-attempt"], int(headers["tablegate-due"]) - clock.ms))
        clock.ms += 1_000_000
        harness.advance(clock.ms)
        counted.append(out[4])
        _again(harness, out)
    assert told == [("1", 10_000), ("2", 300_000)]
    assert counted == ["NOT_FOUND", "RETRIED_MISS"]
    (dead,) = harness.side["dead"]
    assert dead[2] == {
        "tablegate-verdict": b"NOT_FOUND",
        "tablegate-source": b"orders[0]@5",
        "tablegate-attempt": b"3",
        "tablegate-first-seen": str(START_MS).encode(),
        "tablegate-timestamp": b"1000",
        "tablegate-error": b"orders[0]@5: no row after 2 retries",
    }
    assert dead[3] == clock.ms
    assert (harness.count("misses"), harness.count("retried_misses")) == (1, 2)
    assert harness.count("given_up") == 1


def test_one_that_meets_its_row_after_a_newer_one_is_marked_as_late(clock: Clock) -> None:
    harness = _open()
    order(harness, "p1", 5, headers={"own": b"1"})
    product(harness, "p1", {"name": "mug"})
    order(harness, "p1", 6)
    (out,) = harness.side.pop("retry")
    _again(harness, out)
    newer, late = harness.out
    assert newer[2] is None
    # The event's own, and not that of its retry record.
    assert (out[3], late[3]) == (clock.ms, 1000)
    assert late[2] == {"own": b"1", "tablegate-late": b"1"}
    assert json.loads(late[1])["product_name"] == "mug"
    assert (harness.count("hits"), harness.count("retried_hits")) == (1, 1)


def test_while_the_gate_is_shut_a_retried_event_is_held_like_any_other(clock: Clock) -> None:
    harness = _open()
    order(harness, "p1", 5)
    (out,) = harness.side.pop("retry")
    after = harness.restarted(join(TIERS))
    _again(after, out)
    assert (after.out, after.side, after.held()) == ([], {}, 1)
    product(after, "p1", {"name": "mug"})
    after.advance(START_MS)
    (late,) = after.out
    assert late[2] == {"tablegate-late": b"1"}


def test_a_retried_event_has_had_its_time_and_gets_no_grace_on_top(clock: Clock) -> None:
    harness = Harness(join(replace(TIERS, miss_grace_ms=5_000)))
    harness.advance(START_MS)
    order(harness, "p1", 5)
    assert harness.side == {}
    clock.ms += 5_000
    harness.clock(clock.ms)
    (out,) = harness.side.pop("retry")
    _again(harness, out)
    (out,) = harness.side["retry"]
    assert out[2]["tablegate-attempt"] == b"2"


def test_what_cannot_be_read_is_named_by_where_it_stood_first(clock: Clock) -> None:
    harness = _open()
    foreign = Row(*Record(None, b"o", b"{", None, 1, -3, 12))
    harness.event("no key", foreign)
    (dead,) = harness.side["dead"]
    assert dead[2]["tablegate-source"] == b"orders.retry[2]@12"


def test_an_event_of_the_stream_is_tried_whatever_number_it_brings(clock: Clock) -> None:
    harness = _open()
    order(harness, "p1", 5, headers={"tablegate-attempt": b"7"})
    (out,) = harness.side.pop("retry")
    assert out[2]["tablegate-due"] == str(START_MS + 300_000).encode()
    _again(harness, out)
    (dead,) = harness.side["dead"]
    assert dead[4] == "GIVEN_UP"
