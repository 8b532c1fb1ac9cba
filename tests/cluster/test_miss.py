"""Misses on a real cluster: their grace, and the way round by the retry topic."""

from __future__ import annotations

import json

import pytest

from tests.cluster.conftest import NewJob
from tests.support.join_job import names, order, product
from tests.support.kafka import Kafka


def test_a_row_that_comes_a_little_later_is_waited_for_also_across_a_restart(
    new_job: NewJob,
) -> None:
    job = new_job(settings={"miss": {"grace_ms": 60_000, "retry_after": ""}})
    job.kafka.produce(job.products, [product("p0", "mug")])
    job.kafka.produce(job.orders, [order(n, f"p{n}") for n in range(3)])
    job.start()
    job.wait_for(1)
    job.kafka.produce(job.products, [product("p1", "cup")])
    job.wait_for(2)
    savepoint = job.stop()
    job.kafka.produce(job.products, [product("p2", "jar")])
    job.start(from_savepoint=savepoint)
    job.wait_for(3)
    assert names(job.read("enriched")) == {b"o0": "mug", b"o1": "cup", b"o2": "jar"}
    assert job.read("retry") == job.read("dead") == []


def test_when_a_grace_is_over_the_event_leaves_the_queue_of_its_key_whatever_that_is(
    new_job: NewJob,
) -> None:
    job = new_job(settings={"miss": {"grace_ms": 1_000, "retry_after": ""}})
    # An empty key, one of a letter and longer ones.
    wanted = ["", "w", "ww", "\u00e4\U0001f600", "w w"]
    job.kafka.produce(job.products, [product("p0", "mug")])
    job.kafka.produce(job.orders, [order(n, key) for n, key in enumerate(wanted)])
    job.start()
    job.wait_for(len(wanted))
    assert sorted(r.key or b"" for r in job.read("retry")) == [b"o0", b"o1", b"o2", b"o3", b"o4"]
    job.wait_until(lambda: job.counted("unparked_events") == len(wanted), "what left the queues")
    assert job.counted("parked_events") == len(wanted)
    assert job.failure() == ""


def test_a_miss_comes_back_until_its_row_is_there_or_its_tiers_are_through(
    new_job: NewJob,
) -> None:
    job = new_job(settings={"miss": {"grace_ms": 0, "retry_after": "1 s, 5 s"}})
    job.kafka.produce(job.products, [product("p0", "mug")])
    job.kafka.produce(job.orders, [order(n, f"p{n}") for n in range(3)])
    job.start()
    # Two events, each of them missed once and once again.
    job.wait_until(lambda: len(job.read("retry")) >= 4, "the second round")
    job.kafka.produce(job.products, [product("p1", "cup")])
    job.wait_until(lambda: len(job.read("dead")) == 1, "the dead letter")
    assert names(job.read("enriched")) == {b"o0": "mug", b"o1": "cup"}
    # No newer event of its key went out before it.
    assert next(r for r in job.read("enriched") if r.key == b"o1").headers == ()
    (dead,) = job.read("dead")
    assert (dead.key, dead.header("tablegate-verdict")) == (b"o2", "NOT_FOUND")
    assert dead.header("tablegate-attempt") == "3"
    assert str(dead.header("tablegate-source")).startswith(f"{job.orders}[")
    attempts = sorted(str(record.header("tablegate-attempt")) for record in job.read("retry"))
    assert attempts == ["1", "1", "2", "2"]


@pytest.mark.full
def test_what_waits_for_its_next_try_is_in_the_savepoint_and_comes_once(new_job: NewJob) -> None:
    job = new_job(settings={"miss": {"grace_ms": 0, "retry_after": "20 s"}})
    job.kafka.produce(job.products, [product("p0", "mug")])
    job.kafka.produce(job.orders, [order(n, f"p{n}") for n in range(50)])
    job.start()
    job.wait_until(lambda: len(job.read("retry")) == 49, "all misses")
    savepoint = job.stop()
    job.kafka.produce(job.products, [product(f"p{n}", f"row-{n}") for n in range(1, 50)])
    job.start(from_savepoint=savepoint)
    job.wait_for(99)
    job.checkpoint()
    records = job.read("enriched")
    assert len(records) == 50
    assert names(records)[b"o49"] == "row-49"
    assert len(job.read("retry")) == 49
    assert job.read("dead") == []


def test_a_retry_topic_that_takes_no_record_stops_the_job_and_loses_no_event(
    new_job: NewJob,
) -> None:
    job = new_job(settings={"miss": {"retry_after": ""}})
    job.kafka.produce(job.products, [product("p0", "mug")])
    job.kafka.produce(job.orders, [order(0, "p0")])
    job.start()
    job.wait_for(1)
    job.checkpoint()
    # After the job has looked at the topic: its producer knows nothing of it.
    job.kafka.set_topic(job.outputs["retry"], "max.message.bytes", "100")
    job.kafka.produce(job.orders, [order(1, "gone"), order(2, "p0")])
    job.wait_until(lambda: "RecordTooLarge" in job.failure(), "a write that fails")
    committed = job.kafka.committed(job.orders, job.orders)
    assert committed <= 1
    job.kafka.set_topic(job.outputs["retry"], "max.message.bytes", "1000000")
    job.wait_until(lambda: len(job.read("retry")) > 0, "the miss")
    job.wait_until(lambda: len(names(job.read("enriched"))) == 2, "the event behind it")
    assert {record.key for record in job.read("retry")} == {b"o1"}
    assert job.read("dead") == []


def test_one_output_waits_for_the_row_and_another_does_not(new_job: NewJob, kafka: Kafka) -> None:
    live = kafka.create_topic("live", 1)
    job = new_job(
        settings={
            "output": {"also": {live: "emit_null"}},
            "miss": {"grace_ms": 1_000, "retry_after": "10 s, 1 h"},
        }
    )
    kafka.produce(job.products, [product("p0", "mug")])
    kafka.produce(job.orders, [order(0, "p0"), order(1, "p1"), order(2, "p2")])
    job.start()
    job.wait_until(lambda: len(kafka.consume_all(live)) == 3, "all orders, two without a row")
    told = {r.key: r for r in kafka.consume_all(live)}
    assert {key: json.loads(r.value or b"") for key, r in told.items()} == {
        b"o0": {"product": "p0", "n": 0, "product_name": "mug"},
        **{
            f"o{n}".encode(): {
                "product": f"p{n}",
                "n": n,
                "product_name": None,
                "tablegate_verdict": "NOT_FOUND",
            }
            for n in (1, 2)
        },
    }
    assert told[b"o1"].header("tablegate-verdict") == "NOT_FOUND"
    # Of p1 a newer event goes out before the first one comes back, of p2 none.
    kafka.produce(job.products, [product("p1", "cup"), product("p2", "jar")])
    kafka.produce(job.orders, [order(3, "p1")])
    job.wait_until(lambda: len(job.read("enriched")) == 4, "the corrections")
    enriched = {r.key: r for r in job.read("enriched")}
    assert names(list(enriched.values()))[b"o1"] == "cup"
    late = {key: r.header("tablegate-late") for key, r in enriched.items()}
    assert late == {b"o0": None, b"o1": "1", b"o2": None, b"o3": None}
    # Both outputs have the hits, the one without nulls nothing else.
    job.wait_until(lambda: len(kafka.consume_all(live)) == 6, "the hits in the other output")
    assert job.read("dead") == []
