"""The shared cases on a job that runs on a real broker: all of a kind at once, step by step.

Cases share a job and are told apart by their keys. The table has one partition, so a row that came
through proves those before it; an unfinished transaction at its end keeps the gate shut.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.support.cases import HELD, Case, hit, value_of
from tests.support.join_job import JoinJob
from tests.support.kafka import Record

MAX_LAG_MS = 3_000

SETTINGS: dict[str, dict[str, Any]] = {
    "table": {"fields": {"name": "product_name", "price": "price"}},
    # Four times a second, so that a step takes no longer than it must.
    "gate": {"max_table_lag_ms": MAX_LAG_MS, "tick_interval_ms": 250},
}


class CaseJob:
    """Plays cases that have the same kind of gate; ``outcomes`` is what became of their events."""

    def __init__(self, job: JoinJob, cases: list[Case], entry: Path, arguments: list[str]) -> None:
        self.job, self.cases = job, cases
        self._entry, self._arguments = entry, arguments
        self._sent: list[str] = []
        self._shut: Producer | None = None
        self._savepoint: str | None = None
        # The policy opens such a gate by itself, whatever the test does.
        self._opens_by_itself = any({"gate": "short"} in case.steps for case in cases)

    def play(self) -> None:
        """All steps of all cases. Fails when an event is decided while the gate is shut."""
        with ExitStack() as stack:
            rest = [list(case.steps) for case in self.cases]
            while any(rest):
                shut = [_until_gate(steps) for steps in rest]
                self._start(shut, stack)
                self._open({how for steps in rest if (how := _gate(steps)) is not None})
                longest = [_until_restart(steps) for steps in rest]
                for number in range(max(map(len, longest))):
                    self._together([steps[number : number + 1] for steps in longest])
                if any(rest):
                    self._savepoint = self.job.stop()

    def outcomes(self, number: int) -> tuple[dict[str, Any], int]:
        """Of a case: what became of its events by their names, and its dead rows."""
        mark = f"{number}-"
        found: dict[str, Any] = {}
        dead_rows = 0
        for record, outcome in self._records():
            key = (record.key or b"").decode()
            if not key.startswith(mark):
                continue
            if self._is_row(record):
                dead_rows += 1
                continue
            name = key.removeprefix(mark)
            assert name not in found, f"decided twice: {name} of {self.cases[number].name}"
            found[name] = self._unmarked(outcome, mark)
        return found, dead_rows

    # ------------------------------------------------------------------------------ gate

    def _start(self, shut: list[list[dict[str, Any]]], stack: ExitStack) -> None:
        rows = [[s for s in steps if "row" in s] for steps in shut]
        events = [[s for s in steps if "event" in s] for steps in shut]
        before, attempts = self._decided(), self.job.attempts()
        self._write(rows)
        self._shut = stack.enter_context(self.job.kafka.transaction())
        self._shut.produce(self.job.products, b"{}", b"behind the gate")
        assert self._shut.flush(30) == 0
        self._write(events)
        self.job.start(
            entry=self._entry, job_arguments=self._arguments, from_savepoint=self._savepoint
        )
        self.job.wait_until(lambda: self.job.attempts() > attempts, "targets")
        self.job.wait_until(lambda: self._read_events() == len(self._sent), "events read")
        if not self._opens_by_itself:
            assert self._decided() == before, "decided while the gate was shut"

    def _read_events(self) -> int:
        # Its barrier passes behind the events, and then their offsets are committed.
        self.job.checkpoint()
        return self.job.kafka.committed(self.job.orders, self.job.orders)

    def _open(self, how: set[str]) -> None:
        assert self._shut is not None
        kind = next(iter(how), "open")
        assert how <= {kind}, "cases of one job open their gate in the same way"
        if kind == "short":
            self._canary_until("NOT_LOADED")
            return
        self._shut.commit_transaction(30)
        self._canary_until("NOT_FOUND")
        if kind == "stale":
            # Nobody knows whether its row will be part of the table, so nothing more is complete.
            self._shut.begin_transaction()
            self._shut.produce(self.job.products, b"{}", b"behind the gate")
            assert self._shut.flush(30) == 0
            self._canary_until("STALE_TABLE")

    def _canary_until(self, verdict: str, product: str = "no such row") -> None:
        """Send events for that product until one gets this verdict."""
        waiting: list[str] = []

        def met() -> bool:
            if waiting:
                told = {r.key: outcome["verdict"] for r, outcome in self._records()}
                answer = told.get(waiting[-1].encode())
                if answer in {None, verdict}:
                    return answer == verdict
            waiting.append(f"canary {len(self._sent)}")
            self._event(waiting[-1], json.dumps({"product": product}).encode())
            return False

        self.job.wait_until(met, f"an event with {verdict}")

    # ----------------------------------------------------------------------------- steps

    def _together(self, steps: list[list[dict[str, Any]]]) -> None:
        """One step of each case, and wait until all have taken effect."""
        self._write(steps)
        if any("row" in s for one in steps for s in one):
            name = f"row {len(self._sent)}"
            self.job.kafka.produce(self.job.products, [(name.encode(), b"{}")])
            self._canary_until("HIT", name)
        keys = {
            f"{n}-{s['event']['key']}" for n, one in enumerate(steps) for s in one if "event" in s
        }
        self.job.wait_until(lambda: keys <= self._decided(), f"verdicts of {sorted(keys)}")

    def _write(self, steps: list[list[dict[str, Any]]]) -> None:
        for number, one in enumerate(steps):
            for step in one:
                ((what, record),) = step.items()
                key = f"{number}-{record['key']}".encode()
                value = value_of(_marked(record, f"{number}-"))
                if what == "event":
                    self._event(key.decode(), value)
                else:
                    row_key = key if record["key"] else b""
                    self.job.kafka.produce(self.job.products, [(row_key, value)])

    def _event(self, name: str, value: bytes | None) -> None:
        self.job.kafka.produce(self.job.orders, [(name.encode(), value)])
        self._sent.append(name)

    # --------------------------------------------------------------------------- outcomes

    def _decided(self) -> set[str]:
        records = [record for record, _ in self._records() if not self._is_row(record)]
        return {(record.key or b"").decode() for record in records}

    def _is_row(self, record: Record) -> bool:
        return (record.header("tablegate-source") or "").startswith(f"{self.job.products}[")

    def _records(self) -> list[tuple[Record, dict[str, Any]]]:
        # One that went out without its row has its verdict in a header.
        found = [
            (r, hit(r.value or b"") | ({"verdict": told} if told else {}))
            for r in self.job.read("enriched")
            for told in [r.header("tablegate-verdict")]
        ]
        for output in ("retry", "dead"):
            found += [
                (r, {"verdict": r.header("tablegate-verdict")}) for r in self.job.read(output)
            ]
        return found

    @staticmethod
    def _unmarked(outcome: dict[str, Any], mark: str) -> dict[str, Any]:
        value = outcome.get("value")
        if value and isinstance(value.get("product"), str):
            value["product"] = value["product"].removeprefix(mark)
        return outcome


def expected(case: Case) -> dict[str, Any]:
    """What a case says of the events that are decided."""
    return {key: outcome for key, outcome in case.expect.items() if outcome != HELD}


def _marked(record: dict[str, Any], mark: str) -> dict[str, Any]:
    value = record.get("value")
    if isinstance(value, dict) and value.get("product"):
        return record | {"value": value | {"product": mark + value["product"]}}
    return record


def _until_gate(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    taken = []
    while steps and "gate" not in steps[0]:
        taken.append(steps.pop(0))
    return taken


def _gate(steps: list[dict[str, Any]]) -> str | None:
    return str(steps.pop(0)["gate"]) if steps else None


def _until_restart(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    taken = []
    while steps and "restart" not in steps[0]:
        taken.append(steps.pop(0))
    if steps:
        steps.pop(0)
    return taken
