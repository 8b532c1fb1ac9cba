"""The table in every subtask, on a real cluster: the same answers, whatever happens to the job."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.conftest import NewJob
from tests.cluster.test_consistency import CONTINUOUS
from tests.support.join_job import JoinJob, order_of, product
from tests.support.kafka import Kafka, Message

BROADCAST: dict[str, dict[str, Any]] = {"join": {"lookup_state": "broadcast"}}
# Longer than the test: a hit before it ends is one that did not wait for it.
_PATIENT = {"miss": {"grace_ms": 600_000, "retry_after": ""}}
_KEYS = [f"p{n}" for n in range(40)]


def _ask(job: JoinJob, name: str) -> None:
    """An order for each product, under names that begin with ``name``."""
    job.kafka.produce(job.orders, [order_of(f"{name} {key}", key) for key in _KEYS])


def _wait_for(job: JoinJob, names: set[str]) -> None:
    job.wait_until(lambda: names <= job.outcomes().keys(), f"answers to {sorted(names)[:5]}")


def test_every_subtask_has_the_whole_table_also_after_a_restart_with_another_number_of_them(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(settings=BROADCAST | _PATIENT | {"job": {"parallelism": 2}})
    rows = [Message(*product(key, f"old {key}")) for key in _KEYS]
    kafka.produce(job.products, [*rows, Message(b"p1", b"{broken"), Message(b"gone", None)])
    _ask(job, "held")
    kafka.produce(job.orders, [order_of("early", "late"), order_of("for ever", "gone")])
    job.start()
    _wait_for(job, {f"held {key}" for key in _KEYS})
    # A row whose event waits in one of the two subtasks, and one that replaces another.
    job.wait_until(lambda: job.counted("parked_events") == 2, "both misses parked")
    kafka.produce(job.products, [product("late", "at last"), product("p2", "new p2")])
    _wait_for(job, {"early"})
    savepoint = job.stop()
    assert len(job.dead_rows()) == 1, "of an unreadable row one subtask speaks"
    kafka.produce(job.products, [product("p3", "new p3"), product("gone", "back")])
    job.start(from_savepoint=savepoint, overrides=["job.parallelism=1"])
    _ask(job, "again")
    expected = {f"held {key}": f"old {key}" for key in _KEYS}
    expected |= {f"again {key}": f"old {key}" for key in _KEYS}
    expected |= {"again p2": "new p2", "again p3": "new p3"}
    expected |= {"early": "at last", "for ever": "back"}
    _wait_for(job, set(expected))
    assert job.outcomes() == expected


@pytest.mark.full
@pytest.mark.parametrize("other", ["keyed", "broadcast"])
def test_a_savepoint_of_the_other_lookup_is_refused(
    kafka: Kafka, new_job: NewJob, other: str
) -> None:
    job = new_job(settings={"join": {"lookup_state": other}})
    kafka.produce(job.products, [product("p1", "mug")])
    kafka.produce(job.orders, [order_of("first", "p1")])
    job.start()
    _wait_for(job, {"first"})
    savepoint = job.stop()
    wanted = {"keyed": "broadcast", "broadcast": "keyed"}[other]
    job.start(from_savepoint=savepoint, overrides=[f"join.lookup_state={wanted}"], wait=False)
    log = "Cannot map checkpoint/savepoint state"
    job.wait_until(lambda: log in job.flink.logs(), "refusal by Flink")


@pytest.mark.full
def test_misses_say_why_and_come_back_marked(kafka: Kafka, new_job: NewJob) -> None:
    job = new_job(
        settings=BROADCAST
        # A grace, as the row may come by behind the newer event that asks for it.
        | {"miss": {"grace_ms": 5_000, "retry_after": "20 s, 1 h"}, "job": {"parallelism": 2}}
    )
    kafka.produce(job.products, [Message(*product("p1", "mug")), Message(b"p2", None)])
    kafka.produce(job.orders, [order_of("hit", "p1"), order_of("deleted", "p2")])
    kafka.produce(job.orders, [order_of("unknown", "p3")])
    job.start()
    job.wait_for(3)
    verdicts = {r.key: r.header("tablegate-verdict") for r in job.read("retry")}
    assert verdicts == {b"deleted": "DELETED", b"unknown": "NOT_FOUND"}
    kafka.produce(job.products, [product("p3", "jar")])
    kafka.produce(job.orders, [order_of("newer", "p3")])
    job.wait_until(lambda: len(job.read("enriched")) == 3, "the one that came back")
    late = {r.key: r.header("tablegate-late") for r in job.read("enriched")}
    assert late == {b"hit": None, b"newer": None, b"unknown": "1"}


@pytest.mark.full
def test_in_continuous_mode_an_event_sees_every_row_written_before_it(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(settings=BROADCAST | CONTINUOUS | {"job": {"parallelism": 2}})
    kafka.produce(job.products, [product(key, "0") for key in _KEYS])
    job.start()
    for version in range(1, 21):
        for key in _KEYS:
            kafka.produce(job.products, [product(key, str(version))])
            kafka.produce(job.orders, [order_of(f"{version} {key}", key)])
    job.wait_for(20 * len(_KEYS))
    outcomes = job.outcomes()
    assert len(outcomes) == 20 * len(_KEYS)
    stale = {o: seen for o, seen in outcomes.items() if int(seen) < int(o.partition(" ")[0])}
    assert stale == {}
