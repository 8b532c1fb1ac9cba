"""The join tells its brake what it holds, what it releases and what rows come by."""

from __future__ import annotations

import dataclasses

import pytest

from tests.functions.joins import join
from tests.functions.test_join import RULES, order, product
from tests.support.keyed_harness import Harness
from udfs import joining
from udfs.core.gate import OPENED_SHORT_MS
from udfs.core.hold import Consistency

pytestmark = pytest.mark.usefixtures("lookup")


class Told:
    """In the brake's place; writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.slack = -1

    def __call__(self, slack_events: int) -> Told:
        self.slack = slack_events
        return self

    def held(self) -> None:
        self.calls.append("held")

    def row(self) -> None:
        self.calls.append("row")

    def released(self, events: int) -> None:
        self.calls += ["released"] * events


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    brake = Told()
    monkeypatch.setattr(joining, "Brake", brake)
    return brake


def test_every_held_event_every_row_and_every_release_is_told(told: Told) -> None:
    harness = Harness(join(dataclasses.replace(RULES, hold_slack_events=7)))
    # More than are held in one value.
    for n in range(10):
        order(harness, "p1", n)
    product(harness, "p1", {"name": "mug"})
    harness.advance(OPENED_SHORT_MS)
    assert told.slack == 7
    assert told.calls == ["held"] * 10 + ["row"] + ["released"] * 10
    order(harness, "p1", 10)
    assert told.calls[-1] == "released"
    assert len(harness.out) == 11


def test_an_unreadable_row_shows_that_the_table_is_read_as_well(told: Told) -> None:
    harness = Harness(join(dataclasses.replace(RULES, hold_slack_events=7)))
    product(harness, "p1", b"{broken")
    assert told.calls == ["row"]


@pytest.mark.parametrize("consistency", [Consistency.STARTUP, Consistency.CONTINUOUS])
def test_without_a_slack_there_is_no_brake(told: Told, consistency: Consistency) -> None:
    harness = Harness(join(dataclasses.replace(RULES, consistency=consistency)))
    order(harness, "p1", 0)
    product(harness, "p1", {"name": "mug"})
    harness.advance(2**60)
    assert (told.calls, told.slack) == ([], -1)
    assert len(harness.out) == 1
