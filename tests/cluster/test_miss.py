"""Misses on a real cluster: their grace, and the way round by the retry topic."""

from __future__ import annotations

import pytest

from tests.cluster.conftest import NewJob
from tests.support.join_job import names, order, product


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
    late = next(record for record in job.read("enriched") if record.key == b"o1")
    assert late.header("tablegate-late") == "2"
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
