"""Asks the brokers where a topic's partitions begin and end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType

from jobs.preflight.admin import TIMEOUT_S, Admin
from ops.retry.errors import Exit, RetryError
from ops.retry.letters import Place
from udfs.targets import topic_id_text


class Ends(NamedTuple):
    """One partition: its first offset, its log end, and how far committed records reach.

    ``stable`` is where the first unfinished transaction begins, or else the log end, a moment
    later than ``log``.
    """

    begin: int
    stable: int
    log: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it was at one moment. ``topic_id`` changes when it is created anew."""

    name: str
    topic_id: str
    partitions: Mapping[int, Ends]

    @property
    def hidden(self) -> int:
        """Offsets that nobody who reads committed records sees until a transaction has ended."""
        return sum(max(0, ends.log - ends.stable) for ends in self.partitions.values())

    def spans(self, at: Iterable[Place] = ()) -> dict[int, tuple[int, int]]:
        """What is to be read, by partition: first offset, and the one behind the last.

        All of it; with ``at``, as much as holds these places.

        Raises:
            RetryError: one of them is not there.
        """
        wanted: dict[int, tuple[int, int]] = {}
        for place in at:
            ends = self.partitions.get(place.partition)
            if ends is None or not ends.begin <= place.offset < ends.stable:
                found = "no such partition" if ends is None else f"{ends.begin} to {ends.stable}"
                raise RetryError(
                    f"Nothing can be read at {place}: {found}.",
                    "It was deleted by retention, hidden by an unfinished transaction, or never "
                    "there; `tablegate retry list` shows what is.",
                )
            first, behind = wanted.get(place.partition, (place.offset, place.offset + 1))
            wanted[place.partition] = (min(first, place.offset), max(behind, place.offset + 1))
        if wanted:
            return wanted
        return {p: (e.begin, e.stable) for p, e in sorted(self.partitions.items())}


def find(admin: Admin, name: str) -> Topic | None:
    """The topic as it is now; None when there is none.

    Raises:
        PreflightError: the brokers do not answer.
        RetryError: they answer with an error.
    """
    try:
        wanted = TopicCollection([name])
        question = admin.client.describe_topics(wanted, request_timeout=TIMEOUT_S)[name]
        described = admin.answer(question, f"topic {name}")
        numbers = sorted(partition.id for partition in described.partitions)
        begins = _offsets(admin, name, numbers, OffsetSpec.earliest())
        # The stable ends last: one at or past its log end proves that nothing below was hidden.
        ends = _offsets(admin, name, numbers, OffsetSpec.latest())
        stable = _offsets(admin, name, numbers, OffsetSpec.latest(), committed=True)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise RetryError(
            f"The brokers do not tell about topic {name}: {admin.scrub(error.args[0].str())}.",
            "Check that this client may describe and read it, and that its partitions have leaders "
            "(the commands use the --config's client properties).",
            Exit.ERROR,
        ) from None
    partitions = {p: Ends(min(begins[p], stable[p]), stable[p], ends[p]) for p in numbers}
    return Topic(name, topic_id_text(described.topic_id), partitions)


def require(admin: Admin, name: str, key: str) -> Topic:
    """As `find`, for a topic that setting ``key`` names and that must be there.

    Raises:
        RetryError: it is not.
    """
    topic = find(admin, name)
    if topic is None:
        raise RetryError(
            f"There is no topic {name} ({key}).",
            "Check the --config and kafka.bootstrap_servers.",
        )
    return topic


def max_message_bytes(admin: Admin, name: str) -> int | None:
    """How many bytes a batch of records may have in that topic; None when it is not told.

    Raises:
        PreflightError: the brokers do not answer.
    """
    resource = ConfigResource(ResourceType.TOPIC, name)
    question = admin.client.describe_configs([resource], request_timeout=TIMEOUT_S)[resource]
    try:
        entries = admin.answer(question, f"the configuration of topic {name}")
    except KafkaException:
        # Whoever may write to it need not be allowed to read this.
        return None
    entry = entries.get("max.message.bytes")
    return int(entry.value) if entry is not None else None


def _offsets(
    admin: Admin, name: str, partitions: list[int], spec: OffsetSpec, *, committed: bool = False
) -> dict[int, int]:
    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    asked: dict[TopicPartition, Any] = admin.client.list_offsets(
        {TopicPartition(name, p): spec for p in partitions},
        isolation_level=isolation,
        request_timeout=TIMEOUT_S,
    )
    return {
        tp.partition: int(admin.answer(future, f"the offsets of {name}").offset)
        for tp, future in asked.items()
    }
