"""The demo's records have the shape that its story needs."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from ops.demo.data import Draft, Plan, Story

PLAN = Plan(rows=4_000, events=4_000)
NOW = 1_790_000_000_000


def told(plan: Plan = PLAN) -> list[list[Draft]]:
    story = Story(plan, NOW)
    return [
        list(story.table_before()),
        list(story.stream_before()),
        list(story.table_while_down()),
        list(story.stream_while_down()),
    ]


def test_the_same_plan_gives_the_same_bytes_and_another_seed_gives_others() -> None:
    assert told() == told()
    assert told() != told(Plan(rows=4_000, events=4_000, seed=8))


def test_updates_and_tombstones_stand_after_every_first_row() -> None:
    table = told()[0]
    head, tail = table[: PLAN.rows], table[PLAN.rows :]
    assert len({row.key for row in head}) == PLAN.rows
    assert len(tail) == PLAN.updates + PLAN.deletes + PLAN.returns
    assert sum(row.value is None for row in tail) == PLAN.deletes
    assert {row.key for row in tail} <= {row.key for row in head}


def test_every_new_revision_of_a_customer_changes_the_tier() -> None:
    before, _, while_down, _ = told()
    last: dict[bytes, tuple[int, str]] = {}
    for draft in before + while_down:
        if draft.value is not None:
            row = json.loads(draft.value)
            revision, tier = last.get(draft.key, (0, ""))
            assert row["revision"] == revision + 1
            assert row["tier"] != tier
            last[draft.key] = (row["revision"], row["tier"])
    assert Counter(revision for revision, _ in last.values()).keys() >= {1, 2, 3}


def test_orders_ask_for_every_kind_of_customer() -> None:
    table, orders, late_table, late_orders = told()
    newest = {row.key for row in table[PLAN.rows * 9 // 10 : PLAN.rows]}
    state = {row.key: row.value for row in table}
    late_state = state | {row.key: row.value for row in late_table}
    asked = [customer(order) for order in orders]
    late_asked = [customer(order) for order in late_orders]
    assert sum(key in newest for key in asked) > PLAN.events // 5
    for states, keys in ((state, asked), (late_state, late_asked)):
        present = [key for key in keys if key is not None]
        assert any(key not in states for key in present), "never existing"
        assert any(key in states and states[key] is None for key in present), "deleted"
    new = late_state.keys() - state.keys()
    assert sum(key in new for key in late_asked) > PLAN.late_events // 5


def test_some_orders_are_unreadable_name_nobody_or_are_older_than_the_table() -> None:
    table, orders, _, _ = told()
    values = [parsed(order) for order in orders]
    assert sum(value is None for value in values) == PLAN.unreadable
    keyless = [v for v in values if v is not None and v.get("customer_id") is None]
    assert len(keyless) == PLAN.unreadable
    assert {"customer_id" in value for value in keyless} == {True, False}
    oldest_row = min(row.timestamp_ms for row in table)
    assert any(order.timestamp_ms < oldest_row for order in orders)
    assert len({dict(order.headers)["trace-id"] for order in orders}) == PLAN.events


def test_too_small_a_story_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1000 rows and events, got rows=10"):
        Plan(rows=10)


def parsed(order: Draft) -> dict[str, object] | None:
    try:
        value: dict[str, object] = json.loads(order.value or b"")
    except ValueError:
        return None
    return value


def customer(order: Draft) -> bytes | None:
    key = (parsed(order) or {}).get("customer_id")
    return key.encode() if isinstance(key, str) else None
