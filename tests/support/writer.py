"""Somebody else who writes to the table topic all the time, in a thread that is stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.support.join_job import product
from tests.support.kafka import Kafka

_PAUSE_S = 0.02


class Writer:
    """Writes version after version of all its rows; `version` is the last that the broker has."""

    def __init__(self, kafka: Kafka, topic: str, keys: Sequence[str]) -> None:
        self.version = 0
        self._kafka, self._topic, self._keys = kafka, topic, keys
        self._stop = threading.Event()
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._write, name=f"writer of {topic}")

    def start(self) -> None:
        """Return when the first version is written."""
        self._write_one()
        self._thread.start()

    def stop(self) -> None:
        """Stop and wait; raises what stopped it before."""
        self._stop.set()
        self._thread.join()
        if self._problem is not None:
            raise self._problem

    def _write(self) -> None:
        try:
            while not self._stop.wait(_PAUSE_S):
                self._write_one()
        except Exception as error:  # noqa: BLE001 (raised again in `stop`, in the test's thread)
            self._problem = error

    def _write_one(self) -> None:
        version = self.version + 1
        self._kafka.produce(self._topic, [product(key, str(version)) for key in self._keys])
        self.version = version


@contextmanager
def writing(kafka: Kafka, topic: str, keys: Sequence[str]) -> Iterator[Writer]:
    """A writer that has begun; it ends with the block."""
    writer = Writer(kafka, topic, keys)
    writer.start()
    try:
        yield writer
    finally:
        writer.stop()
