"""A stream that never stops: orders at a steady rate, a share of which meets no row."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import Producer

from tests.support.join_job import order
from tests.support.kafka import Kafka

_TICK_S = 0.05
_FLUSH_S = 30


class Traffic:
    """Writes orders in a thread; ``missing_percent`` of them, whole percents, meet no row."""

    def __init__(self, kafka: Kafka, topic: str, keys: Sequence[str], per_second: float) -> None:
        self.missing_percent = 0
        self._topic, self._keys, self._per_second = topic, keys, per_second
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5})
        self._stop = threading.Event()
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._write, name=f"traffic of {topic}")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop and wait; raises what stopped it before."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(_FLUSH_S)
        if self._problem is not None:
            raise self._problem
        assert left == 0, f"{left} orders were not taken by the broker"

    def _write(self) -> None:
        try:
            begin = time.monotonic()
            for number in itertools.count():
                # Paced by the clock: what a busy machine delays is made up for.
                while number > (time.monotonic() - begin) * self._per_second:
                    if self._stop.wait(_TICK_S):
                        return
                    self._producer.poll(0)
                self._write_one(number)
        except Exception as error:  # noqa: BLE001 (raised again in `stop`, in the test's thread)
            self._problem = error

    def _write_one(self, number: int) -> None:
        missing = number % 100 < self.missing_percent
        key, value = order(number, "nothing" if missing else self._keys[number % len(self._keys)])
        self._producer.produce(self._topic, value, key)


@contextmanager
def traffic(kafka: Kafka, topic: str, keys: Sequence[str], per_second: float) -> Iterator[Traffic]:
    """Traffic that has begun; it ends with the block."""
    running = Traffic(kafka, topic, keys, per_second)
    running.start()
    try:
        yield running
    finally:
        running.stop()
