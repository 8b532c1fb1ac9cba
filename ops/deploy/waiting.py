"""Events that wait for their next try in the state of a version that is left behind.

A version that starts without its predecessor's state knows nothing of the records that the other
had read from the retry topic and was keeping until they are due. They still stand in that topic,
behind the offsets from which the new version reads on. So they are written to its end once more,
unchanged, in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException, Producer

from jobs.clients import librdkafka_config
from jobs.preflight.admin import Admin
from jobs.settings import Settings
from ops.deploy.errors import DeployError
from ops.retry.letters import sent_again
from ops.retry.scan import scan
from ops.retry.topics import require
from udfs.core.model import Header
from udfs.core.retry import due_of

MARGIN_MS = 60_000
"""A record that was due so shortly before the stop may not have been let through: a busy task fires
its timers late. It is written again, and may come twice; at least once, then."""

_ANSWER_S = 60.0
# A transaction that is not finished keeps the readers of the topic waiting; this is its end when
# we are killed. Five minutes are a million records and more.
_TRANSACTION_TIMEOUT_MS = 300_000


def still_waits(headers: Mapping[str, bytes | None], asked_ms: int) -> bool:
    """Whether a record of the retry topic may have waited when a stop was asked for (epoch ms)."""
    return due_of({n: v for n, v in headers.items() if v is not None}) > asked_ms - MARGIN_MS


def resend(settings: Settings, read: Mapping[int, int], asked_ms: int) -> int:
    """Write what still waited to the retry topic once more.

    Args:
        settings: of the version that reads it from now on.
        read: how far the version that was left behind had read, by partition: the next offset.
        asked_ms: when that was asked to stop, epoch milliseconds.

    Returns:
        How many there were.

    Raises:
        DeployError: the brokers do not take them; then none of them is there twice.
        TablegateError: the topic cannot be read.
    """
    name = settings.output.retry
    client = librdkafka_config(settings)
    with Admin(settings) as admin:
        topic = require(admin, name, "output.retry")
        spans = {
            partition: (begin, min(read[partition], end))
            for partition, (begin, end) in topic.spans().items()
            if partition in read
        }
        writer = _Writer(admin, client, name)
        seen: set[tuple[Any, ...]] = set()
        for messages, _ in scan(admin, client, name, spans):
            for message in messages:
                headers: Any = message.headers() or []
                found = dict(headers)
                told = which_try(found, message)
                if still_waits(found, asked_ms) and told not in seen:
                    seen.add(told)
                    writer.write(message, headers)
        return writer.finish()


def which_try(headers: Mapping[str, bytes | None], message: Any) -> tuple[Any, ...]:
    """What tells a record from all others but the copies of it that were made here before."""
    told = tuple(headers.get(name) for name in (Header.SOURCE, Header.ATTEMPT, Header.DUE))
    # Without our headers it is a record by itself.
    return told if all(told) else (message.partition(), message.offset())


class _Writer:
    """A transaction that is begun with the first record: often there is none."""

    def __init__(self, admin: Admin, client: Mapping[str, Any], topic: str) -> None:
        self._admin, self._client, self._topic = admin, client, topic
        self._producer: Producer | None = None
        self._written = 0

    def write(self, message: Any, headers: Any) -> None:
        kind, written_ms = message.timestamp()
        headers, timestamp_ms = sent_again(headers, written_ms if kind else None, as_event=False)
        try:
            producer = self._begun()
            while True:
                try:
                    producer.produce(
                        self._topic,
                        message.value(),
                        message.key(),
                        timestamp=timestamp_ms,
                        headers=headers,
                    )
                    break
                except BufferError:
                    # Its queue is full: what is in it goes out meanwhile.
                    producer.poll(1.0)
            producer.poll(0)
        except KafkaException as error:
            raise self._refused(error) from None
        self._written += 1

    def finish(self) -> int:
        """Make what was written visible, and return how many records it is."""
        if self._producer is not None:
            try:
                self._producer.commit_transaction(_ANSWER_S)
            except KafkaException as error:
                raise self._refused(error) from None
        return self._written

    def _begun(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(
                {
                    "linger.ms": 5,
                    **self._client,
                    "acks": "all",
                    "enable.idempotence": True,
                    # Where Java's producer, and so the job, puts the key.
                    "partitioner": "murmur2_random",
                    "transactional.id": f"tablegate-resend-{self._topic}",
                    "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                },
                logger=self._admin,
            )
            self._producer.init_transactions(_ANSWER_S)
            self._producer.begin_transaction()
        return self._producer

    def _refused(self, error: KafkaException) -> DeployError:
        return DeployError(
            f"{self._topic} does not take the events that waited there for their next try: "
            f"{self._admin.scrub(error.args[0].str())}.",
            "The new version runs, without them; the next deploy command tries again. They are in "
            "the savepoint of the version before as well.",
        )
