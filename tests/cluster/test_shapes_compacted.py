"""Table topics that the broker's own cleaner has worked on: holes, and nothing left at all."""

from __future__ import annotations

import time

import pytest

from tests.cluster.conftest import NewJob
from tests.support.compaction import COMPACTED, EXPIRING, HOLE_OUTCOMES, HOLES, write_holes
from tests.support.join_job import order_of, product
from tests.support.kafka import Kafka, Message
from tests.support.topic_shapes import ISOLATIONS
from udfs.core.gate import Target
from udfs.targets import TargetResolver


def test_targets_are_readable_records_and_never_holes(kafka: Kafka) -> None:
    topic = kafka.create_topic("products", len(HOLES), COMPACTED)
    bounds = write_holes(kafka, topic)
    last = {p: offsets[-1] if offsets else None for p, offsets in enumerate(HOLES.values())}
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    for isolation in ISOLATIONS:
        with TargetResolver(client, topic, isolation) as resolver:
            targets = resolver.resolve()
        assert targets == {p: Target(*bounds[p], last[p]) for p in bounds}, isolation


def test_holes_in_a_compacted_table_do_not_keep_the_gate_shut(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(table_partitions=len(HOLES), table_config=COMPACTED)
    write_holes(kafka, job.products)
    kafka.produce(job.orders, [order_of(key, key) for key in HOLE_OUTCOMES])
    job.start()
    job.wait_for(len(HOLE_OUTCOMES))
    assert job.outcomes() == HOLE_OUTCOMES


@pytest.mark.full
def test_a_partition_that_retention_emptied_is_not_waited_for(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(table_partitions=2, table_config=EXPIRING)
    kafka.produce(job.products, [Message(*product("p1", "gone"), partition=0)] * 57)
    deadline = time.monotonic() + 30
    while kafka.bounds(job.products)[0] != (57, 57):
        assert time.monotonic() < deadline, "retention did not empty the partition"
        time.sleep(0.1)
    # Its timestamp is ahead of retention's clock.
    ahead = int(time.time() * 1000) + 3_000_000
    kafka.produce(job.products, [Message(*product("p2", "left"), timestamp=ahead, partition=1)])
    kafka.produce(job.orders, [order_of("expired", "p1"), order_of("left", "p2")])
    job.start()
    job.wait_for(2)
    assert job.outcomes() == {"expired": "NOT_FOUND", "left": "left"}
