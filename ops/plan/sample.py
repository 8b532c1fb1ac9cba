"""Reads the newest records of a topic, to know how large they are."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from jobs.preflight.admin import Admin
from udfs.core.errors import PreflightError
from udfs.core.events import record_bytes
from udfs.core.gate import Target

# Of each partition, from its end: enough that one long record does not decide, few enough to read
# in a moment.
_SAMPLED = 200
_DEADLINE_S = 20.0


def sizes(
    admin: Admin, client: Mapping[str, str], topic: str, targets: Mapping[int, Target]
) -> Iterator[int]:
    """Bytes of key, value and headers of records near the end; tombstones are left out.

    Args:
        admin: takes the client's log lines, and knows what is secret in an error.
        client: a librdkafka configuration.
        topic: which one.
        targets: for each partition where it begins and what its last readable record is.

    Raises:
        PreflightError: they may not be read, or not within 20 seconds.
    """
    spans = {
        p: (max(target.begin, target.goal + 1 - _SAMPLED), target.goal)
        for p, target in targets.items()
        if target.goal is not None and not target.waiting
    }
    consumer = Consumer(
        {
            # No group is ever joined; librdkafka wants a name all the same.
            "group.id": "tablegate-plan",
            **client,
            # For sizes, rows of an unfinished transaction are as good as others.
            "isolation.level": "read_uncommitted",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
        },
        logger=admin,
    )
    try:
        consumer.assign([TopicPartition(topic, p, start) for p, (start, _) in spans.items()])
        last = {p: end for p, (_, end) in spans.items()}
        for message in _read(consumer, admin, topic, last):
            if message.value() is not None:
                yield _bytes(message)
    finally:
        consumer.close()


def unreadable(admin: Admin, topic: str, error: KafkaError) -> PreflightError:
    """The brokers' refusal, for a person."""
    return PreflightError(
        f"Topic {topic} cannot be read ({admin.scrub(error.str())}).",
        "Grant READ and DESCRIBE on it, or give the numbers by hand.",
    )


def _read(
    consumer: Consumer, admin: Admin, topic: str, last: Mapping[int, int]
) -> Iterator[Message]:
    left = dict(last)
    deadline = time.monotonic() + _DEADLINE_S
    while left:
        if time.monotonic() > deadline:
            places = ", ".join(f"{topic}[{p}]@{offset}" for p, offset in sorted(left.items()))
            raise PreflightError(
                f"Records up to {places} could not be read within {_DEADLINE_S:.0f} s.",
                "Check that the partitions have leaders, or give --row-bytes and --event-bytes.",
            )
        for message in consumer.consume(_SAMPLED, 0.5):
            error = message.error()
            if error is not None:
                raise unreadable(admin, topic, error)
            # librdkafka's types allow for messages that were never sent; these were fetched.
            partition, offset = int(message.partition() or 0), int(message.offset() or 0)
            if offset >= left.get(partition, 0):
                left.pop(partition, None)
            if offset <= last[partition]:
                yield message


def _bytes(message: Message) -> int:
    pairs = message.headers() or []
    listed = pairs.items() if isinstance(pairs, Mapping) else pairs
    headers = {str(name): _raw(held) or b"" for name, held in listed}
    return record_bytes(_raw(message.key()), _raw(message.value()), headers)


def _raw(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
