"""The shared cases on the join function."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pyflink.common import Row

from tests.functions.joins import join
from tests.functions.test_join import RULES
from tests.support.cases import HELD, Case, cases, hit, value_of
from tests.support.keyed_harness import Harness
from udfs.core.gate import CLOSED_MS, OPENED_SHORT_MS
from udfs.core.jsontext import BadRecord
from udfs.core.merge import AddFields
from udfs.core.misses import MissPolicy, OnMiss
from udfs.records import Record

pytestmark = pytest.mark.usefixtures("lookup")

_START_MS = 1_700_000_000_000
_FIELDS = AddFields(((("name",), "product_name"), (("price",), "price")))


class _Run:
    """One case on one subtask."""

    def __init__(self, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = _START_MS
        monkeypatch.setattr("udfs.clock.now_ms", lambda: self.ms)
        policy = MissPolicy.of([OnMiss(case.on_miss)])
        self.rules = replace(RULES, merge=_FIELDS, miss_grace_ms=case.grace, on_miss=policy)
        self.harness = Harness(join(self.rules))
        self.harness.advance(CLOSED_MS)
        self.outcomes: dict[str, Any] = {}
        self.dead_rows = 0
        self.offset = 0
        for step in case.steps:
            ((what, argument),) = step.items()
            getattr(self, what)(argument)
            self._collect()

    def row(self, record: dict[str, Any]) -> None:
        self.harness.row(record["key"], self._record(record["key"], record))

    def event(self, record: dict[str, Any]) -> None:
        try:
            routed, _ = self.rules.events.read(None, value_of(record))
        except BadRecord:
            routed = None
        self.harness.event("no key" if routed is None else routed, self._record(routed, record))

    def gate(self, how: str) -> None:
        if how == "stale":
            self.harness.advance(self.ms)
            # The subtask learns that the table was loaded, and then no more of it.
            self.event({"key": "first", "value": {"product": "none"}})
            self._collect()
            del self.outcomes["first"]
            self.ms += self.rules.max_table_lag_ms + 1
        else:
            self.harness.advance(OPENED_SHORT_MS if how == "short" else self.ms)

    def wait(self, ms: int) -> None:
        self.ms += ms
        self.harness.clock(self.ms)

    def restart(self, _: bool) -> None:
        self.harness = self.harness.restarted(join(self.rules))
        self.harness.advance(CLOSED_MS)

    def _record(self, routed: str | None, record: dict[str, Any]) -> Row:
        self.offset += 1
        key, ts = record["key"].encode(), record.get("ts", 1)
        return Row(*Record(routed, key, value_of(record), None, ts, 0, self.offset))

    def _collect(self) -> None:
        for out in self.harness.out:
            self._decided(out[0], hit(out[1]))
        for topic in ("retry", "dead", "nulls"):
            for out in self.harness.side.pop(topic, []):
                verdict = out[2]["tablegate-verdict"].decode()
                if topic == "nulls":
                    assert self.rules.on_miss.emit_null
                    self._decided(out[0], {"verdict": verdict, "value": json.loads(out[1])})
                elif out[2]["tablegate-source"].startswith(b"products"):
                    assert (topic, verdict) == ("dead", "BAD_RECORD")
                    self.dead_rows += 1
                else:
                    assert (topic == "dead") == (verdict in {"NO_KEY", "BAD_RECORD"})
                    self._decided(out[0], {"verdict": verdict})
        self.harness.out.clear()

    def _decided(self, key: bytes, outcome: Any) -> None:
        assert key.decode() not in self.outcomes, "decided twice"
        self.outcomes[key.decode()] = outcome


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_each_case_ends_as_it_says(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _Run(case, monkeypatch)
    decided = {key: outcome for key, outcome in case.expect.items() if outcome != HELD}
    assert run.outcomes == decided
    assert run.harness.held() + run.harness.parked() == len(case.expect) - len(decided)
    assert run.dead_rows == case.dead_rows


def test_no_verdict_is_without_a_case() -> None:
    outcomes = [outcome for case in cases() for outcome in case.expect.values()]
    told = {outcome["verdict"] for outcome in outcomes if outcome != HELD}
    assert told == {
        "HIT",
        "NOT_FOUND",
        "DELETED",
        "NOT_LOADED",
        "STALE_TABLE",
        "NO_KEY",
        "BAD_RECORD",
    }
