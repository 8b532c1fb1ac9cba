"""Moves the demo's records in and out of Kafka."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from ops.demo.check import Record
from ops.demo.data import Draft
from udfs.core.errors import StackError

log = logging.getLogger(__name__)

# Errors only. A broker that has just started makes librdkafka try again, and warn of it.
_QUIET = {"log_level": 3}

# One round trip on this machine takes milliseconds; a broker that needs longer is in trouble.
_ANSWER_S = 30.0
_READ_AT_ONCE = 10_000

# Records carry their own, older times, so nothing may age out while the demo looks; and the check
# needs every version of a row, so the cleaner may not take the old ones yet.
KEEP = {"retention.ms": "-1", "segment.ms": str(365 * 86_400_000)}
COMPACTED = KEEP | {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}


def create(
    bootstrap_servers: str, topics: Mapping[str, Mapping[str, str]], partitions: int
) -> None:
    """Create topics (name to topic configuration) with one replica each.

    Raises StackError when the broker refuses one or does not answer.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, **_QUIET}, logger=log)
    wanted = [
        NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config))
        for name, config in topics.items()
    ]
    for name, answer in admin.create_topics(wanted, operation_timeout=_ANSWER_S).items():
        try:
            answer.result(timeout=_ANSWER_S)
        except Exception as error:
            raise StackError(
                f"topic {name} could not be created at {bootstrap_servers}: {error}.",
                "Look into the broker's log.",
            ) from error


def produce(bootstrap_servers: str, topic: str, drafts: Iterable[Draft]) -> int:
    """Write records in order and wait until the broker has them all; returns how many.

    Raises StackError when a record could not be delivered.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            **_QUIET,
            "acks": "all",
            "enable.idempotence": True,  # keeps the order of a partition through a retry
            "linger.ms": 50,
            "batch.num.messages": 10_000,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            # Java's way of choosing a partition, as other writers of the topic would.
            "partitioner": "murmur2_random",
        },
        logger=log,
    )
    failed: list[str] = []

    def delivered(error: object, _message: Message) -> None:
        if error is not None:
            failed.append(str(error))

    count = 0
    for draft in drafts:
        producer.produce(
            topic,
            key=draft.key,
            value=draft.value,
            headers=list(draft.headers),
            timestamp=draft.timestamp_ms,
            on_delivery=delivered,
        )
        count += 1
        if not count % _READ_AT_ONCE:
            producer.poll(0)
    left = producer.flush(_ANSWER_S)
    if left or failed:
        raise StackError(
            f"{left + len(failed)} of {count} records did not get into {topic}: "
            f"{failed[0] if failed else 'no answer from the broker'}.",
            "Look into the broker's log.",
        )
    return count


class Reader:
    """Reads topics from their beginning, as far as they go, without a consumer group."""

    def __init__(self, bootstrap_servers: str, topics: Iterable[str]) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topics = list(topics)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                **_QUIET,
                "group.id": "tablegate-demo",  # librdkafka insists on one; nothing is committed
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.max.bytes": 16_000_000,
            },
            logger=log,
        )
        self._partitions = _partitions(bootstrap_servers, self._topics)
        self._next = {(tp.topic, tp.partition): 0 for tp in self._partitions}
        self._consumer.assign(self._partitions)

    def poll(self, timeout_s: float) -> list[tuple[str, Record]]:
        """What has arrived, with the topic of each; empty after ``timeout_s`` without any."""
        found = []
        for message in self._consumer.consume(_READ_AT_ONCE, timeout_s):
            if message.error():
                raise StackError(
                    f"cannot read {self._topics}: {message.error()}.", "See the broker log."
                )
            topic, record = _record(message)
            self._next[topic, record.partition] = record.offset + 1
            found.append((topic, record))
        return found

    def rest(self, deadline_s: float = 60.0) -> list[tuple[str, Record]]:
        """Everything up to the end offsets of now. Raises StackError past the deadline.

        Meant for topics without transactions, whose every offset below the end is a record.
        """
        ends = _ends(self._bootstrap_servers, self._partitions)
        found: list[tuple[str, Record]] = []
        until = time.monotonic() + deadline_s
        while any(self._next[at] < end for at, end in ends.items()):
            if time.monotonic() > until:
                behind = {at: (self._next[at], end) for at, end in ends.items()}
                raise StackError(
                    f"not read to the end within {deadline_s:.0f} s; (next, end) are {behind}.",
                    "Is the machine overloaded? Look into the broker's log.",
                )
            found += self.poll(0.5)
        return found

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()


def ends(bootstrap_servers: str, topic: str) -> dict[int, int]:
    """The end offset of each partition, asked for now."""
    asked = _ends(bootstrap_servers, _partitions(bootstrap_servers, [topic]))
    return {partition: end for (_, partition), end in asked.items()}


def read(bootstrap_servers: str, topic: str) -> list[Record]:
    """The whole topic as it stands now."""
    reader = Reader(bootstrap_servers, [topic])
    try:
        return [record for _, record in reader.rest()]
    finally:
        reader.close()


def _partitions(bootstrap_servers: str, topics: Iterable[str]) -> list[TopicPartition]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, **_QUIET}, logger=log)
    known = admin.list_topics(timeout=_ANSWER_S).topics
    return [
        TopicPartition(topic, partition, 0)
        for topic in topics
        for partition in sorted(known[topic].partitions)
    ]


def _ends(
    bootstrap_servers: str, partitions: Iterable[TopicPartition]
) -> dict[tuple[str, int], int]:
    # All at once and not through a consumer: behind its waiting fetch, which shares the connection,
    # each single question takes half a second.
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, **_QUIET}, logger=log)
    question = {TopicPartition(tp.topic, tp.partition): OffsetSpec.latest() for tp in partitions}
    answers = admin.list_offsets(question, request_timeout=_ANSWER_S)
    return {
        (tp.topic, tp.partition): answer.result(timeout=_ANSWER_S).offset
        for tp, answer in answers.items()
    }


def _record(message: Message) -> tuple[str, Record]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise TypeError(f"a consumed message without a position: {message!r}")
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    copied = tuple((str(name), _bytes(value)) for name, value in pairs)
    key, value = _bytes(message.key()), _bytes(message.value())
    return topic, Record(partition, offset, key, value, copied, message.timestamp()[1])


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
