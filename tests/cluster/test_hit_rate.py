"""The hit rate on a real cluster: what is counted, and that a restart changes nothing about it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tests.cluster.conftest import NewJob
from tests.support.deploys import status
from tests.support.join_job import JoinJob, order, product
from tests.support.kafka import Kafka

_WINDOW_MS = 2_000


def _job(new_job: NewJob, kafka: Kafka) -> tuple[JoinJob, str]:
    stats = kafka.create_topic("stats", 1, {"cleanup.policy": "compact"})
    return new_job(settings={"stats": {"topic": stats, "window_ms": _WINDOW_MS}}), stats


def _told(kafka: Kafka, stats: str) -> Counter[str]:
    """All windows added up, of each the newest record."""
    windows = {record.key: json.loads(record.value or b"") for record in kafka.consume_all(stats)}
    for window in windows.values():
        assert window["window_end_ms"] - window["window_start_ms"] == _WINDOW_MS
    counts: Counter[str] = Counter()
    for window in windows.values():
        counts.update({what: count for what, count in window["counts"].items() if count})
    return counts


def _decided(job: JoinJob) -> dict[str, Any]:
    return {what: count for what, count in status(job)[1]["decided"].items() if count}


def test_every_event_is_counted_once_also_across_failures_and_savepoints(
    new_job: NewJob, kafka: Kafka
) -> None:
    job, stats = _job(new_job, kafka)
    kafka.produce(job.products, [product(f"p{n}", f"n{n}") for n in range(50)])
    kafka.produce(job.products, [(b"p49", None), (b"p48", b"{bad")])
    kafka.produce(job.orders, [order(n, f"p{n}") for n in range(52)])
    kafka.produce(job.orders, [(b"none", b'{"product":null}'), (b"bad", b"{")])
    job.start()
    first = {"HIT": 49, "DELETED": 1, "NOT_FOUND": 2, "NO_KEY": 1, "BAD_RECORD": 1, "BAD_ROW": 1}
    job.wait_until(lambda: _told(kafka, stats) == first, "the first windows")

    # These are counted and told, and counted again: their checkpoint never comes.
    job.checkpoint()
    kafka.produce(job.orders, [order(n, f"p{n % 40}") for n in range(100, 200)])
    counted = Counter(first) + Counter(HIT=100)
    job.wait_until(lambda: _told(kafka, stats) == counted, "the windows before the failure")
    job.kill_task_manager()
    kafka.produce(job.orders, [order(n, f"p{n % 40}") for n in range(200, 210)])
    counted += Counter(HIT=10)
    job.wait_until(lambda: _told(kafka, stats) == counted, "the windows after the failure")
    assert job.attempts() >= 2

    # A quiet job: what it shows after the restart is what the savepoint says.
    savepoint = job.stop()
    job.start(from_savepoint=savepoint)
    job.wait_until(lambda: _decided(job).get("HIT") == counted["HIT"], "the restored counts")
    shown = _decided(job)
    assert {what: shown.get(what) for what in counted} == counted
    kafka.produce(job.orders, [order(300, "p1"), order(301, "gone")])
    counted += Counter(HIT=1, NOT_FOUND=1)
    job.wait_until(lambda: _told(kafka, stats) == counted, "the windows after the savepoint")
    assert status(job)[1]["join"]["hit_rate"] == round(160 / 164, 6)
