"""How much is held while the gate is shut, on a real broker and a real cluster."""

from __future__ import annotations

import time

import pytest

from tests.cluster.conftest import NewJob
from tests.support.join_job import names, order, product
from tests.support.kafka import Kafka, Message
from udfs.brake import SLACK_EVENTS
from udfs.join_rules import Lookup

_BACKLOG = 3 * SLACK_EVENTS
_ROWS = 1_000
# Long enough for a slow machine to hold far more than the brake lets through in the same time.
_SHUT_S = 20.0
# In half of that: twice the brake's fifty a second.
_CREEP = 1_000
# For the pause of the source itself, which lets about 40,000 through before it takes hold.
_LONG_BACKLOG, _UNPAUSED = 200_000, 100_000


@pytest.mark.full
@pytest.mark.parametrize("lookup", Lookup)
def test_a_table_that_a_transaction_keeps_short_does_not_let_the_backlog_into_the_state(
    kafka: Kafka, new_job: NewJob, lookup: Lookup
) -> None:
    job = new_job(settings={"join": {"lookup_state": lookup.value}})
    kafka.produce(job.products, [product(f"p{n}", "old") for n in range(_ROWS)])
    kafka.produce(job.orders, (order(n, f"p{n % _ROWS}") for n in range(_BACKLOG)))
    with kafka.transaction() as writer:
        for key, value in (product(f"p{n}", "new") for n in range(_ROWS)):
            writer.produce(job.products, value, key)
        writer.flush()
        job.start()
        job.wait_until(lambda: job.held_events() >= SLACK_EVENTS, "as many held as may be")
        seen = []
        end = time.monotonic() + _SHUT_S
        # Not a wait for something: the claim is about what does not happen in this time.
        while time.monotonic() < end:
            seen.append(job.held_events())
            time.sleep(0.5)
        assert not job.gate_is_open()
        # A busy machine gives the table's last rows late: the brake may take hold late as well.
        assert seen[-1] - seen[len(seen) // 2] <= _CREEP
        assert seen[-1] < 2 * SLACK_EVENTS
        # Its barrier waits behind slow events, but not for ever.
        job.wait_until(lambda: job.completed_checkpoints() > 0, "a checkpoint")
        writer.commit_transaction(30)
    job.wait_for(_BACKLOG)
    joined = names(job.read("enriched"))
    assert joined == {f"o{n}".encode(): "new" for n in range(_BACKLOG)}
    assert job.read("retry") == job.read("dead") == []


@pytest.mark.full
def test_a_backlog_waits_in_its_topic_while_a_long_table_loads(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job()
    value = b'{"name":"' + b"x" * 300 + b'"}'
    kafka.produce(
        job.products, (Message(f"p{n}".encode(), value) for n in range(2 * _LONG_BACKLOG))
    )
    kafka.produce(job.orders, (order(n, f"p{n}") for n in range(_LONG_BACKLOG)))
    job.start()
    job.wait_open()
    job.wait_for(_LONG_BACKLOG)
    assert job.counted("held_events") <= _UNPAUSED
    assert len(names(job.read("enriched"))) == _LONG_BACKLOG
    assert job.read("retry") == job.read("dead") == []
