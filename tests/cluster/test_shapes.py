"""Every end that a partition of the table topic can have, all in one topic, one partition each."""

from __future__ import annotations

import pytest

from tests.cluster.conftest import NewJob
from tests.support.join_job import order_of
from tests.support.kafka import Kafka
from tests.support.topic_shapes import ISOLATIONS, SHAPES, check
from udfs.core.gate import Target
from udfs.targets import TargetResolver

# Not compacted, so that each shape stays as it was made: a compacted topic takes neither records
# without a key nor a request to delete records.
CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1"}


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_targets_of_every_shape(kafka: Kafka, isolation: str) -> None:
    topic = kafka.create_topic("products", len(SHAPES), CONFIG)
    _write_shapes(kafka, topic)
    which = ISOLATIONS.index(isolation)
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    with TargetResolver(client, topic, isolation) as resolver:
        targets = resolver.resolve()
    found = {shape.name: targets[partition] for partition, shape in enumerate(SHAPES)}
    assert found == {s.name: Target(*s.bounds, s.last[which]) for s in SHAPES}


@pytest.mark.parametrize(
    "isolation",
    ["read_committed", pytest.param("read_uncommitted", marks=pytest.mark.full)],
)
def test_an_order_for_every_shape_gets_its_right_answer(
    kafka: Kafka, new_job: NewJob, isolation: str
) -> None:
    job = new_job(
        table_partitions=len(SHAPES),
        table_config=CONFIG,
        settings={"table": {"isolation_level": isolation}},
    )
    _write_shapes(kafka, job.products)
    which = ISOLATIONS.index(isolation)
    expected = {
        f"{shape.name}: {key}": outcome[which]
        for shape in SHAPES
        for key, outcome in shape.outcomes.items()
    }
    dead = {f"{job.products}[{p}]@{o}" for p, s in enumerate(SHAPES) for o in s.dead}
    for shape in SHAPES:
        kafka.produce(job.orders, [order_of(f"{shape.name}: {key}", key) for key in shape.outcomes])
    job.start()
    job.wait_for(len(expected) + len(dead))
    assert job.outcomes() == expected
    assert job.dead_rows() == dead


def _write_shapes(kafka: Kafka, topic: str) -> None:
    for partition, shape in enumerate(SHAPES):
        shape.make(kafka, topic, partition)
    check(kafka, topic, SHAPES)
