"""A broker of a test's own, for what must not happen to the one that all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ops.stack.broker import Broker
from tests.support.kafka import Kafka

# A broker that stood still for seconds would be taken for dead, and its partitions have no leader
# for a while after it goes on. One that was killed, though, is let in again only after this time.
_PATIENT = {"broker.session.timeout.ms": "60000"}


@contextmanager
def own_kafka(folder: Path, *, patient: bool = True) -> Iterator[Kafka]:
    """A broker that the test may stop, pause and damage; ``.broker`` is it. Gone at the end.

    ``patient`` is for tests that pause it, and in the way of those that kill it.
    """
    with Broker(folder, heap="512m", properties=_PATIENT if patient else {}) as broker:
        yield Kafka(broker.bootstrap_servers, broker)


def broker_of(kafka: Kafka) -> Broker:
    """The broker's process; for embedded brokers only."""
    assert kafka.broker is not None
    return kafka.broker


@contextmanager
def paused(kafka: Kafka) -> Iterator[None]:
    """The broker stands still and answers nobody, as behind a broken network; connections stay."""
    pid = broker_of(kafka).pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def truncate(kafka: Kafka, topic: str, partition: int) -> None:
    """Take the last segment from a partition's log on disk, as a lost disk would; broker restarted.

    The topic stays the same one, with the same id; only its log end moves back.
    """
    broker = broker_of(kafka)
    broker.stop()
    folder = broker.folder / "data" / f"{topic}-{partition}"
    *_, last = sorted(folder.glob("*.log"))
    assert last.stem.strip("0"), f"{folder} has one segment only: {last.name}"
    for file in folder.glob(f"{last.stem}.*"):
        file.unlink()
    broker.start()
