"""The grace of a miss: parked until its row comes or its time is over, and then decided once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.functions.joins import join, rows_name
from tests.functions.test_join import RULES, names, order, product
from tests.support.clock import START_MS, Clock
from tests.support.keyed_harness import Harness
from udfs.core.gate import CLOSED_MS, OPENED_SHORT_MS
from udfs.core.hold import Consistency
from udfs.grace import _LOOK_MS, Grace
from udfs.join_rules import Lookup

pytestmark = pytest.mark.usefixtures("lookup")

GRACE_MS = 5_000
PATIENT = replace(RULES, miss_grace_ms=GRACE_MS)


def _pass(harness: Harness, clock: Clock, ms: int) -> None:
    clock.ms += ms
    harness.clock(clock.ms)


def _open(rules: Any = PATIENT, watermark: int = START_MS) -> Harness:
    harness = Harness(join(rules))
    harness.advance(watermark)
    return harness


def _verdicts(harness: Harness) -> list[tuple[int, str]]:
    return [
        (json.loads(out[1])["offset"], out[2]["tablegate-verdict"].decode())
        for out in harness.side.get("retry", [])
    ]


def test_a_miss_is_a_hit_the_moment_its_row_comes(clock: Clock) -> None:
    harness = _open()
    order(harness, "p1", 0)
    _pass(harness, clock, GRACE_MS - 1)
    assert (harness.out, harness.side) == ([], {})
    assert harness.count("misses") == harness.count("hits") == 0
    product(harness, "p1", {"name": "mug"})
    assert names(harness) == [(0, "mug")]
    _pass(harness, clock, 3 * GRACE_MS)
    assert names(harness) == [(0, "mug")]
    assert harness.side == {}
    assert (harness.count("hits"), harness.count("late_hits")) == (1, 1)


def test_when_the_grace_is_over_it_gets_its_verdict_and_its_first_time(clock: Clock) -> None:
    harness = _open()
    order(harness, "p1", 0)
    product(harness, "p2", {"name": "cup"})
    product(harness, "p2", None)
    order(harness, "p2", 1)
    _pass(harness, clock, GRACE_MS)
    assert sorted(_verdicts(harness)) == [(0, "NOT_FOUND"), (1, "DELETED")]
    assert {o[2]["tablegate-first-seen"] for o in harness.side["retry"]} == {str(START_MS).encode()}
    assert harness.count("misses") == 2
    assert harness.count("parked_events") == harness.count("unparked_events") == 2


def test_an_empty_join_key_is_a_key_like_any_other(clock: Clock) -> None:
    harness = _open()
    order(harness, "", 0)
    _pass(harness, clock, GRACE_MS)
    assert _verdicts(harness) == [(0, "NOT_FOUND")]
    assert harness.count("unparked_events") == 1


def test_a_deletion_is_no_row_to_wait_for(clock: Clock) -> None:
    harness = _open()
    order(harness, "p1", 0)
    product(harness, "p1", None)
    assert harness.parked() == 1
    _pass(harness, clock, GRACE_MS)
    assert _verdicts(harness) == [(0, "DELETED")]


def test_each_waits_for_its_own_time_and_none_waits_for_another(clock: Clock) -> None:
    harness = _open()
    order(harness, "p1", 0)
    _pass(harness, clock, 3_000)
    order(harness, "p1", 1)
    order(harness, "p2", 2)
    _pass(harness, clock, 2_000)
    assert _verdicts(harness) == [(0, "NOT_FOUND")]
    _pass(harness, clock, 2_999)
    assert len(_verdicts(harness)) == 1
    _pass(harness, clock, 1)
    assert sorted(_verdicts(harness)) == [(0, "NOT_FOUND"), (1, "NOT_FOUND"), (2, "NOT_FOUND")]


def test_events_of_a_key_come_out_in_their_order_and_nothing_stays(clock: Clock) -> None:
    harness = _open()
    for offset in range(50):
        order(harness, "p1", offset)
        clock.ms += 1
    product(harness, "p1", {"name": "mug"})
    order(harness, "p1", 50)
    assert [offset for offset, _ in names(harness)] == list(range(51))
    _pass(harness, clock, 2 * _LOOK_MS)
    assert harness.clock_timers == set()
    left = {name: keys for name, keys in harness.state.items() if keys and name != rows_name()}
    assert left == {}


def test_held_events_are_parked_when_they_find_no_row(clock: Clock) -> None:
    harness = Harness(join(PATIENT))
    order(harness, "p1", 0)
    clock.ms += 60_000
    harness.advance(START_MS)
    assert (harness.held(), harness.parked()) == (0, 1)
    _pass(harness, clock, GRACE_MS)
    assert _verdicts(harness) == [(0, "NOT_FOUND")]
    assert harness.side["retry"][0][2]["tablegate-first-seen"] == str(START_MS).encode()


# ------------------------------------------------------------------------------------- restarts


def test_while_the_gate_is_shut_no_parked_event_is_decided(clock: Clock) -> None:
    harness = _open()
    for offset, key in enumerate(("p1", "p2", "p3")):
        order(harness, key, offset)
    after = harness.restarted(join(PATIENT))
    after.advance(CLOSED_MS)
    # Not the newest row, perhaps: the table is being read again.
    product(after, "p1", {"name": "old"})
    _pass(after, clock, GRACE_MS)
    product(after, "p1", {"name": "new"})
    product(after, "p2", {"name": "cup"})
    _pass(after, clock, 60_000)
    assert (after.out, after.side, after.parked()) == ([], {}, 3)
    after.advance(OPENED_SHORT_MS + 1)
    assert sorted(names(after)) == [(0, "new"), (1, "cup")]
    assert _verdicts(after) == [(2, "STALE_TABLE")] or _verdicts(after) == [(2, "NOT_FOUND")]
    assert after.parked() == 0


def test_parked_events_go_before_those_that_are_held_behind_them(clock: Clock) -> None:
    harness = _open()
    order(harness, "p1", 0)
    after = harness.restarted(join(PATIENT))
    after.advance(CLOSED_MS)
    order(after, "p1", 1)
    product(after, "p1", {"name": "mug"})
    after.advance(START_MS)
    order(after, "p1", 2)
    assert names(after) == [(0, "mug"), (1, "mug"), (2, "mug")]


def test_the_counters_speak_of_this_attempts_events_only(clock: Clock) -> None:
    harness = _open()
    order(harness, "p1", 0)
    clock.ms += 1_000
    after = harness.restarted(join(PATIENT))
    after.advance(START_MS)
    order(after, "p2", 1)
    _pass(after, clock, GRACE_MS - 1_000)
    assert _verdicts(after) == [(0, "NOT_FOUND")]
    assert (after.count("parked_events"), after.count("unparked_events")) == (1, 0)
    _pass(after, clock, 1_000)
    assert (after.count("parked_events"), after.count("unparked_events")) == (1, 1)


def test_a_version_without_grace_decides_what_one_with_it_had_parked(clock: Clock) -> None:
    harness = _open()
    order(harness, "p1", 0)
    order(harness, "p2", 1)
    after = harness.restarted(join(RULES))
    after.advance(CLOSED_MS)
    _pass(after, clock, GRACE_MS)
    # Their timers are no watermark: the gate stays shut.
    order(after, "p1", 2)
    assert (after.out, after.side, after.held()) == ([], {}, 1)
    product(after, "p1", {"name": "mug"})
    after.advance(START_MS)
    assert names(after) == [(0, "mug"), (2, "mug")]
    assert [offset for offset, _ in _verdicts(after)] == [1]
    order(after, "p2", 3)
    assert [offset for offset, _ in _verdicts(after)] == [1, 3]


def test_a_restored_event_meets_its_row_at_once_also_after_another_ones_time(clock: Clock) -> None:
    harness = _open()
    order(harness, "p1", 0)
    clock.ms += 3_000
    order(harness, "p2", 1)
    after = harness.restarted(join(PATIENT))
    after.advance(START_MS)
    _pass(after, clock, 2_000)
    assert _verdicts(after) == [(0, "NOT_FOUND")]
    product(after, "p2", {"name": "cup"})
    assert names(after) == [(1, "cup")]


# Of a broadcast table's, which knows them from the start, speaks the test below.
@pytest.mark.parametrize("lookup", [Lookup.KEYED], indirect=True)
def test_rows_ask_the_state_for_parked_events_only_until_the_restored_ones_are_known(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = _open()
    order(harness, "p1", 0)
    after = harness.restarted(join(PATIENT))
    grace: Grace = after.function._grace
    asked: list[Any] = []
    of_the_state = grace.any_parked

    def any_parked() -> bool:
        asked.append(after.key)
        return of_the_state()

    monkeypatch.setattr(grace, "any_parked", any_parked)

    def may_have(key: str) -> bool:
        after.key = key
        return grace.may_have(key, after)

    assert (may_have("p9"), may_have("p1"), asked) == (False, True, ["p9", "p1"])
    _pass(after, clock, _LOOK_MS + 1)
    asked.clear()
    # The gate is shut, so it is parked still, and known now.
    assert (may_have("p9"), may_have("p1"), asked) == (False, True, [])


@pytest.mark.parametrize("lookup", [Lookup.BROADCAST], indirect=True)
def test_where_the_state_tells_its_keys_restored_events_are_known_at_once(clock: Clock) -> None:
    harness = _open()
    order(harness, "p1", 0)
    after = harness.restarted(join(PATIENT))
    grace: Grace = after.function._grace
    assert (grace.may_have("p9", after), grace.may_have("p1", after)) == (False, True)
    assert {timestamp for timestamp, _ in after.clock_timers} == {START_MS + GRACE_MS}


def test_events_that_wait_without_an_end_are_looked_at_key_by_key(clock: Clock) -> None:
    looks = {key: Grace.next_look_ms(key, clock.ms) for key in map(str, range(1_000))}
    assert len(set(looks.values())) > 990
    assert all(clock.ms < look_ms <= clock.ms + _LOOK_MS for look_ms in looks.values())
    # Until then it is the same moment, and then another one.
    assert Grace.next_look_ms("7", looks["7"] - 1) == looks["7"]
    assert Grace.next_look_ms("7", looks["7"]) == looks["7"] + _LOOK_MS


# ----------------------------------------------------------------------------------- continuous


def test_in_continuous_mode_the_row_need_not_be_older_than_the_event(clock: Clock) -> None:
    rules = replace(PATIENT, consistency=Consistency.CONTINUOUS)
    harness = Harness(join(rules))
    harness.advance(START_MS - 1)
    order(harness, "p1", 0)
    assert harness.held() == 1
    harness.advance(START_MS)
    assert harness.parked() == 1
    product(harness, "p1", {"name": "mug"})
    assert names(harness) == [(0, "mug")]


# ------------------------------------------------------------------------------------- all of it

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("event"), st.integers(0, 2)),
        st.tuples(st.just("row"), st.integers(0, 2)),
        st.tuples(st.just("delete"), st.integers(0, 2)),
        st.tuples(st.just("pass"), st.integers(1, 7_000)),
        st.tuples(st.just("restart"), st.booleans()),
        st.tuples(st.just("open"), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(steps=_STEPS)
def test_whatever_happens_each_event_is_decided_once_and_the_hits_of_a_key_in_order(
    steps: list[Any],
) -> None:
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("udfs.clock.now_ms", clock)
        harness = _open()
        decided: list[int] = []
        hits: dict[str, list[int]] = {}
        sent = 0

        def collect() -> None:
            for hit in map(_value, harness.out):
                hits.setdefault(hit["product"], []).append(hit["offset"])
            both = [*harness.out, *harness.side.pop("retry", [])]
            decided.extend(_value(out)["offset"] for out in both)
            harness.out.clear()

        for what, argument in [*steps, ("open", 0), ("pass", 20_000)]:
            if what == "event":
                order(harness, f"p{argument}", sent)
                sent += 1
            elif what in {"row", "delete"}:
                product(harness, f"p{argument}", {"name": "x"} if what == "row" else None)
            elif what == "pass":
                _pass(harness, clock, argument)
            elif what == "restart":
                harness = harness.restarted(join(PATIENT if argument else RULES))
                harness.advance(CLOSED_MS)
            else:
                harness.advance(START_MS)
            collect()
        assert sorted(decided) == list(range(sent))
        assert all(offsets == sorted(offsets) for offsets in hits.values())
        assert harness.parked() == harness.held() == 0
        assert harness.side == {}


def _value(out: Any) -> Any:
    return json.loads(out[1])


def test_two_failures_while_the_table_loads_leave_no_event_behind(clock: Clock) -> None:
    harness = _open()
    order(harness, "p1", 0)
    for _ in range(2):
        harness = harness.restarted(join(PATIENT))
        harness.advance(CLOSED_MS)
        # Rows of other keys come, and its grace ends, but the gate does not open.
        product(harness, "p9", {"name": "jar"})
        _pass(harness, clock, 3 * GRACE_MS)
        assert (harness.out, harness.side) == ([], {})
    order(harness, "p1", 1)
    harness.advance(clock.ms)
    assert _verdicts(harness) == [(0, "NOT_FOUND")]
    _pass(harness, clock, GRACE_MS)
    assert _verdicts(harness) == [(0, "NOT_FOUND"), (1, "NOT_FOUND")]
    assert harness.parked() == harness.held() == 0


@pytest.mark.parametrize("grace_ms", [0, 1_000, 600_000])
def test_with_another_grace_a_restored_event_meets_its_row_the_moment_it_comes(
    clock: Clock, grace_ms: int
) -> None:
    harness = _open(replace(RULES, miss_grace_ms=600_000))
    order(harness, "p1", 0)
    after = harness.restarted(join(replace(RULES, miss_grace_ms=grace_ms)))
    after.advance(START_MS)
    # From now on it counts how long nothing is known of restored events.
    product(after, "p9", {"name": "jar"})
    _pass(after, clock, 30_000)
    product(after, "p1", {"name": "mug"})
    assert names(after) == [(0, "mug")]
    # It was parked by another attempt: this one has none in its counters.
    assert after.count("unparked_events") == after.count("parked_events") == 0


def test_what_waits_is_what_was_parked_less_what_was_decided(clock: Clock) -> None:
    harness = _open()
    order(harness, "p1", 0)
    _pass(harness, clock, 1_000)
    order(harness, "p1", 1)
    _pass(harness, clock, GRACE_MS - 1_000)
    assert (harness.count("parked_events"), harness.count("unparked_events")) == (2, 1)
    _pass(harness, clock, 1_000)
    assert (harness.count("parked_events"), harness.count("unparked_events")) == (2, 2)
