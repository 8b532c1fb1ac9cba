"""State that belongs to something else is refused; state that can be kept is kept."""

from __future__ import annotations

import pytest

from ops import flink_run
from tests.cluster.conftest import NewJob
from tests.support.join_job import JoinJob, order_of, product
from tests.support.kafka import Kafka


def _loaded(kafka: Kafka, job: JoinJob) -> str:
    """Run ``job`` over a small table, and return its savepoint."""
    kafka.produce(job.products, [product("p1", "mug"), product("p2", "cup")])
    kafka.produce(job.orders, [order_of("first", "p1")])
    job.start()
    job.wait_for(1)
    return job.stop()


def _refused(job: JoinJob, reason: str) -> None:
    job.wait_until(lambda: reason in flink_run.failure(job.flink, job.job_id), f"refusal: {reason}")


def test_state_of_another_table_or_key_rule_and_of_a_recreated_topic_is_refused(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job()
    savepoint = _loaded(kafka, job)
    other = kafka.create_topic("products", 2, {"cleanup.policy": "compact"})
    kafka.produce(other, [product(f"p{n}", "other") for n in range(50)])
    job.start(from_savepoint=savepoint, overrides=[f"table.topic={other}"], wait=False)
    _refused(job, "The restored state belongs to another table topic")
    job.cancel()
    # The same name, and longer than the old one: only the topic id tells.
    kafka.delete_topic(job.products)
    kafka.create_exactly(job.products, 2, {"cleanup.policy": "compact"})
    kafka.produce(job.products, [product(f"p{n}", "new") for n in range(50)])
    kafka.produce(job.orders, [order_of("second", "p1")])
    job.start(from_savepoint=savepoint, wait=False)
    _refused(job, "The restored state belongs to another table topic")
    assert job.outcomes() == {"first": "mug"}


@pytest.mark.full
def test_state_under_another_key_rule_is_refused(kafka: Kafka, new_job: NewJob) -> None:
    job = new_job()
    savepoint = _loaded(kafka, job)
    job.start(from_savepoint=savepoint, overrides=["stream.key.path=item"], wait=False)
    _refused(job, "The restored state belongs to another stream.key")


@pytest.mark.full
def test_a_topic_that_is_created_again_while_the_job_runs_stops_it(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job()
    kafka.produce(job.products, [product("p1", "mug")])
    kafka.produce(job.orders, [order_of("first", "p1")])
    job.start()
    job.wait_for(1)
    kafka.delete_topic(job.products)
    kafka.create_exactly(job.products, 2, {"cleanup.policy": "compact"})
    kafka.produce(job.products, [product(f"p{n}", "new") for n in range(50)])
    _refused(job, "was deleted and created again")


def test_a_table_loaded_without_the_stream_serves_the_whole_job_from_where_its_group_stands(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job()
    kafka.produce(job.products, [product("p1", "mug"), product("p2", "cup")])
    kafka.produce(job.orders, [order_of("first", "p1")])
    job.start()
    # With a checkpoint, not with the savepoint of the stop: that one leaves no time for it.
    job.wait_until(lambda: kafka.committed(job.orders, job.orders) == 1, "committed offset")
    job.stop()
    kafka.produce(job.products, [product("p1", "jar")])
    kafka.produce(job.orders, [order_of("second", "p1"), order_of("third", "p2")])
    job.start(job_arguments=["--table-only"])
    job.wait_open()
    savepoint = job.stop()
    assert job.outcomes() == {"first": "mug"}
    kafka.produce(job.orders, [order_of("fourth", "p3")])
    job.start(from_savepoint=savepoint, overrides=["stream.start=committed"])
    job.wait_for(4)
    assert job.outcomes() == {
        "first": "mug",
        "second": "jar",
        "third": "cup",
        "fourth": "NOT_FOUND",
    }


@pytest.mark.full
def test_a_job_that_was_down_for_longer_than_deletions_are_kept_says_so_or_does_not_start(
    kafka: Kafka, new_job: NewJob
) -> None:
    # A start takes far longer than this second.
    config = {"cleanup.policy": "compact", "delete.retention.ms": "1000"}
    job = new_job(table_config=config)
    savepoint = _loaded(kafka, job)
    job.start(from_savepoint=savepoint, overrides=["gate.on_expired_tombstones=fail"], wait=False)
    _refused(job, "rows that were deleted meanwhile may still be in the state")
    job.cancel()
    job.start(from_savepoint=savepoint)
    kafka.produce(job.orders, [order_of("second", "p2")])
    job.wait_for(2)
    assert job.outcomes() == {"first": "mug", "second": "cup"}
    assert f"gate of {job.products}: {job.products}: the state was last kept up to date" in (
        job.flink.logs()
    )
