"""The join function: holding, releasing, verdicts, and state that returns to zero."""

from __future__ import annotations

import importlib
import json
import linecache
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyflink.common import Row

from tests.functions.joins import join, rows_name
from tests.support.keyed_harness import NO_WATERMARK, Harness
from udfs import code
from udfs.core.errors import StaleCodeError
from udfs.core.events import EventReader
from udfs.core.gate import CLOSED_MS, FAR_FUTURE_MS, OPENED_SHORT_MS
from udfs.core.hold import Consistency
from udfs.core.keys import KeyFormat, KeyOrigin, KeyRule
from udfs.core.merge import AddFields, CustomMerge
from udfs.core.rows import RowReader, TableFormat
from udfs.join_rules import JoinRules
from udfs.records import Record

pytestmark = pytest.mark.usefixtures("lookup")

RULES = JoinRules(
    stream_topic="orders",
    table_topic="products",
    events=EventReader(KeyRule(KeyOrigin.VALUE, KeyFormat.JSON, ("product",))),
    rows=RowReader(TableFormat.JSON, KeyRule(KeyOrigin.KEY, KeyFormat.TEXT)),
    merge=AddFields(((("name",), "product_name"),)),
)


def _record(routed: str | None, key: bytes | None, value: Any, offset: int, **more: Any) -> Row:
    raw = json.dumps(value).encode() if isinstance(value, dict) else value
    return Row(
        *Record(routed, key, raw, more.get("headers"), 1000, more.get("partition", 0), offset)
    )


def order(harness: Harness, product: str, offset: int, **more: Any) -> None:
    value = {"product": product, "offset": offset}
    harness.event(product, _record(product, b"o", value, offset, **more))


def product(harness: Harness, key: str, row: Any, offset: int = 0) -> None:
    harness.row(key, _record(key, key.encode(), row, offset))


def names(harness: Harness) -> list[tuple[int, str]]:
    values = [json.loads(out[1]) for out in harness.out]
    return [(v["offset"], v["product_name"]) for v in values]


def test_an_event_is_held_until_the_watermark_of_the_gate_and_then_meets_its_row() -> None:
    harness = Harness(join(RULES))
    order(harness, "p1", 0)
    harness.advance(CLOSED_MS)
    product(harness, "p1", {"name": "mug"})
    assert harness.out == []
    assert harness.held() == 1
    harness.advance(FAR_FUTURE_MS)
    assert names(harness) == [(0, "mug")]
    assert harness.side == {}


def test_nothing_of_a_released_event_stays_in_state() -> None:
    harness = Harness(join(RULES))
    for offset in range(20):
        order(harness, "p1", offset)
    order(harness, "p2", 20)
    assert harness.held() == 21
    harness.advance(FAR_FUTURE_MS)
    assert harness.timers == set()
    assert {name: keys for name, keys in harness.state.items() if keys} == {}


def test_an_open_gate_holds_nothing_and_sets_no_timer() -> None:
    harness = Harness(join(RULES))
    harness.advance(FAR_FUTURE_MS)
    product(harness, "p1", {"name": "mug"})
    order(harness, "p1", 0)
    assert names(harness) == [(0, "mug")]
    assert harness.held() == 0
    assert harness.timers == set()


def test_held_events_of_a_key_come_out_in_their_order_and_before_newer_ones() -> None:
    harness = Harness(join(RULES))
    product(harness, "p1", {"name": "mug"})
    offsets = [1, 2, 10, *range(200, 230), 4_000]
    for offset in offsets:
        order(harness, "p1", offset)
    harness.advance(FAR_FUTURE_MS)
    order(harness, "p1", 4_001)
    assert [offset for offset, _ in names(harness)] == [*offsets, 4_001]


def test_events_of_two_partitions_with_one_offset_are_both_held() -> None:
    harness = Harness(join(RULES))
    product(harness, "p1", {"name": "mug"})
    for offset in range(20):
        order(harness, "p1", offset, partition=0)
        order(harness, "p1", offset, partition=3)
    harness.advance(FAR_FUTURE_MS)
    assert len(harness.out) == 40


def test_the_newest_row_wins_and_a_deletion_is_its_own_verdict() -> None:
    harness = Harness(join(RULES))
    harness.advance(FAR_FUTURE_MS)
    product(harness, "p1", {"name": "mug"}, 0)
    product(harness, "p1", {"name": "jar"}, 1)
    order(harness, "p1", 0)
    product(harness, "p1", None, 2)
    order(harness, "p1", 1)
    order(harness, "p2", 2)
    product(harness, "p1", {"name": "pot"}, 3)
    order(harness, "p1", 3)
    assert names(harness) == [(0, "jar"), (3, "pot")]
    verdicts = [miss[2]["tablegate-verdict"] for miss in harness.side["retry"]]
    assert verdicts == [b"DELETED", b"NOT_FOUND"]


def test_a_row_with_a_null_field_is_a_hit() -> None:
    harness = Harness(join(RULES))
    harness.advance(FAR_FUTURE_MS)
    product(harness, "p1", {"name": None})
    order(harness, "p1", 0)
    assert json.loads(harness.out[0][1])["product_name"] is None
    assert "retry" not in harness.side


def test_hits_keep_key_headers_and_timestamp_and_misses_their_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("udfs.clock.now_ms", lambda: 5000)
    harness = Harness(join(RULES))
    harness.advance(FAR_FUTURE_MS)
    product(harness, "p1", {"name": "mug"})
    order(harness, "p1", 0, headers={"trace": b"1"})
    order(harness, "p2", 1, headers={"trace": b"2"}, partition=2)
    key, _, headers, timestamp, _ = harness.out[0]
    assert (key, headers, timestamp) == (b"o", {"trace": b"1"}, 1000)
    key, value, headers, timestamp, _ = harness.side["retry"][0]
    # Retention goes by the record's time, and the event may be old.
    assert (key, timestamp, headers["tablegate-timestamp"]) == (b"o", 5000, b"1000")
    assert value == b'{"product": "p2", "offset": 1}'
    assert headers["trace"] == b"2"
    assert headers["tablegate-source"] == b"orders[2]@1"
    assert headers["tablegate-attempt"] == b"1"


def test_first_seen_is_when_the_event_was_held_not_when_it_was_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("udfs.clock.now_ms", lambda: 111)
    harness = Harness(join(RULES))
    order(harness, "p1", 0)
    monkeypatch.setattr("udfs.clock.now_ms", lambda: 999)
    harness.advance(FAR_FUTURE_MS)
    assert harness.side["retry"][0][2]["tablegate-first-seen"] == b"111"


@pytest.mark.parametrize(
    ("value", "verdict", "reason"),
    [
        (b"{broken", b"BAD_RECORD", b"not valid JSON"),
        (None, b"BAD_RECORD", b"is null"),
        (b'{"product":null}', b"NO_KEY", b"missing or null"),
        (b"{}", b"NO_KEY", b"missing or null"),
    ],
)
def test_what_cannot_be_joined_is_a_dead_letter_with_its_reason(
    value: bytes | None, verdict: bytes, reason: bytes
) -> None:
    harness = Harness(join(RULES))
    harness.advance(FAR_FUTURE_MS)
    harness.event("no key: 2@7", _record(None, b"o", value, 7, partition=2))
    key, letter, headers, _, _ = harness.side["dead"][0]
    assert (key, letter) == (b"o", value)
    assert headers["tablegate-verdict"] == verdict
    assert headers["tablegate-error"].startswith(b"orders[2]@7: ")
    assert reason in headers["tablegate-error"]


def test_an_unreadable_row_is_a_dead_letter_and_leaves_the_row_before_it() -> None:
    harness = Harness(join(RULES))
    harness.advance(FAR_FUTURE_MS)
    product(harness, "p1", {"name": "mug"}, 0)
    product(harness, "p1", b"{not json", 1)
    order(harness, "p1", 0)
    assert names(harness) == [(0, "mug")]
    assert harness.side["dead"][0][2]["tablegate-source"] == b"products[0]@1"
    assert harness.side["dead"][0][4] == "BAD_ROW"


def test_a_key_that_the_jvm_read_differently_is_refused_and_not_looked_up() -> None:
    harness = Harness(join(RULES))
    harness.advance(FAR_FUTURE_MS)
    product(harness, "other", {"name": "wrong"})
    harness.event("other", _record("other", b"o", {"product": "p1"}, 0))
    assert harness.out == []
    assert b"for routing" in harness.side["dead"][0][2]["tablegate-error"]


def test_a_user_s_merge_that_fails_makes_a_dead_letter() -> None:
    rules = JoinRules(**(vars(RULES) | {"merge": CustomMerge("tests.support.merges:raises")}))
    harness = Harness(join(rules))
    harness.advance(FAR_FUTURE_MS)
    product(harness, "p1", {"name": "mug"})
    order(harness, "p1", 0)
    assert b"ZeroDivisionError" in harness.side["dead"][0][2]["tablegate-error"]


def test_a_user_s_merge_that_exits_makes_a_dead_letter_too() -> None:
    rules = JoinRules(**(vars(RULES) | {"merge": CustomMerge("tests.support.merges:exits")}))
    harness = Harness(join(rules))
    harness.advance(FAR_FUTURE_MS)
    product(harness, "p1", {"name": "mug"})
    order(harness, "p1", 0)
    assert b"SystemExit" in harness.side["dead"][0][2]["tablegate-error"]


def test_a_module_is_what_it_was_when_it_was_imported_whatever_its_file_says_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "acme_merge.py"
    source.write_text("def merge(event, row):\n    return event\n")
    monkeypatch.syspath_prepend(tmp_path)
    submitted = code.digest_of_module("acme_merge")
    assert submitted
    # Flink removes a job's files between attempts; or others lie there by then.
    source.unlink()
    linecache.clearcache()
    assert code.digest_of_module("acme_merge") == submitted
    source.write_text("def merge(event, row):\n    return row\n")
    assert code.digest_of_module("acme_merge") == submitted
    del sys.modules["acme_merge"]
    importlib.invalidate_caches()
    assert code.digest_of_module("acme_merge") != submitted
    del sys.modules["acme_merge"]


def test_an_enriched_event_that_its_topic_would_refuse_is_a_dead_letter() -> None:
    rules = JoinRules(**(vars(RULES) | {"max_enriched_bytes": 100}))
    harness = Harness(join(rules))
    harness.advance(FAR_FUTURE_MS)
    product(harness, "p1", {"name": "mug"})
    product(harness, "p2", {"name": "m" * 100})
    order(harness, "p1", 0)
    order(harness, "p2", 1)
    assert names(harness) == [(0, "mug")]
    assert b"max.message.bytes" in harness.side["dead"][0][2]["tablegate-error"]


def test_a_hit_on_a_later_round_carries_no_header_of_the_rounds_before() -> None:
    harness = Harness(join(RULES))
    harness.advance(FAR_FUTURE_MS)
    product(harness, "p1", {"name": "mug"})
    order(harness, "p1", 0, headers={"trace": b"1", "tablegate-verdict": b"NOT_FOUND"})
    assert harness.out[0][2] == {"trace": b"1"}


def test_a_held_event_is_counted_as_held_and_not_as_a_miss() -> None:
    harness = Harness(join(RULES))
    order(harness, "p1", 0)
    assert (harness.count("held_events"), harness.count("misses")) == (1, 0)
    harness.advance(FAR_FUTURE_MS)
    assert (harness.count("released_events"), harness.count("misses")) == (1, 1)


def test_without_the_gate_the_same_event_is_lost() -> None:
    harness = Harness(join(replace(RULES, consistency=Consistency.NONE)))
    order(harness, "p1", 0)
    product(harness, "p1", {"name": "mug"})
    assert harness.out == []
    assert len(harness.side["retry"]) == 1


def test_a_worker_with_other_code_in_memory_refuses_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    submitted = pickle.dumps(join(RULES))
    monkeypatch.setattr(code, "LOADED", "0123456789abcdef")
    with pytest.raises(StaleCodeError, match="Restart the TaskManagers"):
        Harness(pickle.loads(submitted))  # noqa: S301


_KEYS = st.sampled_from(["p1", "p2", "p3"])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("order"), _KEYS),
        st.tuples(st.just("row"), _KEYS),
        st.tuples(st.just("delete"), _KEYS),
    ),
    max_size=40,
)


def _apply(harness: Harness, steps: list[tuple[str, str]], start: int) -> None:
    for offset, (what, key) in enumerate(steps, start):
        if what == "order":
            order(harness, key, offset)
        else:
            product(harness, key, {"name": str(offset)} if what == "row" else None, offset)


@settings(deadline=None)
@given(_STEPS, _STEPS, st.data())
def test_a_restart_at_any_step_loses_and_doubles_nothing(
    loading: list[tuple[str, str]], steady: list[tuple[str, str]], data: st.DataObject
) -> None:
    """Against a dict: held events meet the table of the opening, later ones that of their time."""
    table: dict[str, str | None] = {}
    expected: list[tuple[int, str]] = []
    for offset, (what, key) in enumerate(loading):
        if what != "order":
            table[key] = str(offset) if what == "row" else None
    held = [(o, k) for o, (what, k) in enumerate(loading) if what == "order"]
    expected += [(o, str(table[k])) for o, k in held if table.get(k) is not None]
    for offset, (what, key) in enumerate(steady, len(loading)):
        if what == "order" and table.get(key) is not None:
            expected.append((offset, str(table[key])))
        elif what != "order":
            table[key] = str(offset) if what == "row" else None

    harness = Harness(join(RULES))
    cut = data.draw(st.integers(0, len(loading)))
    _apply(harness, loading[:cut], 0)
    before = harness.out
    harness = harness.restarted(join(RULES))
    assert harness.watermark == NO_WATERMARK
    _apply(harness, loading[cut:], cut)
    assert before == harness.out == []
    harness.advance(FAR_FUTURE_MS)
    cut = data.draw(st.integers(0, len(steady)))
    _apply(harness, steady[:cut], len(loading))
    first = names(harness)
    harness = harness.restarted(join(RULES))
    harness.advance(FAR_FUTURE_MS)
    _apply(harness, steady[cut:], len(loading) + cut)
    assert sorted(first + names(harness)) == sorted(expected)
    assert harness.held() == 0


# --------------------------------------------------------------------- a table that is not complete


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The worker's clock, epoch ms, in a list of one."""
    now = [1_000_000]
    monkeypatch.setattr("udfs.clock.now_ms", lambda: now[0])
    return now


def verdicts(harness: Harness) -> list[str]:
    return [miss[2]["tablegate-verdict"].decode() for miss in harness.side.get("retry", [])]


def test_opened_by_policy_every_miss_says_that_the_table_is_short(clock: list[int]) -> None:
    harness = Harness(join(RULES))
    product(harness, "p1", {"name": "mug"})
    product(harness, "p2", None)
    order(harness, "p1", 0)
    order(harness, "p2", 1)
    harness.advance(OPENED_SHORT_MS)
    order(harness, "p3", 2)
    assert names(harness) == [(0, "mug")]
    assert verdicts(harness) == ["NOT_LOADED", "NOT_LOADED"]
    # It did load after all.
    harness.advance(clock[0])
    order(harness, "p2", 3)
    assert verdicts(harness)[2:] == ["DELETED"]
    assert (harness.count("misses"), harness.count("not_loaded_misses")) == (3, 2)


def test_a_table_that_lags_too_far_makes_misses_uncertain_and_hits_not(clock: list[int]) -> None:
    harness = Harness(join(RULES))
    product(harness, "p1", {"name": "mug"})
    order(harness, "p2", 0)
    # The load took an hour, and what it read to is as old; that is no lag.
    clock[0] += 3_600_000
    harness.advance(clock[0] - 3_600_000)
    clock[0] += 60_000
    order(harness, "p2", 1)
    clock[0] += 1
    order(harness, "p2", 2)
    order(harness, "p1", 3)
    harness.advance(clock[0] - 60_000)
    order(harness, "p2", 4)
    assert verdicts(harness) == ["NOT_FOUND", "NOT_FOUND", "STALE_TABLE", "NOT_FOUND"]
    assert names(harness) == [(3, "mug")]
    assert harness.count("stale_table_misses") == 1


def test_held_bytes_are_told_and_taken_back() -> None:
    harness = Harness(join(RULES))
    order(harness, "p1", 0, headers={"trace": b"12345678"})
    held = harness.count("held_bytes")
    assert held == len(b"o") + len(json.dumps({"product": "p1", "offset": 0})) + 5 + 8 + 10
    assert harness.count("released_bytes") == 0
    harness.advance(FAR_FUTURE_MS)
    assert harness.count("released_bytes") == held


# ------------------------------------------------------------------------------- continuous mode

CONTINUOUS = replace(RULES, consistency=Consistency.CONTINUOUS)


def test_an_event_passes_only_when_the_table_is_complete_up_to_when_it_was_read(
    clock: list[int],
) -> None:
    harness = Harness(join(CONTINUOUS))
    harness.advance(clock[0] - 1)
    order(harness, "p1", 0)
    harness.advance(clock[0] - 1)
    product(harness, "p1", {"name": "mug"})
    assert harness.out == []
    harness.advance(clock[0])
    assert names(harness) == [(0, "mug")]
    assert (harness.held(), harness.timers) == (0, set())


def test_events_of_one_key_pass_as_far_as_the_table_is_complete_and_in_order(
    clock: list[int],
) -> None:
    harness = Harness(join(CONTINUOUS))
    product(harness, "p1", {"name": "mug"})
    began = clock[0]
    for offset in range(40):
        clock[0] = began + offset
        order(harness, "p1", offset)
    for passed in (3, 4, 17, 39):
        harness.advance(began + passed)
        assert [offset for offset, _ in names(harness)] == list(range(passed + 1))
        assert harness.held() == 39 - passed
        assert len(harness.timers) == (0 if passed == 39 else 1)
    assert {name: keys for name, keys in harness.state.items() if keys} == {
        rows_name(): harness.state[rows_name()]
    }


def test_an_event_does_not_overtake_those_of_its_key_that_wait(clock: list[int]) -> None:
    # A clock that steps back gives a newer event the earlier moment.
    harness = Harness(join(CONTINUOUS))
    product(harness, "p1", {"name": "mug"})
    began = clock[0]
    for offset, later in enumerate((0, 200, 150)):
        clock[0] = began + later
        order(harness, "p1", offset)
    harness.advance(began + 160)
    assert [offset for offset, _ in names(harness)] == [0]
    # Earlier than the watermark, but behind the others in the log.
    clock[0] = began + 100
    order(harness, "p1", 3)
    assert [offset for offset, _ in names(harness)] == [0]
    harness.advance(began + 200)
    assert [offset for offset, _ in names(harness)] == [0, 1, 2, 3]


def test_events_held_in_one_mode_are_released_in_the_other(clock: list[int]) -> None:
    harness = Harness(join(RULES))
    order(harness, "p1", 0)
    clock[0] += 60_000
    harness = harness.restarted(join(CONTINUOUS))
    product(harness, "p1", {"name": "mug"})
    order(harness, "p1", 1)
    harness.advance(clock[0] - 1)
    assert [offset for offset, _ in names(harness)] == [0]
    harness = harness.restarted(join(RULES))
    harness.advance(clock[0] + 5_000)
    assert [offset for offset, _ in names(harness)] == [1]
    assert harness.held() == 0


@given(seed=st.integers(0, 2**32))
@settings(deadline=None)
def test_in_continuous_mode_every_event_sees_what_was_written_before_it_was_read(
    seed: int,
) -> None:
    """Times of a made-up clock: rows arrive late, watermarks later still, and attempts end."""
    random = Random(seed)
    delay = random.randrange(15)
    rows: list[tuple[int, str]] = []
    arriving: list[tuple[int, str]] = []
    orders: list[tuple[int, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        now = [0]
        patch.setattr("udfs.clock.now_ms", lambda: now[0])
        harness = Harness(join(CONTINUOUS))
        for at in range(100, 200):
            now[0] = at
            while arriving and arriving[0][0] <= at - delay:
                written, key = arriving.pop(0)
                product(harness, key, {"name": str(written)}, written)
            if random.random() < 0.3 or at == 199:
                harness.advance(at - delay)
            if random.random() < 0.1:
                before, watermark = harness.out, harness.watermark
                harness = harness.restarted(join(CONTINUOUS))
                harness.out, harness.watermark = before, watermark
            key = random.choice("ab")
            what = random.choice(["row", "order", "order"]) if at < 160 else ""
            if what == "row":
                rows.append((at, key))
                arriving.append((at, key))
            elif what == "order":
                order(harness, key, at)
                orders.append((at, key))
    assert harness.held() == 0
    joined = {offset: int(name) for offset, name in names(harness)}
    for read, key in orders:
        seen = [written for written, other in rows if other == key and written <= read]
        if seen:
            assert joined[read] >= seen[-1]
