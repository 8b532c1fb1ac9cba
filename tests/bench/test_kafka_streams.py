from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from bench import records
from bench.systems import kafka_streams_build
from bench.systems.contract import Run, System, Work
from bench.systems.kafka_streams import KafkaStreamsGlobal, KafkaStreamsKTable, properties
from ops.demo import topics
from ops.stack.processes import ours
from tests.support.kafka import Kafka, kafka_version, unique

ROWS = 1_000
EVENTS = 2_000
_DEADLINE_S = 120
_ROWS_MS = 1_700_000_000_000
# Older than every row: the one order in which time would not bring the rows first.
_EVENTS_MS = _ROWS_MS - 1

SYSTEMS: list[type[System]] = [KafkaStreamsKTable, KafkaStreamsGlobal]


class Outcome(NamedTuple):
    """What the enriched topic holds of some events."""

    seen: Counter[int]
    wrong: list[bytes | None]


def work(place: Path, **options: str) -> Work:
    return Work("broker:1", "one", "events", "rows", "enriched", place, 4, 2, options)


# ------------------------------------------------------------------------------ without a JVM


def test_the_peers_are_of_the_version_of_the_broker() -> None:
    assert kafka_streams_build.versions()["kafka-streams"] == kafka_version()


def test_a_restarted_run_is_known_to_its_group_and_finds_its_state(tmp_path: Path) -> None:
    first, second = properties(work(tmp_path)), properties(work(tmp_path))
    assert first == second
    assert first["application.id"] == first["group.instance.id"] == "one"
    assert Path(first["state.dir"]).is_relative_to(tmp_path)


def test_parallelism_is_the_number_of_threads(tmp_path: Path) -> None:
    assert properties(work(tmp_path))["num.stream.threads"] == "2"


def test_only_options_that_are_meant_for_streams_reach_it(tmp_path: Path) -> None:
    options = {"state": "hashmap", "heap": "2g", "streams.producer.linger.ms": "5"}
    found = properties(work(tmp_path, **options))
    assert found["producer.linger.ms"] == "5"
    assert not {"state", "heap", "streams.producer.linger.ms"} & set(found)


# ------------------------------------------------------------------------------ on a real broker


class Ground:
    """Topics of one run, filled with rows."""

    def __init__(self, kafka: Kafka, place: Path) -> None:
        self._brokers = kafka.bootstrap_servers
        stream, table, enriched = (unique(name) for name in ("events", "rows", "enriched"))
        appended = topics.KEEP | {"message.timestamp.type": "LogAppendTime"}
        wanted = {stream: topics.KEEP, table: topics.COMPACTED, enriched: appended}
        topics.create(self._brokers, wanted, 4)
        self.work = Work(self._brokers, unique("run"), stream, table, enriched, place)
        topics.produce(self._brokers, table, records.rows(ROWS, 500, _ROWS_MS))

    def write(self, first: int, count: int) -> range:
        drafts = records.events(first, count, ROWS, _EVENTS_MS)
        topics.produce(self._brokers, self.work.stream, drafts)
        return range(first, first + count)

    def outcome(self, events: Iterable[int]) -> Outcome:
        asked = set(events)
        values = [record.value for record in topics.read(self._brokers, self.work.enriched)]
        numbered = [(json.loads(value or b"{}").get("n"), value) for value in values]
        mine = [(n, value) for n, value in numbered if n in asked]
        wrong = [value for _, value in mine if not records.is_right(value)]
        return Outcome(Counter(n for n, _ in mine), wrong)

    def come_out(self, run: Run, events: range) -> Outcome:
        found = self.outcome(events)

        def complete() -> bool:
            nonlocal found
            found = self.outcome(events)
            return len(found.seen) == len(events)

        wait(run, complete, "all events")
        return found


def wait(run: Run, met: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not met():
        assert run.problem() is None
        assert time.monotonic() < deadline, f"{what}: not within {_DEADLINE_S} s"
        time.sleep(0.2)


def load(ground: Ground, run: Run) -> int:
    """Ask for every row until all are there; returns how many events that took."""
    asked = 0
    deadline = time.monotonic() + _DEADLINE_S
    while ground.come_out(run, ground.write(asked, ROWS)).wrong:
        assert time.monotonic() < deadline, f"rows are missing after {_DEADLINE_S} s"
        asked += ROWS
    return asked + ROWS


@pytest.mark.full
@pytest.mark.parametrize("kind", SYSTEMS, ids=lambda kind: kind.name)
def test_every_event_comes_out_right_and_a_restart_goes_on(
    kafka: Kafka, tmp_path: Path, kind: type[System]
) -> None:
    system = kind()
    system.prepare()
    ground = Ground(kafka, tmp_path / "run")
    events = ground.write(0, EVENTS) if system.gated else range(0)
    with system.start(ground.work) as run:
        if not system.gated:
            events = ground.write(load(ground, run), EVENTS)
        assert not ground.come_out(run, events).wrong
        run.stop()
        assert run.state_bytes()
        assert not run.pids()

    while_down = ground.write(events.stop, EVENTS)
    with system.start(ground.work) as run:
        assert not ground.come_out(run, while_down).wrong
        # A stop in order committed all of them: none comes twice.
        assert set(ground.outcome(events).seen.values()) == {1}
        # Not by pid alone: on a busy machine another process may have it by the end.
        assert [process.pid for process in ours(tmp_path)] == run.pids()
    assert not ours(tmp_path)
    assert run.problem() is not None
