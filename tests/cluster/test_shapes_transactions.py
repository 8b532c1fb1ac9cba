"""Transactions on the table topic that are unfinished when the job starts."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from tests.cluster.conftest import NewJob
from tests.support.join_job import JoinJob, order_of
from tests.support.kafka import Kafka
from tests.support.topic_shapes import row


def test_the_stream_is_held_until_the_last_unfinished_transaction_has_ended(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(table_partitions=4)
    ways = ("committed", "aborted", "never ended")
    with ExitStack() as stack:
        unfinished = [stack.enter_context(kafka.transaction()) for _ in ways]
        for partition, (way, writer) in enumerate(zip(ways, unfinished, strict=True)):
            _write_around(job, partition, way, writer)
        kafka.produce(job.products, [row(3, "elsewhere", "there")])
        kafka.produce(job.orders, [order_of("elsewhere", "elsewhere")])
        job.start()
        job.wait_until(lambda: job.gate_said("shut") > 0, "the gate's report that it is shut")
        assert job.written() == 0

        unfinished[0].commit_transaction()
        unfinished[1].abort_transaction()
        # Never, as far as a test can tell: it is still shut when it has reported that once more.
        before = job.gate_said("shut")
        job.wait_until(lambda: job.gate_said("shut") > before, "another such report")
        assert job.written() == 0
        assert job.times_opened() == 0
        assert not job.gate_is_open()

        unfinished[2].abort_transaction()
    job.wait_for(10)
    expected = {
        "elsewhere": "there",
        "committed: inside": "new",
        "aborted: inside": "old",
        "never ended: inside": "old",
    }
    for way in ways:
        expected |= {f"{way}: before": "old", f"{way}: behind": "later"}
    assert job.outcomes() == expected


@pytest.mark.full
def test_a_crashed_writer_holds_the_stream_only_until_the_broker_aborts_its_transaction(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(table_partitions=1)
    # Left open on purpose, for longer than a job takes to start.
    with kafka.transaction(timeout_ms=60_000) as crashed:
        _write_around(job, 0, "crashed", crashed)
        job.start()
        assert job.written() == 0, "the broker aborted it before the job ran: give it more time"
        job.wait_for(3)
    assert job.outcomes() == {
        "crashed: before": "old",
        "crashed: inside": "old",
        "crashed: behind": "later",
    }


@pytest.mark.full
def test_who_reads_uncommitted_joins_with_rows_of_an_unfinished_transaction(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(table_partitions=1, settings={"table": {"isolation_level": "read_uncommitted"}})
    with kafka.transaction() as writer:
        _write_around(job, 0, "unfinished", writer)
        job.start()
        job.wait_for(3)
        expected = {
            "unfinished: before": "old",
            "unfinished: inside": "new",
            "unfinished: behind": "later",
        }
        assert job.outcomes() == expected
        # They stay: this reader never learns that they were taken back.
        writer.abort_transaction()
    kafka.produce(job.orders, [order_of("after the abort", "unfinished: inside")])
    job.wait_for(4)
    assert job.outcomes() == expected | {"after the abort": "new"}


def _write_around(job: JoinJob, partition: int, name: str, writer: Producer) -> None:
    """Rows before, inside and behind the writer's transaction, and an order for each."""
    before, inside, behind = (f"{name}: {where}" for where in ("before", "inside", "behind"))
    job.kafka.produce(job.products, [row(partition, before, "old"), row(partition, inside, "old")])
    key, value, *_ = row(partition, inside, "new")
    writer.produce(job.products, value, key, partition=partition)
    writer.flush()
    job.kafka.produce(job.products, [row(partition, behind, "later")])
    job.kafka.produce(job.orders, [order_of(key, key) for key in (before, inside, behind)])
