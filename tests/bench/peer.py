"""One check for the Python peers: real broker, real processes, every event right, nothing left."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from bench import records
from bench.systems.contract import Run, System, Work
from ops.demo import topics
from ops.demo.data import Draft
from ops.stack.processes import wait_until
from tests.support.kafka import Kafka, unique

_ROWS = 1_000
_EVENTS = 2_000
_ROW_BYTES = 200
_HOUR_MS = 3_600_000
# Sorts behind every right tier: an order by value would prefer it.
_OTHER = "z"
# Two cores may be shared with other suites: one of the frameworks takes 10 s of CPU to start.
_DEADLINE_S = 180.0


class Peer:
    """A system at work on small topics of its own."""

    def __init__(self, system: System, kafka: Kafka, place: Path, parallelism: int) -> None:
        self.system = system
        self._brokers = kafka.bootstrap_servers
        name = unique("peer")
        self.work = Work(
            brokers=self._brokers,
            name=name,
            stream=f"{name}-events",
            table=f"{name}-rows",
            enriched=f"{name}-enriched",
            place=place,
            parallelism=parallelism,
        )
        at_append = topics.KEEP | {"message.timestamp.type": "LogAppendTime"}
        created = {
            self.work.stream: topics.KEEP,
            self.work.table: topics.COMPACTED,
            self.work.enriched: at_append,
        }
        topics.create(self._brokers, created, self.work.partitions)
        self._next = 0

    def start(self) -> Run:
        """Start it, with processes that live."""
        run = self.system.start(self.work)
        assert run.pids()
        assert run.problem() is None
        return run

    def write_rows(self, drafts: Iterable[Draft]) -> None:
        topics.produce(self._brokers, self.work.table, drafts)

    def write_events(self, count: int) -> set[int]:
        """Write the next events; returns their numbers."""
        first, self._next = self._next, self._next + count
        drafts = records.events(first, count, _ROWS, _now_ms())
        topics.produce(self._brokers, self.work.stream, drafts)
        return set(range(first, first + count))

    def ask(self, row: int, tier: str, run: Run) -> int:
        """Write events for one row until one comes out with that tier; returns its number."""
        asked: set[int] = set()

        def answered() -> bool:
            if found := [n for n, value in self.enriched() if n in asked and value["tier"] == tier]:
                asked.clear()
                asked.add(found[0])
                return True
            asked.add(self._write_event_for(row))
            return False

        wait_until(answered, deadline_s=_DEADLINE_S, what=f"tier {tier}", give_up=run.problem)
        return asked.pop()

    def all_right(self, numbers: set[int], run: Run) -> None:
        """Wait until all of these are out, and assert that none is or was wrong."""
        wait_until(
            lambda: numbers <= {n for n, _ in self.enriched()},
            deadline_s=_DEADLINE_S,
            what=f"{len(numbers)} events",
            give_up=run.problem,
        )
        wrong = [
            value
            for n, value in self.enriched()
            if n in numbers and not records.is_right(json.dumps(value).encode())
        ]
        assert wrong == []

    def times(self, numbers: set[int]) -> Counter[int]:
        """How often each of these came out."""
        return Counter(n for n, _ in self.enriched() if n in numbers)

    def enriched(self) -> list[tuple[int, dict[str, Any]]]:
        """Number and value of each enriched event."""
        values = [json.loads(one.value or b"") for one in self._read()]
        return [(int(value["n"]), value) for value in values]

    def _read(self) -> list[Any]:
        return list(topics.read(self._brokers, self.work.enriched))

    def _write_event_for(self, row: int) -> int:
        n, self._next = self._next, self._next + 1
        value = {"id": f"c{row}", "n": n, "pad": "x" * records.PAD_BYTES}
        draft = Draft(b"o%d" % n, json.dumps(value).encode(), (), _now_ms())
        topics.produce(self._brokers, self.work.stream, [draft])
        return n


def check(system: System, kafka: Kafka, place: Path, parallelism: int) -> None:
    """Load, join, follow an update, and (where it says so) go on after a restart."""
    system.prepare()
    peer = Peer(system, kafka, place, parallelism)
    # Older than every event, as a table is that was loaded before; and each row twice, which a
    # system reads in one go.
    hour_ago = _now_ms() - _HOUR_MS
    peer.write_rows(_replaced(row, hour_ago - 1) for row in records.rows(_ROWS, _ROW_BYTES, 0))
    peer.write_rows(records.rows(_ROWS, _ROW_BYTES, hour_ago))
    with peer.start() as run:
        peer.ask(_ROWS - 1, records.tier(_ROWS - 1), run)
        written = peer.write_events(_EVENTS)
        peer.all_right(written, run)
        # A row's new version replaces the old one: no event meets both.
        peer.write_rows([_replaced(records.row(7, _ROW_BYTES, 0), _now_ms())])
        asked = peer.ask(7, _OTHER, run)
        assert peer.times({asked}) == {asked: 1}
        peer.write_rows([records.row(7, _ROW_BYTES, _now_ms())])
        peer.ask(7, records.tier(7), run)
        pids = run.pids()
        if system.restarts:
            run.stop()
            assert gone(pids)
    assert gone(pids)
    if system.restarts:
        written = peer.write_events(_EVENTS)
        with peer.start() as run:
            # Not asked for anything first: it still has its rows.
            peer.all_right(written, run)
            assert run.state_bytes()
            pids = run.pids()
        assert gone(pids)


def gone(pids: list[int]) -> bool:
    """Whether none of these processes lives."""
    return bool(pids) and not any(map(psutil.pid_exists, pids))


def _replaced(row: Draft, written_ms: int) -> Draft:
    """The row with a tier that is not its own."""
    value = json.dumps({**json.loads(row.value or b""), "tier": _OTHER}).encode()
    return Draft(row.key, value, (), written_ms)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
