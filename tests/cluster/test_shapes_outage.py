"""A broker that is away when the job, or one of its attempts, starts, and while the table loads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.stack.flink import FlinkCluster
from tests.cluster.conftest import NewJob
from tests.support.join_job import JoinJob, order_of, product
from tests.support.kafka import Kafka
from tests.support.own_broker import broker_of, own_kafka, paused
from udfs.core.errors import StackError

_PAUSE_S = 5.0


@pytest.fixture
def job(flink: FlinkCluster, tmp_path: Path) -> Iterator[JoinJob]:
    """A job on a broker of its own."""
    with own_kafka(tmp_path / "broker") as kafka:
        made = JoinJob(kafka, flink, tmp_path)
        yield made
        made.cancel()


@pytest.mark.full
def test_brokers_away_at_submission_are_named_and_nothing_is_submitted(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(brokers="127.0.0.1:1")
    with pytest.raises(StackError, match=r"(?s)nothing was submitted.*127\.0\.0\.1:1"):
        job.start()


@pytest.mark.full
def test_a_broker_away_when_an_attempt_starts_is_waited_for(
    job: JoinJob, flink: FlinkCluster
) -> None:
    job.kafka.produce(job.products, [product(f"p{n}", f"old-{n}") for n in range(1_000)])
    job.kafka.produce(job.orders, [order_of("first", "p1")])
    job.start()
    job.wait_for(1)
    job.wait_until(lambda: job.completed_checkpoints() > 0, "a checkpoint")
    job.kill_task_manager()
    job.kafka.produce(job.products, [product("p1", "new"), product("p2000", "added")])
    job.kafka.produce(job.orders, [order_of("second", "p1"), order_of("third", "p2000")])
    broker_of(job.kafka).stop()
    flink.start_taskmanager()
    job.wait_until(lambda: "NoAnswerError" in job.failure(), "an attempt without brokers")
    assert job.products in job.failure()
    broker_of(job.kafka).start()
    job.wait_until(lambda: len(job.outcomes(once=False)) == 3, "all orders")
    expected = {"first": "old-1", "second": "new", "third": "added"}
    assert job.outcomes(once=False) == expected


@pytest.mark.full
def test_a_broker_that_stands_still_during_the_load_opens_nothing(job: JoinJob) -> None:
    rows = 150_000
    job.kafka.produce(job.products, [product(f"p{n}", f"name-{n}") for n in range(rows)])
    asked = [0, 1, *range(rows - 100, rows)]
    job.kafka.produce(job.orders, [order_of(f"p{n}", f"p{n}") for n in asked])
    job.start()
    opened = job.times_opened()
    with paused(job.kafka):
        assert opened == 0, "the load was over before the pause: more rows are needed here"
        until = time.monotonic() + _PAUSE_S
        # What was fetched before may still be loaded, but it cannot be the whole table.
        job.wait_until(lambda: time.monotonic() > until, "end of the pause")
        assert job.times_opened() == 0
    job.wait_for(len(asked))
    assert job.outcomes(once=False) == {f"p{n}": f"name-{n}" for n in asked}
