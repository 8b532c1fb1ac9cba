"""Partitions that are added to the table topic and to the stream topic."""

from __future__ import annotations

import pytest

from ops.stack.flink import FlinkCluster
from tests.cluster.conftest import NewJob
from tests.support.join_job import JoinJob, order_of, product
from tests.support.kafka import Kafka, Message
from tests.support.topic_shapes import row

ORDERS = 50


def _order(name: str, product: str, partition: int) -> Message:
    return Message(*order_of(name, product), partition=partition)


def _add_partition_2(job: JoinJob) -> dict[str, str]:
    """Give both topics, of two partitions, a third with records; returns what must become of them.

    The rows are in the table's new partition only, and so are the events in the stream's.
    """
    kafka = job.kafka
    kafka.add_partitions(job.products, 3)
    kafka.add_partitions(job.orders, 3)
    # Behind enough others to take a moment, so that an early gate would be seen.
    rows = [row(2, f"filler-{n}", "x") for n in range(20_000)]
    kafka.produce(job.products, [*rows, *(row(2, f"new-{n}", f"name-{n}") for n in range(ORDERS))])
    kafka.produce(job.orders, [_order(f"new: {n}", f"new-{n}", 2) for n in range(ORDERS)])
    kafka.produce(job.orders, [_order("old: 1", "new-1", 0), _order("old: 2", "p1", 1)])
    return {f"new: {n}": f"name-{n}" for n in range(ORDERS)} | {"old: 1": "name-1", "old: 2": "mug"}


def _read_both_partitions(job: JoinJob) -> set[str]:
    """Write orders until one of each partition of the stream has come out, and return their names.

    With ``stream.start = "latest"`` nobody else can tell from which order on the job reads.
    """
    sent: set[str] = set()

    def both_read() -> bool:
        seen = {name.split()[1] for name in job.outcomes(once=False)}
        if seen == {"0", "1"}:
            return True
        for partition in (0, 1):
            name = f"probe {partition} {len(sent)}"
            job.kafka.produce(job.orders, [_order(name, "p1", partition)])
            sent.add(name)
        return False

    job.wait_until(both_read, "an order of each partition")
    return sent


def _without(outcomes: dict[str, str], names: set[str]) -> dict[str, str]:
    return {name: outcome for name, outcome in outcomes.items() if name not in names}


def test_partitions_added_before_a_restart_are_read_from_their_beginning(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(settings={"stream": {"start": "latest"}})
    kafka.produce(job.products, [product("p1", "mug")])
    kafka.produce(job.orders, [_order("before the start", "p1", n) for n in (0, 1)])
    job.start()
    probes = _read_both_partitions(job)
    savepoint = job.stop()
    expected = _add_partition_2(job)
    job.start(from_savepoint=savepoint)
    job.wait_until(lambda: job.outcomes().keys() >= expected.keys(), "all orders")
    # And no order that was skipped at the first start has come back.
    assert _without(job.outcomes(), probes) == expected


@pytest.mark.full
def test_partitions_added_before_a_failover_are_read_from_their_beginning(
    kafka: Kafka, flink: FlinkCluster, new_job: NewJob
) -> None:
    job = new_job()
    kafka.produce(job.products, [product("p1", "mug")])
    kafka.produce(job.orders, [_order("first", "p1", 0)])
    job.start()
    job.wait_for(1)
    job.wait_until(lambda: job.completed_checkpoints() > 0, "a checkpoint")
    job.kill_task_manager()
    expected = {"first": "mug"} | _add_partition_2(job)
    flink.start_taskmanager()
    job.wait_until(lambda: job.outcomes(once=False).keys() >= expected.keys(), "all orders")
    assert job.outcomes(once=False) == expected


@pytest.mark.full
def test_partitions_added_while_the_gate_is_open_are_read_from_their_beginning(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(settings={"stream": {"start": "latest"}})
    kafka.produce(job.products, [product("p1", "mug")])
    kafka.produce(job.orders, [_order("before the start", "p1", n) for n in (0, 1)])
    job.start()
    probes = _read_both_partitions(job)
    # Rows first, and an order only then: an open gate of startup mode waits for no later row.
    kafka.add_partitions(job.products, 3)
    kafka.produce(job.products, [row(2, "p2", "cup"), Message(b"bad", b"{", partition=2)])
    job.wait_until(lambda: job.dead_rows() == {f"{job.products}[2]@1"}, "rows of the new partition")
    kafka.add_partitions(job.orders, 3)
    kafka.produce(job.orders, [_order(f"new: {n}", f"p{n % 3}", 2) for n in range(ORDERS)])
    names = {0: "NOT_FOUND", 1: "mug", 2: "cup"}
    expected = {f"new: {n}": names[n % 3] for n in range(ORDERS)}
    job.wait_until(lambda: job.outcomes().keys() >= expected.keys(), "all orders")
    assert _without(job.outcomes(), probes) == expected
    assert job.times_opened() == 1
