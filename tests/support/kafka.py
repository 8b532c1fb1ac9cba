"""Kafka for the tests: one interface over a container and over the embedded broker.

Where a Docker engine answers, the `kafka` fixture runs testcontainers' Kafka; elsewhere a broker
process of our own. `TABLEGATE_TEST_KAFKA=container` or `=embedded` chooses by hand.
"""

import itertools
import os
import subprocess
import sys
import time
import tomllib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic
from testcontainers.community.kafka import KafkaContainer

from ops.paths import POM, PYPROJECT
from ops.stack.broker import Broker

Headers = Sequence[tuple[str, bytes | None]]

_DEADLINE_S = 30
_NUMBERS = itertools.count(1)


class Message(NamedTuple):
    """A record to write. Without `partition` the key decides; `timestamp` is in milliseconds."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = None


@dataclass(frozen=True)
class Record:
    """A record as it was read."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def source(self) -> str:
        """As the headers name it: `orders[2]@1234`."""
        return f"{self.topic}[{self.partition}]@{self.offset}"

    def header(self, name: str) -> str | None:
        """The text of the last header of that name; None if there is none."""
        found = [value for key, value in self.headers if key == name]
        return found[-1].decode() if found and found[-1] is not None else None


def unique(name: str) -> str:
    """A topic name that no other test of this run uses."""
    return f"{name}-{next(_NUMBERS)}-{uuid.uuid4().hex[:6]}"


class Kafka:
    """A running Kafka, and what tests do with it.

    `broker` is the embedded broker, for tests that stop it; None where a container runs.
    """

    def __init__(self, bootstrap_servers: str, broker: Broker | None = None) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.broker = broker
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic under a unique name that begins with `name`, and return that name."""
        topic = unique(name)
        self.create_exactly(topic, partitions, config)
        return topic

    def create_exactly(
        self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic of this very name, and return when the brokers list its partitions."""
        new = NewTopic(topic, partitions, 1, config=dict(config or {}))
        self.admin.create_topics([new], operation_timeout=_DEADLINE_S)[topic].result(_DEADLINE_S)

    def add_partitions(self, topic: str, total: int) -> None:
        """Give the topic more partitions, ``total`` with those it has."""
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result(_DEADLINE_S)
        deadline = time.monotonic() + _DEADLINE_S
        while len(self.admin.list_topics(topic, _DEADLINE_S).topics[topic].partitions) < total:
            assert time.monotonic() < deadline, f"{topic} has no {total} partitions"
            time.sleep(0.05)

    def wait_for_ends(self, topic: str, ends: Mapping[int, int]) -> None:
        """Return when each log end is at least the one given for its partition.

        A transaction's end is decided before its markers are written; they follow by themselves.
        """
        deadline = time.monotonic() + _DEADLINE_S
        while any(self.end_offsets(topic)[p] < end for p, end in ends.items()):
            assert time.monotonic() < deadline, f"{topic} does not end at {ends}"
            time.sleep(0.05)

    def set_topic(self, topic: str, name: str, value: str) -> None:
        """Change one property of the topic's configuration."""
        change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
        self.admin.incremental_alter_configs([resource])[resource].result(_DEADLINE_S)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records of each partition below the offset given for it."""
        wanted = [TopicPartition(topic, p, offset) for p, offset in before.items()]
        for future in self.admin.delete_records(wanted).values():
            future.result(_DEADLINE_S)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and return when it is gone."""
        deleted = self.admin.delete_topics([topic], operation_timeout=_DEADLINE_S)
        deleted[topic].result(_DEADLINE_S)

    def produce(
        self,
        topic: str,
        messages: Iterable[Message | tuple[Any, ...]],
        *,
        transactional: bool = False,
        abort: bool = False,
    ) -> None:
        """Write records and return when the broker has them all.

        Args:
            topic: where to.
            messages: `Message`s, or tuples of a `Message`'s fields.
            transactional: write them in one transaction and commit it; return when its markers
                stand behind them.
            abort: with `transactional`, abort it instead.
        """
        if transactional:
            with self.transaction() as transaction:
                last = self._send(transaction, topic, messages)
                if abort:
                    transaction.abort_transaction(_DEADLINE_S)
                else:
                    transaction.commit_transaction(_DEADLINE_S)
            self.wait_for_ends(topic, {p: offset + 2 for p, offset in last.items()})
            return
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "linger.ms": 5})
        self._send(producer, topic, messages)
        left = producer.flush(_DEADLINE_S)
        assert left == 0, f"{left} records were not taken by the broker in {_DEADLINE_S} s"

    @contextmanager
    def transaction(
        self, transactional_id: str | None = None, timeout_ms: int = 600_000
    ) -> Iterator[Producer]:
        """A producer with a begun transaction; the caller commits, aborts, or leaves it open.

        The broker aborts one that is left open for ``timeout_ms``; its own default of a minute is
        what a busy machine needs to start a job.
        """
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "transactional.id": transactional_id or unique("transaction"),
                "transaction.timeout.ms": timeout_ms,
            }
        )
        producer.init_transactions(_DEADLINE_S)
        producer.begin_transaction()
        yield producer

    @staticmethod
    def _send(
        producer: Producer, topic: str, messages: Iterable[Message | tuple[Any, ...]]
    ) -> dict[int, int]:
        """Write them and return the last offset in each partition that got one."""
        problems: list[str] = []
        last: dict[int, int] = {}

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                problems.append(str(error))
            else:
                last[message.partition()] = max(message.offset(), last.get(message.partition(), -1))

        for fields in messages:
            message = Message(*fields)
            options: dict[str, Any] = {}
            if message.timestamp is not None:
                options["timestamp"] = message.timestamp
            if message.partition is not None:
                options["partition"] = message.partition
            while True:
                try:
                    producer.produce(
                        topic,
                        message.value,
                        message.key,
                        headers=list(message.headers),
                        on_delivery=delivered,
                        **options,
                    )
                    break
                except BufferError:
                    producer.poll(0.5)
            producer.poll(0)
        producer.flush(_DEADLINE_S)
        assert not problems, f"{len(problems)} records were refused, the first: {problems[0]}"
        return last

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The log end of each partition, transaction markers counted."""
        return {partition: end for partition, (_, end) in self.bounds(topic).items()}

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """First offset and log end of each partition, transaction markers counted."""
        consumer = self._consumer("read_uncommitted")
        try:
            partitions = _partitions(consumer, topic)
            return {
                number: consumer.get_watermark_offsets(
                    TopicPartition(topic, number), timeout=_DEADLINE_S
                )
                for number in partitions
            }
        finally:
            consumer.close()

    def committed(self, group: str, topic: str) -> int:
        """How many offsets of the topic lie behind the group's, over all partitions."""
        (asked,) = self.admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)]
        ).values()
        found = asked.result(_DEADLINE_S).topic_partitions
        return sum(tp.offset for tp in found if tp.topic == topic and tp.offset > 0)

    def consume_all(self, topic: str, isolation: str = "read_committed") -> list[Record]:
        """Everything that can be read from the topic now, by partition and offset."""
        consumer = self._consumer(isolation)
        records: list[Record] = []
        try:
            partitions = _partitions(consumer, topic)
            consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in partitions])
            unfinished = set(partitions)
            while unfinished:
                # A batch that is not full waits for as long, also when the ends have been told.
                batch = consumer.consume(10_000, timeout=0.1)
                for message in batch:
                    error = message.error()
                    if error is None:
                        records.append(_record(message))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        unfinished.discard(message.partition())
                    else:
                        raise KafkaException(error)
        finally:
            consumer.close()
        return sorted(records, key=lambda record: (record.partition, record.offset))

    def _consumer(self, isolation: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": unique("test"),
                "enable.auto.commit": False,
                "isolation.level": isolation,
                # A partition's end is said by the broker, not guessed from silence.
                "enable.partition.eof": True,
            }
        )


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    described = consumer.list_topics(topic, timeout=_DEADLINE_S).topics[topic]
    if described.error is not None:
        raise KafkaException(described.error)
    return sorted(described.partitions)


def _record(message: Any) -> Record:
    return Record(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )


# ------------------------------------------------------------------------------ which Kafka

# Retention and compaction set to work when there is something to do, not in minutes.
_EAGER_CLEANING = {
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "500",
}


def kafka_version() -> str:
    """The broker's version, from pom.xml."""
    element = ET.parse(POM).find(".//{*}kafka.version")  # noqa: S314  (our own file)
    assert element is not None
    assert element.text
    return element.text


def flink_version() -> str:
    """Flink's version, from pyproject.toml."""
    listed = tomllib.loads(PYPROJECT.read_text())["project"]["dependencies"]
    (pinned,) = [name for name in listed if name.startswith("apache-flink==")]
    return str(pinned).partition("==")[2]


def engine_answers() -> bool:
    """Whether a Docker engine answers here, at DOCKER_HOST or the usual place."""
    # In a process of its own: docker's client leaves its socket open when nothing answers, and a
    # warning about that is an error here.
    ask = "import docker; docker.from_env(timeout=3).ping()"
    asked = subprocess.run([sys.executable, "-c", ask], capture_output=True, check=False)
    return asked.returncode == 0


class ApacheKafkaContainer(KafkaContainer):
    """testcontainers' Kafka, in KRaft mode, on Apache's image in the version of pom.xml.

    Checked against the image's documentation, not run: no Docker engine answers where this was
    written.
    """

    def __init__(self) -> None:
        super().__init__(image=f"apache/kafka:{kafka_version()}")
        # The base class's own check knows only the version numbers of Confluent's image.
        self.kraft_enabled = True
        self.with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
        self.with_env("KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1")
        self.with_env("KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1")
        self.with_env("KAFKA_LOG_RETENTION_MS", "-1")
        for name, value in _EAGER_CLEANING.items():
            self.with_env(f"KAFKA_{name.upper().replace('.', '_')}", value)

    def tc_start(self) -> None:
        """Say under which mapped port clients find the broker, then start it as the image does."""
        host, port = self.get_container_host_ip(), self.get_exposed_port(self.port)
        script = (
            "#!/bin/sh\n"
            f"export KAFKA_ADVERTISED_LISTENERS={self.listener_name}://{host}:{port},"
            "BROKER://localhost:9092\n"
            "exec /etc/kafka/docker/run\n"
        )
        self.create_file(script.encode(), KafkaContainer.TC_START_SCRIPT)


@contextmanager
def running_kafka(folder: Path) -> Iterator[Kafka]:
    """Kafka for one test session: a container where an engine answers, else the embedded broker."""
    choice = os.environ.get("TABLEGATE_TEST_KAFKA") or (
        "container" if engine_answers() else "embedded"
    )
    if choice == "container":
        with ApacheKafkaContainer() as container:
            yield Kafka(container.get_bootstrap_server())
    elif choice == "embedded":
        with Broker(folder, properties=_EAGER_CLEANING) as broker:
            yield Kafka(broker.bootstrap_servers, broker)
    else:
        raise ValueError(f"TABLEGATE_TEST_KAFKA={choice!r}: expected 'container' or 'embedded'")
