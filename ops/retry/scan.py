"""Reads spans of a topic from one offset to another, whatever holes are between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from jobs.preflight.admin import Admin
from ops.retry.errors import Exit, RetryError
from ops.retry.letters import Letter, Place, read_letter
from ops.retry.marks import Marks

# As many as are handed over at once, and the longest that a caller with an open transaction or a
# progress bar waits for less.
_AT_ONCE = 2_000
_WAIT_S = 0.1
# A broker that restarts is back within it; nothing is ever taken for read because of it.
_PATIENCE_S = 60.0


class Read(NamedTuple):
    """Some messages of a partition, maybe none, and by how many offsets the scan went on."""

    messages: list[Message]
    advanced: int


def scan(
    admin: Admin, client: Mapping[str, str], topic: str, spans: Mapping[int, tuple[int, int]]
) -> Generator[Read]:
    """Committed records of ``topic`` within ``spans``, one partition after the other, in order.

    A partition is done when the *position* is at the end of its span: a record at its last offset
    or beyond, or the broker's word that nothing is left before that offset. The last offsets of a
    log may hold no record (markers of transactions, aborted or compacted records), so that waiting
    for one would never end, and silence says nothing.

    Closes its client when it ends, or is closed.

    Args:
        admin: scrubs what goes into errors.
        client: librdkafka's configuration.
        topic: what to read.
        spans: by partition, the first offset and the one behind the last.

    Raises:
        RetryError: the brokers sent an error, or nothing for a minute.
    """
    consumer = Consumer(
        {
            # No group is ever joined; librdkafka wants a name all the same.
            "group.id": "tablegate-retry",
            **client,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # Retention may delete what was to be read next; go on at the new beginning.
            "auto.offset.reset": "earliest",
            # The end of a partition is told after an empty fetch.
            "fetch.wait.max.ms": 10,
            # Fetched ahead, and nearly all the memory that a scan takes. Where that is full, the
            # default is not to fetch for a second, in which such a queue is read many times over.
            "queued.min.messages": 10_000,
            "queued.max.messages.kbytes": 8_192,
            "fetch.queue.backoff.ms": 5,
        },
        logger=admin,
    )
    try:
        for partition, (begin, end) in spans.items():
            if begin < end:
                consumer.assign([TopicPartition(topic, partition, begin)])
                yield from _partition(admin, consumer, topic, partition, begin, end)
    finally:
        consumer.close()


def _partition(
    admin: Admin, consumer: Consumer, topic: str, partition: int, begin: int, end: int
) -> Iterator[Read]:
    position, heard = begin, time.monotonic()
    while position < end:
        messages: list[Message] = []
        before = position
        for message in consumer.consume(_AT_ONCE, _WAIT_S):
            error = message.error()
            # The position of an end is that of what comes next, holes left behind.
            offset = message.offset() or 0
            if error is None:
                position = offset + 1
                if offset < end:
                    messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                position = max(position, offset)
            else:
                raise _broken(topic, partition, position, admin.scrub(error.str()))
        if position > before:
            heard = time.monotonic()
        elif time.monotonic() - heard > _PATIENCE_S:
            raise _broken(topic, partition, position, f"nothing came for {_PATIENCE_S:.0f} s")
        yield Read(messages, min(position, end) - min(before, end))


def _broken(topic: str, partition: int, position: int, reason: str) -> RetryError:
    return RetryError(
        f"{topic}[{partition}]@{position} could not be read: {reason}.",
        "Check that the partition has a leader that can be reached, and run this again.",
        Exit.ERROR,
    )


def read_letters(
    reads: Iterator[Read], marks: Marks, advance: Callable[[int], None]
) -> Iterator[list[tuple[Letter, Message]]]:
    """The letters of each read, with their messages; ``advance`` is told by how much it went on."""
    for messages, advanced in reads:
        yield [(_letter(message, marks), message) for message in messages]
        advance(advanced)


def _letter(message: Message, marks: Marks) -> Letter:
    # librdkafka's types allow for messages that were never sent; these were fetched.
    partition, offset = message.partition() or 0, message.offset() or 0
    place = Place(message.topic() or "", partition, offset)
    headers: Any = message.headers()
    return read_letter(place, message.key(), headers, replayed=(partition, offset) in marks)
