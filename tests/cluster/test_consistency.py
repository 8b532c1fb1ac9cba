"""What events see all day, and what happens when the table does not come: on the real thing."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ops import flink_run
from tests.cluster.conftest import NewJob
from tests.support.join_job import JoinJob, order_of, product
from tests.support.kafka import Kafka

_PROBE = "probe"
CONTINUOUS = {"gate": {"consistency": "continuous", "tick_interval_ms": 100}}


def _logged(job: JoinJob, line: str) -> bool:
    return f"gate of {job.products}: {line}" in job.flink.logs()


def _ask_until(job: JoinJob, verdict: str) -> int:
    """Ask for a row that is not there until the join says ``verdict``: how often that took.

    The gate's log is ahead of its watermark, and an event may reach the join between the two.
    """
    asked = 0

    def told() -> bool:
        nonlocal asked
        asked += 1
        name = f"{_PROBE} {verdict} {asked}"
        job.kafka.produce(job.orders, [order_of(name, "p3")])
        job.wait_until(lambda: name in job.outcomes(), f"verdict of {name}")
        return bool(job.outcomes()[name] == verdict)

    job.wait_until(told, f"miss that is {verdict}")
    return asked


def _value_key(message: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """In the order in which Producer.produce takes them."""
    key, value = message
    return value, key


def test_in_continuous_mode_an_event_sees_every_row_written_before_it(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(settings=CONTINUOUS)
    kafka.produce(job.products, [product(f"p{n}", "0") for n in range(20)])
    kafka.produce(job.orders, [order_of("first", "p1")])
    job.start()
    job.wait_for(1)
    # Each order follows, at once, the row that it needs.
    for version in range(1, 31):
        for n in range(20):
            kafka.produce(job.products, [product(f"p{n}", str(version))])
            kafka.produce(job.orders, [order_of(f"{version} p{n}", f"p{n}")])
    job.wait_for(601)
    outcomes = job.outcomes()
    del outcomes["first"]
    stale = {o: seen for o, seen in outcomes.items() if int(seen) < int(o.partition(" ")[0])}
    assert len(outcomes) == 600
    assert stale == {}


def test_in_continuous_mode_a_table_that_falls_behind_holds_the_stream(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(settings=CONTINUOUS)
    kafka.produce(job.products, [product("p1", "old")])
    kafka.produce(job.orders, [order_of("before", "p1")])
    job.start()
    job.wait_for(1)
    with kafka.transaction() as writer:
        writer.produce(job.products, *_value_key(product("p1", "new")))
        writer.flush()
        kafka.produce(job.orders, [order_of("during", "p1")])
        job.wait_until(lambda: job.held_events() > 0, "held event")
        # A look that was made after the event was read finds the transaction unfinished.
        held_at = time.time()
        job.wait_until(lambda: time.time() - held_at > 3, "three seconds of ticks")
        assert job.outcomes() == {"before": "old"}
        writer.commit_transaction()
    job.wait_for(2)
    assert job.outcomes() == {"before": "old", "during": "new"}
    # Flink refreshes what it reports by a clock of its own.
    job.wait_until(lambda: job.held_events() == 0, "no held event")


def test_misses_say_whether_the_table_was_short_or_stale_or_had_no_row(
    kafka: Kafka, new_job: NewJob
) -> None:
    gate: dict[str, Any] = {"on_stall": "open", "stall_after_ms": 2_000, "max_table_lag_ms": 3_000}
    job = new_job(settings={"gate": gate}, partitions=1)
    kafka.produce(job.products, [product("p1", "mug")])
    with kafka.transaction() as writer:
        writer.produce(job.products, *_value_key(product("p2", "cup")))
        writer.flush()
        kafka.produce(job.orders, [order_of("loaded", "p1"), order_of("short", "p2")])
        job.start()
        job.wait_for(2)
        assert job.outcomes() == {"loaded": "mug", "short": "NOT_LOADED"}
        assert _logged(job, "stalled")
        assert f"{job.products}[0] is 1 offsets short of 1 (read up to offset 0)" in (
            job.flink.logs()
        )
        assert "a transaction that began at or before offset 1 is unfinished" in job.flink.logs()
        writer.commit_transaction()
    job.wait_until(lambda: _logged(job, "open after"), "open gate")
    asked = _ask_until(job, "NOT_FOUND")
    kafka.produce(job.orders, [order_of("open", "p2"), order_of("none", "p3")])
    job.wait_for(4 + asked)
    with kafka.transaction() as writer:
        writer.produce(job.products, *_value_key(product("p3", "jar")))
        writer.flush()
        job.wait_until(lambda: _logged(job, "stale, complete until"), "stale table")
        asked += _ask_until(job, "STALE_TABLE")
        kafka.produce(job.orders, [order_of("stale", "p3"), order_of("hit", "p1")])
        job.wait_for(6 + asked)
        writer.commit_transaction()
    job.wait_until(lambda: _logged(job, "no longer stale"), "table that has caught up")
    kafka.produce(job.orders, [order_of("after", "p3")])
    job.wait_for(7 + asked)
    outcomes = {name: seen for name, seen in job.outcomes().items() if _PROBE not in name}
    assert outcomes == {
        "loaded": "mug",
        "short": "NOT_LOADED",
        "open": "cup",
        "none": "NOT_FOUND",
        "stale": "STALE_TABLE",
        "hit": "mug",
        "after": "jar",
    }


@pytest.mark.full
def test_a_stalled_table_fails_the_attempt_when_the_policy_says_so(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(settings={"gate": {"on_stall": "fail", "stall_after_ms": 2_000}}, partitions=1)
    with kafka.transaction() as writer:
        writer.produce(job.products, *_value_key(product("p2", "cup")))
        writer.flush()
        kafka.produce(job.orders, [order_of("waits", "p2")])
        job.start()
        job.wait_until(
            lambda: (
                "a transaction that began at or before offset 0 is unfinished"
                in flink_run.failure(job.flink, job.job_id)
            ),
            "failed attempt",
        )
        assert job.outcomes() == {}
        writer.commit_transaction()
    job.wait_for(1)
    assert job.outcomes() == {"waits": "cup"}
