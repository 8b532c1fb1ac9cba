"""Moves many records in and out of topics: a fast system must not wait for its measure."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from ops.demo import topics
from ops.demo.data import Draft

_QUEUED = 1_000_000
_AT_ONCE = 10_000
_FLUSH_S = 60.0
_FULL_S = 0.05
_POLL_S = 0.5


def ends(brokers: str, topic: str) -> dict[int, int]:
    """The end offset of each partition; of a new topic, as soon as they have their leaders.

    Raises KafkaException when that takes longer than a minute.
    """
    until = time.monotonic() + _FLUSH_S
    while True:
        try:
            return topics.ends(brokers, topic)
        except KafkaException:
            if time.monotonic() > until:
                raise


def fill(brokers: str, topic: str, drafts: Iterable[Draft]) -> int:
    """Write records without headers to a topic that nobody else writes to; returns how many.

    About three times as fast as ``ops.demo.topics.produce``: nobody is told of single records, the
    topic's ends say whether all of them are there.

    Raises:
        RuntimeError: the topic did not grow by as many.
    """
    before = sum(ends(brokers, topic).values())
    producer = Producer(
        {
            "bootstrap.servers": brokers,
            "log_level": 3,
            "enable.idempotence": True,  # keeps the order of a partition through a retry
            "linger.ms": 50,
            "batch.num.messages": _AT_ONCE,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": _QUEUED,
            # Java's way of choosing a partition, as other writers of the topic would.
            "partitioner": "murmur2_random",
        }
    )
    count = 0
    for key, value, _, timestamp_ms in drafts:
        while True:
            try:
                producer.produce(topic, value, key, timestamp=timestamp_ms)
                break
            except BufferError:
                producer.poll(_FULL_S)
        count += 1
        if not count % _AT_ONCE:
            producer.poll(0)
    left = producer.flush(_FLUSH_S)
    written = sum(ends(brokers, topic).values()) - before
    if left or written != count:
        raise RuntimeError(f"{written} of {count} records got into {topic}")
    return count


def passed(brokers: str, topic: str, since: Mapping[int, int] | None = None) -> Iterator[Message]:
    """The records of a topic, from the offsets ``since`` (all, if None) to its ends of now.

    One after the other, so that a topic of many millions costs no memory. Meant for topics without
    transactions, whose every offset is a record.

    Raises:
        RuntimeError: the broker told an error.
        TimeoutError: it sent nothing for a minute.
    """
    until = ends(brokers, topic)
    begin = dict.fromkeys(until, 0) | dict(since or {})
    left = {partition for partition, end in until.items() if begin[partition] < end}
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "log_level": 3,
            "group.id": "bench-passed",  # librdkafka insists on one; nothing is committed
            "enable.auto.commit": False,
            "fetch.max.bytes": 16_000_000,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, p, begin[p]) for p in left])
        heard = time.monotonic()
        while left:
            for message in consumer.consume(_AT_ONCE, _POLL_S):
                partition, offset = _where(message)
                heard = time.monotonic()
                if offset < until[partition]:
                    yield message
                if offset >= until[partition] - 1:
                    left.discard(partition)
            if time.monotonic() - heard > _FLUSH_S:
                raise TimeoutError(f"{topic}: the broker sent nothing for {_FLUSH_S:.0f} s")
    finally:
        consumer.close()


def _where(message: Message) -> tuple[int, int]:
    error: KafkaError | None = message.error()
    partition, offset = message.partition(), message.offset()
    if error is not None or partition is None or offset is None:
        raise RuntimeError(f"cannot read {message.topic()}: {error}")
    return partition, offset
