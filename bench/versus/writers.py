"""Writes events: one at a time until an answer is right, as many as fit, or so many a second."""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import Producer

from bench import records
from bench.pace import due
from bench.versus.filling import fill
from bench.versus.ground import now_ms
from ops.demo.data import Draft

_TICK_S = 0.005


class Events:
    """Numbers the events of one run, and remembers when each was written (epoch ms)."""

    def __init__(self, brokers: str, topic: str, rows: int) -> None:
        self._brokers, self._topic, self._rows = brokers, topic, rows
        self._next = 0

    @property
    def count(self) -> int:
        """How many have been written."""
        return self._next

    def write(self, count: int) -> None:
        """Write ``count`` events as fast as it goes; returns when the broker has them."""
        fill(self._brokers, self._topic, (self._draft() for _ in range(count)))

    def paced(self, rate: float, seconds: float) -> dict[int, int]:
        """Write ``rate`` events a second for so long; returns when each was written, by number.

        Raises:
            RuntimeError: the broker did not take all of them.
        """
        written = {}
        producer = _producer(self._brokers)
        began = time.monotonic()
        sent, total = 0, int(rate * seconds)
        while sent < total:
            for _ in range(min(due(rate, time.monotonic() - began, sent), total - sent)):
                draft = self._draft()
                written[self._next - 1] = draft.timestamp_ms
                _send(producer, self._topic, draft)
                sent += 1
            producer.poll(0)
            time.sleep(_TICK_S)
        _finish(producer, self._topic)
        return written

    def probe(self, rows: Iterable[int]) -> dict[int, int]:
        """Write an event for each of the rows; returns the row by the event's number."""
        asked = {}
        producer = _producer(self._brokers)
        for row in rows:
            asked[self._next] = row
            _send(producer, self._topic, records.event_for(row, self._next, now_ms()))
            self._next += 1
        _finish(producer, self._topic)
        return asked

    def _draft(self) -> Draft:
        n = self._next
        self._next += 1
        return records.event(n, self._rows, now_ms())


def _producer(brokers: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": brokers,
            "log_level": 3,
            "linger.ms": 2,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 1_000_000,
        }
    )


def _send(producer: Producer, topic: str, draft: Draft) -> None:
    producer.produce(topic, key=draft.key, value=draft.value, timestamp=draft.timestamp_ms)


def _finish(producer: Producer, topic: str) -> None:
    if left := producer.flush(30):
        raise RuntimeError(f"{left} events did not get into {topic}")
