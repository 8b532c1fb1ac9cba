"""What outputs get at a miss: the retry topic, nulls with a verdict, or a wait without an end."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pyflink.common import Row

from tests.functions.joins import join
from tests.functions.test_join import RULES, names, order, product
from tests.support.clock import START_MS, Clock
from tests.support.keyed_harness import Harness
from udfs.core.gate import CLOSED_MS
from udfs.core.misses import MissPolicy
from udfs.core.retry import RetryPlan
from udfs.grace import _LOOK_MS
from udfs.records import Record, retried

pytestmark = pytest.mark.usefixtures("lookup")

GRACE_MS = 5_000
PATIENT = replace(RULES, miss_grace_ms=GRACE_MS, retries=RetryPlan((10_000,)), retry_topic="retry")
NULLS = replace(PATIENT, on_miss=MissPolicy(route=False, emit_null=True))
BOTH = replace(PATIENT, on_miss=MissPolicy(route=True, emit_null=True))
HOLD = replace(PATIENT, on_miss=MissPolicy(route=False, hold=True))
HOLD_AND_NULLS = replace(PATIENT, on_miss=MissPolicy(route=False, hold=True, emit_null=True))


def _open(rules: Any) -> Harness:
    harness = Harness(join(rules))
    harness.advance(START_MS)
    return harness


def _pass(harness: Harness, clock: Clock, ms: int) -> None:
    clock.ms += ms
    # Time for the table, too: it is not stale.
    harness.advance(max(harness.watermark, clock.ms) if harness.watermark > 0 else CLOSED_MS)
    harness.clock(clock.ms)


def _nulls(harness: Harness) -> list[tuple[int, str]]:
    found = []
    for out in harness.side.get("nulls", []):
        value = json.loads(out[1])
        assert value["product_name"] is None
        assert out[2]["tablegate-verdict"].decode() == value["tablegate_verdict"]
        found.append((value["offset"], value["tablegate_verdict"]))
    return found


def _counted(harness: Harness) -> list[str]:
    """What all records that came out count as."""
    outs = [*harness.out, *(out for side in harness.side.values() for out in side)]
    return sorted("HIT" if out[4] is None else out[4] for out in outs if out[4] != "")


def _again(harness: Harness, out: Row) -> None:
    key = json.loads(out[1])["product"]
    harness.event(key, Row(*retried(Record(key, out[0], out[1], out[2], out[3], 0, 99))))


def test_an_event_without_a_row_keeps_its_own_headers_and_bytes(clock: Clock) -> None:
    harness = _open(replace(NULLS, miss_grace_ms=0))
    order(harness, "p1", 3, headers={"trace": b"1", "tablegate-attempt": b"2"})
    (out,) = harness.side["nulls"]
    assert out[0] == b"o"
    assert out[1] == (
        b'{"product": "p1", "offset": 3,"product_name":null,"tablegate_verdict":"NOT_FOUND"}'
    )
    assert out[2] == {"trace": b"1", "tablegate-verdict": b"NOT_FOUND"}
    assert (out[3], out[4]) == (1000, "NOT_FOUND")


def test_with_nulls_alone_nothing_goes_to_the_retry_topic(clock: Clock) -> None:
    harness = _open(NULLS)
    order(harness, "p1", 0)
    assert harness.side == {}
    _pass(harness, clock, GRACE_MS)
    product(harness, "p1", {"name": "mug"})
    assert set(harness.side) == {"nulls"}
    assert (_nulls(harness), harness.out, _counted(harness)) == (
        [(0, "NOT_FOUND")],
        [],
        ["NOT_FOUND"],
    )


def test_nulls_and_a_retry_count_once_and_the_correction_follows(clock: Clock) -> None:
    harness = _open(BOTH)
    order(harness, "p1", 0)
    _pass(harness, clock, GRACE_MS)
    (out,) = harness.side["retry"]
    assert _nulls(harness) == [(0, "NOT_FOUND")]
    assert _counted(harness) == ["NOT_FOUND"]
    product(harness, "p1", {"name": "mug"})
    _again(harness, out)
    (correction,) = harness.out
    assert (correction[2], correction[4]) == (None, "RETRIED_HIT")
    assert (harness.count("hits"), harness.count("misses")) == (0, 1)


def test_one_that_misses_again_does_not_go_out_without_its_row_again(clock: Clock) -> None:
    harness = _open(BOTH)
    order(harness, "p1", 0)
    _pass(harness, clock, GRACE_MS)
    (out,) = harness.side.pop("retry")
    _again(harness, out)
    assert _nulls(harness) == [(0, "NOT_FOUND")]
    (dead,) = harness.side["dead"]
    assert dead[4] == "GIVEN_UP"


def test_a_correction_that_a_newer_event_without_its_row_overtook_is_marked(
    clock: Clock,
) -> None:
    harness = _open(BOTH)
    order(harness, "p1", 0)
    _pass(harness, clock, GRACE_MS)
    (out,) = harness.side.pop("retry")
    order(harness, "p1", 1)
    _pass(harness, clock, GRACE_MS)
    assert _nulls(harness) == [(0, "NOT_FOUND"), (1, "NOT_FOUND")]
    product(harness, "p1", {"name": "mug"})
    _again(harness, out)
    assert harness.out[0][2] == {"tablegate-late": b"1"}


def test_what_is_in_the_retry_topic_ends_there_also_when_the_policy_changed(
    clock: Clock,
) -> None:
    harness = _open(PATIENT)
    order(harness, "p1", 0)
    _pass(harness, clock, GRACE_MS)
    (out,) = harness.side["retry"]
    after = _open(NULLS)
    _again(after, out)
    (dead,) = after.side["dead"]
    assert (set(after.side), dead[4]) == ({"dead"}, "GIVEN_UP")


def test_a_row_without_an_event_large_enough_for_its_topic_is_a_dead_letter(
    clock: Clock,
) -> None:
    harness = _open(replace(NULLS, miss_grace_ms=0, max_enriched_bytes=60))
    order(harness, "p1", 0)
    assert set(harness.side) == {"dead"}
    (dead,) = harness.side["dead"]
    assert dead[2]["tablegate-verdict"] == b"BAD_RECORD"
    assert _counted(harness) == ["BAD_RECORD"]


# ---------------------------------------------------------------------------------------- holding


def test_held_events_wait_for_days_and_come_out_in_their_order(clock: Clock) -> None:
    harness = _open(HOLD)
    for offset in range(3):
        order(harness, "p1", offset)
        _pass(harness, clock, GRACE_MS)
    for _ in range(100):
        _pass(harness, clock, 3_600_000)
    assert (harness.out, harness.side, harness.parked()) == ([], {}, 3)
    product(harness, "p1", {"name": "mug"})
    assert names(harness) == [(0, "mug"), (1, "mug"), (2, "mug")]
    assert _counted(harness) == ["HIT"] * 3
    assert harness.state["parked-ends"] == harness.state["parked"] == {}
    _pass(harness, clock, 2 * _LOOK_MS)
    assert harness.clock_timers == set()


def test_an_output_beside_it_gets_each_without_its_row_once_and_later_the_hit(
    clock: Clock,
) -> None:
    harness = _open(HOLD_AND_NULLS)
    order(harness, "p1", 0)
    _pass(harness, clock, GRACE_MS)
    order(harness, "p1", 1)
    assert _nulls(harness) == [(0, "NOT_FOUND")]
    after = harness.restarted(join(HOLD_AND_NULLS))
    after.advance(clock.ms)
    _pass(after, clock, GRACE_MS)
    assert _nulls(after) == [(1, "NOT_FOUND")]
    _pass(after, clock, 3 * _LOOK_MS)
    order(after, "p1", 2)
    product(after, "p1", {"name": "mug"})
    assert _nulls(after) == [(1, "NOT_FOUND")]
    assert names(after) == [(0, "mug"), (1, "mug"), (2, "mug")]
    assert [out[4] for out in after.out] == ["RETRIED_HIT", "RETRIED_HIT", None]


def test_while_the_gate_is_shut_nothing_is_told(clock: Clock) -> None:
    harness = _open(HOLD_AND_NULLS)
    order(harness, "p1", 0)
    after = harness.restarted(join(HOLD_AND_NULLS))
    after.advance(CLOSED_MS)
    _pass(after, clock, 10 * GRACE_MS)
    product(after, "p1", {"name": "mug"})
    assert (after.out, after.side) == ([], {})
    after.advance(clock.ms)
    assert names(after) == [(0, "mug")]
    assert after.side == {}


def test_a_version_that_routes_lets_go_what_an_earlier_one_held(clock: Clock) -> None:
    harness = _open(HOLD)
    order(harness, "p1", 0)
    _pass(harness, clock, 3 * _LOOK_MS)
    after = harness.restarted(join(PATIENT))
    after.advance(clock.ms)
    _pass(after, clock, _LOOK_MS)
    (out,) = after.side["retry"]
    assert (out[2]["tablegate-source"], out[4]) == (b"orders[0]@0", "NOT_FOUND")
    assert after.parked() == 0


def test_one_that_comes_again_is_held_as_well(clock: Clock) -> None:
    harness = _open(PATIENT)
    order(harness, "p1", 0)
    _pass(harness, clock, GRACE_MS)
    (out,) = harness.side["retry"]
    after = _open(HOLD_AND_NULLS)
    _again(after, out)
    _pass(after, clock, GRACE_MS)
    # It went out without its row when it missed, or nobody wanted that then.
    assert (after.side, after.parked()) == ({}, 1)
    product(after, "p1", {"name": "mug"})
    assert names(after) == [(0, "mug")]


@pytest.mark.parametrize(
    ("rules", "topics"),
    [
        (PATIENT, {"dead"}),
        (HOLD, {"dead"}),
        (NULLS, {"nulls"}),
        (BOTH, {"dead", "nulls"}),
        (HOLD_AND_NULLS, {"dead", "nulls"}),
    ],
)
def test_an_event_without_a_key_counts_once_wherever_it_goes(
    clock: Clock, rules: Any, topics: set[str]
) -> None:
    harness = _open(rules)
    harness.event("no key: 0@0", Row(*Record(None, b"o", b'{"offset":0}', None, 1, 0, 0)))
    assert set(harness.side) == topics
    assert _counted(harness) == ["NO_KEY"]


def test_after_a_restart_a_held_event_meets_its_row_the_moment_it_comes(clock: Clock) -> None:
    harness = _open(HOLD)
    order(harness, "p1", 0)
    _pass(harness, clock, GRACE_MS)
    after = harness.restarted(join(HOLD))
    after.advance(clock.ms)
    product(after, "p2", {"name": "jar"})
    _pass(after, clock, 30_000)
    product(after, "p1", {"name": "mug"})
    order(after, "p1", 1)
    assert names(after) == [(0, "mug"), (1, "mug")]
