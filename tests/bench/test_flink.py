"""Each system on Flink does the work: a broker, a table, events, the right answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import records
from bench.systems.contract import Run, System, Work
from bench.systems.flink_limits import LimitJvm, LimitPyflink
from bench.systems.flink_peers import FlinkSqlTemporal, PyflinkNaiveProcess, PyflinkNaiveThread
from bench.systems.limit_broker import LimitBroker
from bench.systems.tablegate import (
    TablegateDatastream,
    TablegateDatastreamBroadcast,
    TablegateDatastreamNoGate,
    TablegateSql,
    TablegateSqlNoGate,
)
from ops.demo import topics
from ops.stack.processes import ours
from tests.support.kafka import Kafka, unique

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.timeout(900)]

_ROWS, _EVENTS = 1_000, 2_000
# Of probes: none of the events that are counted.
_PROBES = 1_000_000
_DEADLINE_S = 300


class Bench:
    """Topics of one run, and what stands in them."""

    def __init__(self, kafka: Kafka, place: Path, name: str) -> None:
        self.brokers = kafka.bootstrap_servers
        self._kafka = kafka
        self._probes = _PROBES
        self.work = Work(
            brokers=self.brokers,
            name=unique(name),
            stream=kafka.create_topic("stream", 4, topics.KEEP),
            table=kafka.create_topic("table", 4, topics.COMPACTED),
            enriched=kafka.create_topic(
                "enriched", 4, {**topics.KEEP, "message.timestamp.type": "LogAppendTime"}
            ),
            place=place,
        )

    def write_rows(self) -> None:
        topics.produce(self.brokers, self.work.table, records.rows(_ROWS, 500, _now_ms()))

    def write_events(self, first: int, count: int) -> None:
        """Each with the time at which it is written, as a producer does it."""
        written = (records.event(n, _ROWS, _now_ms()) for n in range(first, first + count))
        topics.produce(self.brokers, self.work.stream, written)

    def probe(self) -> None:
        self.write_events(self._probes, 1)
        self._probes += 1

    def values(self) -> list[bytes | None]:
        return [record.value for record in self._kafka.consume_all(self.work.enriched)]

    def right(self) -> set[int]:
        """Numbers of the events that came out right."""
        return {
            json.loads(value)["n"] for value in self.values() if value and records.is_right(value)
        }

    def wait(
        self,
        run: Run,
        met: Callable[[], bool],
        what: str,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        end = time.monotonic() + _DEADLINE_S
        while not met():
            assert (problem := run.problem()) is None, problem
            assert time.monotonic() < end, f"{what}: not within {_DEADLINE_S} s"
            meanwhile()
            time.sleep(0.5)

    def wait_right(self, run: Run, wanted: range) -> None:
        self.wait(run, lambda: set(wanted) <= self.right(), f"events {wanted} right")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize(
    "system",
    [TablegateDatastream(), TablegateSql(), FlinkSqlTemporal(), PyflinkNaiveThread()],
    ids=lambda system: system.name,
)
def test_every_event_comes_out_right_also_over_a_restart(
    system: System, kafka: Kafka, tmp_path: Path
) -> None:
    bench = Bench(kafka, tmp_path / "run", system.name)
    with _joined(bench, system) as run:
        bench.wait(run, lambda: bool(run.state_bytes()), "a checkpoint")
        run.stop()
    assert ours(bench.work.place) == []
    assert system.restarts
    bench.write_events(_EVENTS, 100)
    with system.start(bench.work) as run:
        bench.wait_right(run, range(_EVENTS, _EVENTS + 100))
        numbers = [json.loads(value or b"{}")["n"] for value in bench.values()]
        assert sum(n < _EVENTS for n in numbers) == _EVENTS, "it went on, and did not begin again"
        gate_s = run.gate_open_s()
        assert (gate_s is not None) == system.gated
        assert gate_s is None or abs(gate_s) < 60
    assert ours(bench.work.place) == []
    assert run.pids() == []


# What these have of their own is how they begin.
@pytest.mark.parametrize(
    "system",
    [
        TablegateDatastreamBroadcast(),
        TablegateDatastreamNoGate(),
        TablegateSqlNoGate(),
        PyflinkNaiveProcess(),
    ],
    ids=lambda system: system.name,
)
def test_every_event_comes_out_right(system: System, kafka: Kafka, tmp_path: Path) -> None:
    bench = Bench(kafka, tmp_path / "run", system.name)
    _joined(bench, system).close()
    assert ours(bench.work.place) == []


def _joined(bench: Bench, system: System) -> Run:
    """The system, with every event out and right."""
    bench.write_rows()
    if system.gated:
        bench.write_events(0, _EVENTS)
    system.prepare()
    run = system.start(bench.work)
    try:
        if not system.gated:
            bench.wait(run, lambda: bool(bench.right()), "a right answer", meanwhile=bench.probe)
            bench.write_events(0, _EVENTS)
        bench.wait_right(run, range(_EVENTS))
        if system.gated:
            assert all(map(records.is_right, bench.values()))
        assert len(run.pids()) == 2
    except BaseException:
        run.close()
        raise
    return run


@pytest.mark.parametrize(
    "system", [LimitBroker(), LimitJvm(), LimitPyflink()], ids=lambda system: system.name
)
def test_a_limit_passes_every_event_on(system: System, kafka: Kafka, tmp_path: Path) -> None:
    bench = Bench(kafka, tmp_path / "run", system.name)
    bench.write_events(0, _EVENTS)
    system.prepare()
    with system.start(bench.work) as run:
        bench.wait(run, lambda: len(bench.values()) == _EVENTS, "every event passed on")
        assert run.pids()
    found = [json.loads(value or b"{}") for value in bench.values()]
    assert {event["n"] for event in found} == set(range(_EVENTS))
    assert all(len(event["pad"]) == records.PAD_BYTES for event in found)
    assert ours(bench.work.place) == []
