"""The model that judges the restarts on a cluster: it sees every kind of wrong answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.support.kafka import Record
from tests.support.restarts import (
    DELETED,
    NOT_FOUND,
    Kind,
    Moment,
    Scenario,
    answers_of,
    scenario,
    wrong,
)

PLAN = Scenario(
    before=[("p1", "old"), ("p2", "old")],
    hidden=[("t1", "hidden")],
    commits=True,
    gap=[("p1", "new"), ("p2", None), ("p3", "new")],
    early=[(1, "p1"), (2, "p2"), (3, "p3"), (4, "t1"), (5, "x")],
    late=[(11, "p1"), (12, "p2"), (13, "p3"), (14, "t1"), (15, "x")],
)
FINAL = {1: {"new"}, 2: {DELETED}, 3: {"new"}, 4: {"hidden"}, 5: {NOT_FOUND}}
EITHER = {
    1: {"old", "new"},
    2: {"old", DELETED},
    3: {NOT_FOUND, "new"},
    4: {NOT_FOUND, "hidden"},
    5: {NOT_FOUND},
}


@pytest.mark.parametrize(
    ("moment", "kind", "early", "late"),
    [
        (Moment.HELD, Kind.JOB_MANAGER, FINAL, FINAL),
        (Moment.STEADY, Kind.JOB_MANAGER, EITHER, FINAL),
        (Moment.STEADY, Kind.BROKER, EITHER, EITHER),
        # No new targets, but the first ones wait for the transaction.
        (Moment.HELD, Kind.BROKER, EITHER | {4: {"hidden"}}, EITHER | {4: {"hidden"}}),
    ],
)
def test_right_is_what_the_targets_of_an_attempt_vouch_for(
    moment: Moment, kind: Kind, early: dict[int, set[str]], late: dict[int, set[str]]
) -> None:
    assert PLAN.answers(moment, kind) == early | {n + 10: found for n, found in late.items()}


def test_an_aborted_transaction_leaves_no_row() -> None:
    aborted = replace(PLAN, commits=False)
    assert aborted.answers(Moment.HELD, Kind.TASK)[4] == {NOT_FOUND}


@pytest.mark.parametrize(
    ("got", "seen"),
    [
        ({1: {"new"}}, False),
        ({1: {"old", "new"}}, True),  # stale, and right when it came again
        ({1: {NOT_FOUND}}, True),  # a wrong null
        ({1: set()}, True),
        ({}, True),  # lost
    ],
)
def test_lost_stale_and_wrongly_missed_events_are_seen(
    got: dict[int, set[str]], seen: bool
) -> None:
    assert bool(wrong(got, {1: {"new"}})) is seen


def test_answers_are_read_from_what_came_out_twice_too() -> None:
    enriched = [
        _record(b"o1", {"n": 1, "product_name": "old"}),
        _record(b"o1", {"n": 1, "title": "new"}),
    ]
    retry = [_record(b"o2", {"n": 2}, ("tablegate-verdict", DELETED.encode()))]
    assert answers_of(enriched, retry) == {1: {"old", "new"}, 2: {DELETED}}


def test_a_scenario_asks_for_everything_that_can_go_wrong() -> None:
    for seed in range(20):
        plan = scenario(seed, 300)
        assert plan == scenario(seed, 300)
        asked = {key for _, key in (*plan.early, *plan.late)}
        assert {key for key, _ in plan.gap} <= asked
        assert {key for key, _ in plan.hidden} <= asked
        right = plan.answers(Moment.STEADY, Kind.TASK)
        assert len(right) == len(plan.early) + len(plan.late)
        # Stale joins and wrong nulls would show: there are orders whose right answer has changed.
        late = {number: key for number, key in plan.late}  # noqa: C416  (dict() loses the types)
        changed = [n for n in late if any(a.startswith("gap-") for a in right[n])]
        assert len(changed) > 20


def _record(key: bytes, value: dict[str, Any], *headers: tuple[str, bytes | None]) -> Record:
    return Record("t", 0, 0, 0, key, msgspec.json.encode(value), headers)
