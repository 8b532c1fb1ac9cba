"""What only a join has whose table is in every subtask; all else is tested for both lookups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.functions.test_join import RULES, names, order, product
from tests.support.clock import START_MS, Clock
from tests.support.keyed_harness import Harness, HarnessSubtask
from udfs.core.errors import TableTooLargeError, WorkerError
from udfs.core.gate import FAR_FUTURE_MS
from udfs.core.heap import LOOK_EVERY_ROWS
from udfs.core.merge import AddFields
from udfs.join import BroadcastJoin
from udfs.subtask import look_around

PATIENT = replace(RULES, miss_grace_ms=5_000)


class _Half(HarnessSubtask):
    """A subtask to which the keys that begin with p belong, and no others."""

    def owns(self, routed: str) -> bool:
        return routed.startswith("p")


@pytest.fixture
def subtasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("udfs.subtask.look_around", HarnessSubtask)


@pytest.fixture
def half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("udfs.subtask.look_around", _Half)


def _open(rules: Any = RULES) -> Harness:
    harness = Harness(BroadcastJoin(rules))
    harness.advance(FAR_FUTURE_MS)
    return harness


@pytest.mark.usefixtures("half")
def test_of_an_unreadable_row_one_subtask_speaks_and_no_other() -> None:
    harness = _open()
    product(harness, "q1", b"{broken")
    assert harness.side == {}
    product(harness, "p1", b"{broken")
    assert len(harness.side["dead"]) == 1


@pytest.mark.usefixtures("half")
def test_rows_of_other_subtasks_keys_are_kept_and_settle_nothing(clock: Clock) -> None:
    harness = Harness(BroadcastJoin(PATIENT))
    harness.advance(START_MS)
    order(harness, "p1", 0)
    product(harness, "q1", {"name": "jar"})
    assert (harness.out, harness.parked()) == ([], 1)
    assert set(harness.state["table-rows"]) == {"q1"}
    product(harness, "p1", {"name": "mug"})
    assert names(harness) == [(0, "mug")]


@pytest.mark.usefixtures("subtasks")
def test_a_subtask_that_gets_the_state_of_another_has_the_whole_table(clock: Clock) -> None:
    harness = _open()
    for key in ("p1", "p2"):
        product(harness, key, {"name": key.upper()})
    # As Flink hands it out: broadcast state to each, keyed state by key group.
    other = Harness(BroadcastJoin(RULES), {"table-rows": dict(harness.state["table-rows"])})
    other.advance(FAR_FUTURE_MS)
    order(other, "p1", 0)
    order(other, "p2", 1)
    assert names(other) == [(0, "P1"), (1, "P2")]


@pytest.mark.usefixtures("subtasks")
@pytest.mark.parametrize("text", ["grün", "山", "😀", "\\u0000", "\u2028"])
def test_a_row_comes_back_byte_by_byte(text: str) -> None:
    row = f'{{"name": "{text}",  "n" : 1.50}}'.encode()
    harness = _open(replace(RULES, merge=AddFields(((("name",), "product_name"),)), cached_rows=0))
    product(harness, "p1", row)
    assert harness.function._table.get("p1") == row
    assert isinstance(harness.function._table.get("p1"), bytes)
    order(harness, "p1", 0)
    assert f'"product_name":"{text}"'.encode() in harness.out[0][1]


@pytest.mark.usefixtures("subtasks")
def test_a_table_that_outgrows_the_heap_fails_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HarnessSubtask, "heap_bytes", 100_000)
    table = Harness(BroadcastJoin(RULES)).function._table
    for n in range(1, LOOK_EVERY_ROWS):
        table.put(f"p{n}", b"{}")
    with pytest.raises(TableTooLargeError, match="products: 9999 rows"):
        table.put("p0", b"{}")


def test_outside_a_jvm_it_refuses_to_start() -> None:
    with pytest.raises(WorkerError, match="thread mode"):
        look_around(object())
