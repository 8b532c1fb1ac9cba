"""Asks the brokers what a consumer can still read: the targets of the gate, exact per partition."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from udfs.core.errors import NoAnswerError, TargetError
from udfs.core.gate import Target

log = logging.getLogger(__name__)

_RPC_TIMEOUT_S = 15.0
_READ_TIMEOUT_S = 60.0
# A marker or two at the end is the usual case, so the first look back is short.
_FIRST_LOOK_BACK = 16
_LOOK_BACK_GROWTH = 16
# Answers that asking again will not change soon.
_REFUSED = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
    }
)


class TopicNow(NamedTuple):
    """A topic as the brokers describe it now.

    ``topic_id`` is as Kafka's tools print it; it changes when a topic is created anew.
    ``leaderless`` are the partitions that nobody can read at the moment.
    """

    topic_id: str
    partitions: tuple[int, ...]
    leaderless: tuple[int, ...]


class TargetResolver:
    """Looks at the ends of one topic's partitions. Close it after use.

    ``client`` is a librdkafka configuration (brokers and security). ``isolation_level`` must be
    that of the table source, or targets and deliveries would not speak of the same records.
    """

    def __init__(self, client: Mapping[str, str], topic: str, isolation_level: str) -> None:
        self._topic = topic
        # How long an answer is waited for, in seconds.
        self.patience_s = _RPC_TIMEOUT_S
        self._committed_only = isolation_level == "read_committed"
        self._client = client
        self._admin = AdminClient(dict(client), logger=log)
        self._consumer = Consumer(
            {
                # No group is ever joined; librdkafka wants a name all the same.
                "group.id": "tablegate-targets",
                **client,
                "isolation.level": isolation_level,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # The tail is short: an answer at once beats a full fetch.
                "fetch.wait.max.ms": 10,
                # A segment may be deleted between two questions; read on at the new beginning.
                "auto.offset.reset": "earliest",
            },
            logger=log,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()

    def cluster_id(self) -> str:
        """The id of the Kafka cluster. Raises NoAnswerError."""
        try:
            cluster = self._admin.describe_cluster(request_timeout=self.patience_s).result()
        except KafkaException as error:
            raise self._no_answer(error) from error
        return str(cluster.cluster_id)

    def topic(self, name: str | None = None) -> TopicNow:
        """The table topic, or topic ``name``, as it is now.

        Raises TargetError when it is missing or may not be described, NoAnswerError when the
        brokers are away.
        """
        name = name or self._topic
        wanted = TopicCollection([name])
        try:
            future = self._admin.describe_topics(wanted, request_timeout=self.patience_s)[name]
            found = future.result()
        except KafkaException as error:
            if error.args and error.args[0].code() in _REFUSED:
                raise TargetError(
                    f"Topic {name} cannot be read ({error.args[0].str()}).",
                    "Check that it exists and that this client may describe and read it.",
                ) from error
            raise self._no_answer(error) from error
        return TopicNow(
            topic_id_text(found.topic_id),
            tuple(sorted(partition.id for partition in found.partitions)),
            tuple(p.id for p in found.partitions if p.leader is None or p.leader.id < 0),
        )

    def resolve(self) -> dict[int, Target]:
        """The target of each partition, as of now.

        Raises TargetError when the topic is missing, NoAnswerError when a broker is away.
        """
        partitions = self.topic().partitions
        # The log end without isolation: under read_committed the consumer's own end stops at the
        # first unfinished transaction and would hide committed rows behind it.
        ends = self.log_ends(partitions)
        begins = self._offsets(partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)
        return self._targets({p: (min(begins[p], ends[p]), ends[p]) for p in partitions})

    def resolve_again(self, waiting: Mapping[int, Target]) -> dict[int, Target]:
        """Targets that had to wait for a transaction, below the log end that they had then."""
        return self._targets({p: (target.begin, target.end) for p, target in waiting.items()})

    def first_readable(self, targets: Mapping[int, Target]) -> dict[int, int]:
        """The offset of the first record that can be read, of each partition with a target.

        Raises NoAnswerError.
        """
        heads = {p: goal + 1 for p, target in targets.items() if (goal := target.goal) is not None}
        spans = {p: (targets[p].begin, end) for p, end in heads.items()}
        deadline = time.monotonic() + _READ_TIMEOUT_S
        return self._read_span(spans, deadline, only_first=True)

    def log_ends(self, partitions: Iterable[int]) -> dict[int, int]:
        """The log end (high watermark) of each partition now. Raises NoAnswerError."""
        return self._offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)

    def stable_ends(self, partitions: Iterable[int]) -> dict[int, int]:
        """Where the first unfinished transaction begins, or else the log end. NoAnswerError."""
        return self._offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)

    def _targets(self, spans: Mapping[int, tuple[int, int]]) -> dict[int, Target]:
        filled = {p: span for p, span in spans.items() if span[0] < span[1]}
        unstable: set[int] = set()
        if self._committed_only and filled:
            # Asked after the log ends: a stable end at or past them proves that every transaction
            # below them has ended.
            stable = self.stable_ends(filled)
            unstable = {p for p, (_, end) in filled.items() if stable[p] < end}
        last = self._last_readable({p: s for p, s in filled.items() if p not in unstable})
        return {
            p: Target(begin, end, last.get(p), waiting=p in unstable)
            for p, (begin, end) in spans.items()
        }

    def _last_readable(self, spans: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """Reads the tails backwards, all at once, until each shows a record or is read whole."""
        last: dict[int, int] = {}
        look_back = _FIRST_LOOK_BACK
        left = dict(spans)
        deadline = time.monotonic() + _READ_TIMEOUT_S
        while left:
            starts = {p: max(begin, end - look_back) for p, (begin, end) in left.items()}
            last |= self._read_span({p: (starts[p], left[p][1]) for p in left}, deadline)
            # What lies before `end` on the next look has been seen empty on this one.
            left = {
                p: (begin, starts[p])
                for p, (begin, _) in left.items()
                if p not in last and starts[p] > begin
            }
            look_back *= _LOOK_BACK_GROWTH
        return last

    def _read_span(
        self, spans: Mapping[int, tuple[int, int]], deadline: float, *, only_first: bool = False
    ) -> dict[int, int]:
        """The last readable offset of each span, or the first; none where there is no record."""
        last: dict[int, int] = {}
        open_spans = {p: end for p, (_, end) in spans.items()}
        self._consumer.assign([TopicPartition(self._topic, p, s) for p, (s, _) in spans.items()])
        try:
            while open_spans:
                message = self._consumer.poll(1.0)
                if message is None:
                    if time.monotonic() > deadline:
                        raise NoAnswerError(
                            f"The end of {self._topic}{sorted(open_spans)} could not be read "
                            f"within {_READ_TIMEOUT_S:.0f} s.",
                            "Check that the leaders of these partitions are reachable from the "
                            "TaskManagers.",
                        )
                    continue
                # librdkafka's types allow for messages that were never sent; these were fetched.
                partition, offset = int(message.partition() or 0), int(message.offset() or 0)
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise self._no_answer(KafkaException(error))
                end = open_spans.get(partition)
                if end is None:
                    continue
                if error is None and offset < end:
                    last[partition] = offset
                if error is not None or offset >= end - 1 or only_first:
                    del open_spans[partition]
                    self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])
        finally:
            self._consumer.unassign()
        return last

    def _offsets(
        self, partitions: Iterable[int], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[int, int]:
        request = {TopicPartition(self._topic, p): spec for p in partitions}
        try:
            futures = self._admin.list_offsets(
                request, isolation_level=isolation, request_timeout=self.patience_s
            )
            return {tp.partition: f.result().offset for tp, f in futures.items()}
        except KafkaException as error:
            # It keeps the leaders' epochs that it has learned: after an election or a broker's
            # restart it would be refused with "leader epoch is older" for good. A new one asks.
            self._admin = AdminClient(dict(self._client), logger=log)
            raise self._no_answer(error) from error

    def _no_answer(self, error: KafkaException) -> NoAnswerError:
        reason = error.args[0].str() if error.args else str(error)
        return NoAnswerError(
            f"The brokers did not say where table topic {self._topic} ends: {reason}.",
            "Check that they are reachable from the TaskManagers and that this client may describe "
            "and read the topic. The attempt is tried again by the restart strategy.",
        )


def topic_id_text(topic_id: object) -> str:
    """A topic id as Kafka's tools print it: with - and _ where librdkafka has + and /."""
    return str(topic_id).replace("+", "-").replace("/", "_")
