"""Writes events at a rate, by the clock."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Self

from confluent_kafka import Producer

from bench import ground

# Between two looks at the clock. What is due is reckoned from the start, so that a wait that takes
# longer than this is made up for at once.
_TICK_S = 0.005
_FLUSH_S = 30.0
_ENDLESS = 2**62


def due(rate: float, elapsed_s: float, sent: int) -> int:
    """How many events to write now, ``sent`` having been written since the start."""
    return max(0, int(rate * elapsed_s) - sent)


class Writer:
    """Writes ``ground.events`` to a topic, ``rate`` a second, while it is entered.

    Args:
        brokers: their addresses.
        topic: where to.
        rate: events a second.
        rows: how many rows the events spread over.

    Raises:
        RuntimeError: on leaving, when the broker did not take all of them.
    """

    def __init__(self, brokers: str, topic: str, rate: float, rows: int) -> None:
        self._topic, self._rate, self._rows = topic, rate, rows
        self._producer = Producer(
            {
                "bootstrap.servers": brokers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "partitioner": "murmur2_random",
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="paced-writer", daemon=True)
        self._problems: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(_FLUSH_S)
        if left or self._problems:
            raise RuntimeError(
                f"{left + len(self._problems)} events did not get into {self._topic}: "
                f"{self._problems[0] if self._problems else 'no answer from the broker'}"
            )

    def _run(self) -> None:
        events = ground.events(_ENDLESS, self._rows)
        began = time.monotonic()
        sent = 0
        while not self._stop.is_set():
            now = due(self._rate, time.monotonic() - began, sent)
            for draft in itertools.islice(events, now):
                while True:
                    try:
                        self._producer.produce(
                            self._topic,
                            key=draft.key,
                            value=draft.value,
                            timestamp=draft.timestamp_ms,
                            on_delivery=self._delivered,
                        )
                        break
                    except BufferError:
                        # The broker does not keep up: whoever asked sees it by the rate.
                        self._producer.poll(0.1)
            sent += now
            self._producer.poll(0)
            self._stop.wait(_TICK_S)

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._problems.append(str(error))
