"""Table topics that change while the job loads them, and tasks not as many as the partitions."""

from __future__ import annotations

import json

import pytest

from tests.cluster.conftest import NewJob
from tests.support.join_job import JoinJob, order, order_of, product
from tests.support.kafka import Kafka, Message
from tests.support.topic_shapes import UNREADABLE, row, tombstone
from tests.support.writer import writing


def test_a_key_updated_before_at_and_after_the_target_is_joined_in_its_newest_form(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job(table_partitions=2)
    # An unfinished transaction in the other partition keeps the gate shut while the test writes.
    with kafka.transaction() as gatekeeper:
        gatekeeper.produce(job.products, b'{"name":"ghost"}', b"ghost", partition=1)
        gatekeeper.flush()
        rows = [
            row(0, "updated", "before"),
            row(0, "deleted later", "at"),
            tombstone(0, "comes back"),
            row(0, "not touched again", "before"),
            row(0, "updated", "at"),
        ]
        kafka.produce(job.products, rows)
        keys = ("updated", "deleted later", "comes back", "not touched again")
        kafka.produce(job.orders, [order_of(f"held: {key}", key) for key in keys])
        job.start()
        assert job.gate_said("targets of this attempt") == 1
        later = [
            row(0, "updated", "after"),
            tombstone(0, "deleted later"),
            row(0, "comes back", "after"),
        ]
        kafka.produce(job.products, later)
        _wait_applied(job, 0)
        assert job.outcomes() == {}
        gatekeeper.abort_transaction()
    job.wait_for(1 + 4)
    held = {
        "held: updated": "after",
        "held: deleted later": "DELETED",
        "held: comes back": "after",
        "held: not touched again": "before",
    }
    assert job.outcomes() == held

    kafka.produce(job.products, [row(0, "updated", "when open"), tombstone(0, "comes back")])
    _wait_applied(job, 0)
    kafka.produce(job.orders, [order_of(f"open: {key}", key) for key in keys])
    job.wait_for(2 + 8)
    assert job.outcomes() == held | {
        "open: updated": "when open",
        "open: deleted later": "DELETED",
        "open: comes back": "DELETED",
        "open: not touched again": "before",
    }


@pytest.mark.full
def test_a_table_that_is_written_all_the_time_opens_with_what_it_had_at_the_start(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job()
    keys = [f"p{n}" for n in range(10)]

    def send(numbers: range) -> None:
        # Keyed by the product, so that all orders of one keep their order, in and out.
        kafka.produce(job.orders, [(k.encode(), order(n, k)[1]) for n in numbers for k in keys])

    with writing(kafka, job.products, keys) as writer:
        kafka.produce(job.products, [product(f"filler-{n}", "x") for n in range(30_000)])
        at_submission = writer.version
        send(range(20))
        job.start()
        job.wait_open()
        while_written = writer.version
        send(range(20, 40))
        job.wait_for(40 * len(keys))
        # It never stopped: the gate did not wait for an end that moves.
        assert writer.version > while_written > at_submission
    for partition in (0, 1):
        _wait_applied(job, partition)
    send(range(40, 41))
    job.wait_for(41 * len(keys) + 2)

    joined: dict[str, list[tuple[int, int]]] = {key: [] for key in keys}
    for record in job.read("enriched"):
        event = json.loads(record.value or b"")
        joined[event["product"]].append((event["n"], int(event["product_name"])))
    for key, found in joined.items():
        numbers, versions = zip(*found, strict=True)
        assert numbers == tuple(range(41)), key
        assert versions[0] >= at_submission, key
        assert list(versions) == sorted(versions), f"{key}: an older row after a newer one"
        assert versions[-1] == writer.version, key


@pytest.mark.full
@pytest.mark.parametrize(("subtasks", "partitions"), [(2, 1), (1, 5)])
def test_subtasks_and_partitions_need_not_be_as_many(
    kafka: Kafka, new_job: NewJob, subtasks: int, partitions: int
) -> None:
    job = new_job(partitions=partitions)
    kafka.produce(job.products, [product(f"p{n}", f"name-{n}") for n in range(100)])
    held = {f"held: p{n}": f"name-{n}" if n < 100 else "NOT_FOUND" for n in range(110)}
    kafka.produce(job.orders, [order_of(f"held: p{n}", f"p{n}") for n in range(110)])
    job.start(overrides=[f"job.parallelism={subtasks}"])
    job.wait_for(110)
    assert job.outcomes() == held
    # A subtask without a partition must not keep checkpoints, or later events, from going on.
    done = job.completed_checkpoints()
    job.wait_until(lambda: job.completed_checkpoints() > done, "a checkpoint")
    kafka.produce(job.orders, [order_of(f"later: p{n}", f"p{n}") for n in range(110)])
    job.wait_for(220)
    later = {name.replace("held", "later"): outcome for name, outcome in held.items()}
    assert job.outcomes() == held | later


def _wait_applied(job: JoinJob, partition: int) -> None:
    """Return when every row that now stands in that partition has been applied to the table.

    A row that cannot be read is written behind them, and comes out as a dead letter after them.
    """
    (end,) = [e for p, e in job.kafka.end_offsets(job.products).items() if p == partition]
    job.kafka.produce(job.products, [Message(b"fence", UNREADABLE, partition=partition)])
    fence = f"{job.products}[{partition}]@{end}"
    job.wait_until(lambda: fence in job.dead_rows(), f"dead letter for {fence}")
