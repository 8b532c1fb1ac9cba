"""Table topics that are no longer what the state belongs to: recreated, truncated, gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops import flink_run
from ops.stack.flink import FlinkCluster
from tests.cluster.conftest import NewJob
from tests.support.compaction import COMPACTED
from tests.support.join_job import JoinJob, order_of, product
from tests.support.kafka import Kafka
from tests.support.own_broker import own_kafka, truncate


def _rows(count: int, version: str) -> list[tuple[bytes, bytes]]:
    return [product(f"p{n}", f"{version}-{n}") for n in range(count)]


def _run_once(job: JoinJob) -> None:
    job.start()
    job.kafka.produce(job.orders, [order_of("first", "p1")])
    job.wait_for(1)
    assert job.outcomes() == {"first": "old-1"}


def _assert_nothing_is_joined(job: JoinJob) -> None:
    """Write orders for a job whose attempts fail, and see that two more of these join none."""
    job.kafka.produce(job.orders, [order_of("second", "p1"), order_of("third", "p500")])
    before = flink_run.restarts(job.flink, job.job_id)
    job.wait_until(
        lambda: flink_run.restarts(job.flink, job.job_id) >= before + 2, "two more attempts"
    )
    assert job.outcomes() == {"first": "old-1"}


def _wait_refused(job: JoinJob, *words: str) -> None:
    """Return when an attempt died of a TargetError with all these words."""
    job.wait_until(
        lambda: "TargetError" in job.failure() and all(word in job.failure() for word in words),
        f"an attempt refused with {words}",
    )


# test_state_identity.py has the like of it for every day.
@pytest.mark.full
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(3, id="shorter"),
        pytest.param(2_000, id="longer than before"),
    ],
)
def test_a_topic_recreated_before_a_restart_is_refused_and_nothing_is_joined(
    kafka: Kafka, new_job: NewJob, rows: int
) -> None:
    job = new_job(table_partitions=1)
    kafka.produce(job.products, _rows(1_000, "old"))
    _run_once(job)
    savepoint = job.stop()
    kafka.delete_topic(job.products)
    kafka.create_exactly(job.products, 1, {"cleanup.policy": "compact"})
    kafka.produce(job.products, _rows(rows, "new"))
    kafka.produce(job.orders, [order_of("second", "p1"), order_of("third", "p500")])
    job.start(from_savepoint=savepoint, wait=False)
    _wait_refused(job, "belongs to another table topic")
    assert job.outcomes() == {"first": "old-1"}


@pytest.mark.full
def test_a_topic_recreated_while_the_job_runs_stops_it_and_every_attempt_after(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(table_partitions=1)
    kafka.produce(job.products, _rows(1_000, "old"))
    _run_once(job)
    kafka.delete_topic(job.products)
    kafka.create_exactly(job.products, 1, {"cleanup.policy": "compact"})
    kafka.produce(job.products, _rows(2_000, "new"))
    _wait_refused(job, job.products)
    _assert_nothing_is_joined(job)


@pytest.mark.full
@pytest.mark.parametrize(
    "rows", [pytest.param(3, id="shorter"), pytest.param(2_000, id="longer than before")]
)
def test_a_topic_recreated_while_the_table_loads_is_refused_and_nothing_is_joined(
    kafka: Kafka, new_job: NewJob, rows: int
) -> None:
    job = new_job(table_partitions=1)
    kafka.produce(job.products, _rows(1_000, "old"))
    kafka.produce(job.orders, [order_of("first", "p1"), order_of("second", "p500")])
    # An unfinished transaction keeps the gate shut while the test takes the topic away.
    with kafka.transaction() as gatekeeper:
        gatekeeper.produce(job.products, b'{"name":"ghost"}', b"ghost")
        gatekeeper.flush()
        job.start()
        kafka.delete_topic(job.products)
        kafka.create_exactly(job.products, 1, {"cleanup.policy": "compact"})
        kafka.produce(job.products, _rows(rows, "new"))
        _wait_refused(job, job.products)
    assert job.outcomes() == {}


@pytest.mark.full
def test_a_topic_that_goes_missing_is_named_by_every_attempt_and_nothing_is_joined(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(table_partitions=1)
    kafka.produce(job.products, _rows(1_000, "old"))
    _run_once(job)
    kafka.delete_topic(job.products)
    _wait_refused(job, job.products)
    _assert_nothing_is_joined(job)


@pytest.mark.full
def test_a_log_end_that_moved_back_is_refused_with_the_offsets(
    flink: FlinkCluster, tmp_path: Path
) -> None:
    with own_kafka(tmp_path / "broker") as kafka:
        # For its short segments; there is nothing to compact.
        job = JoinJob(kafka, flink, tmp_path, table_partitions=1, table_config=COMPACTED)
        try:
            for row in _rows(10, "old"):
                kafka.produce(job.products, [row])
            _run_once(job)
            savepoint = job.stop()
            truncate(kafka, job.products, 0)
            (_, end) = kafka.bounds(job.products)[0]
            assert 0 < end < 10
            kafka.produce(job.orders, [order_of("second", "p1")])
            job.start(from_savepoint=savepoint, wait=False)
            _wait_refused(job, f"{job.products}[0] ends at offset {end}", "up to offset 9")
            assert job.outcomes() == {"first": "old-1"}
        finally:
            job.cancel()
