"""What the job's own topics say of the numbers that a plan needs."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType

from jobs.clients import librdkafka_config
from jobs.preflight.admin import TIMEOUT_S, Admin
from jobs.settings import Settings
from ops.plan.figures import Figure, Origin
from ops.plan.sample import sizes, unreadable
from udfs.core.errors import PreflightError
from udfs.core.gate import Target
from udfs.targets import TargetResolver


@dataclass(frozen=True, slots=True)
class Since:
    """One partition of the stream in the window: offsets, and epoch milliseconds.

    ``first`` is the first offset that was written in the window, at ``first_ms``; None: none was.
    """

    begin: int
    end: int
    first: int | None
    first_ms: int


def rate(partitions: Collection[Since], from_ms: int, now_ms: int) -> float | None:
    """Events a second in the window from ``from_ms`` to ``now_ms``; None: there are none.

    Where all of the topic lies in the window, it is as old as its oldest event; a longer window
    would thin its events out.
    """
    found = [part for part in partitions if part.first is not None]
    events = sum(part.end - part.first for part in found if part.first is not None)
    if events <= 0:
        return None
    young = all(part.begin in {part.first, part.end} for part in partitions)
    # An event may be stamped later than now: clocks differ.
    begin_ms = min(part.first_ms for part in found) if young else from_ms
    return events / max(1.0, (now_ms - begin_ms) / 1000)


class Topics:
    """Asks the brokers about stream and table. Use it as a context.

    Raises:
        TablegateError: brokers that do not answer or let us in, a topic that is not there, a client
            property that cannot be used; each by its own class, with what to do.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._held = ExitStack()
        self._client = librdkafka_config(settings)
        self._admin = self._held.enter_context(Admin(settings))
        self._resolvers = {
            side.topic: self._held.enter_context(
                TargetResolver(self._client, side.topic, side.isolation_level)
            )
            for side in (settings.table, settings.stream)
        }
        for resolver in self._resolvers.values():
            resolver.patience_s = TIMEOUT_S
        self._known: dict[str, dict[int, Target]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    # -------------------------------------------------------------------------------- the answers

    def rows(self) -> Figure:
        """Records that a first start has to read: what the gate calls offsets to read."""
        topic = self._settings.table.topic
        count = sum(target.size for target in self._targets(topic).values())
        return _measured(
            count, "rows", f"offsets of topic {topic}; an upper bound, old versions counted"
        )

    def backlog(self) -> Figure:
        """Events that wait for a first start, by where it begins in the stream."""
        stream = self._settings.stream
        if stream.start == "earliest":
            count = sum(target.size for target in self._targets(stream.topic).values())
            return _measured(
                count, "events", f"offsets of topic {stream.topic}, from its beginning"
            )
        where = f'stream.start = "{stream.start}"'
        origin = Origin.GIVEN if stream.start == "latest" else Origin.ASSUMED
        return Figure(0.0, "events", origin, where)

    def events_per_s(self, window_s: float) -> Figure:
        """Events a second over the last ``window_s`` seconds, by the records' timestamps."""
        topic = self._settings.stream.topic
        now_ms = time.time_ns() // 1_000_000
        from_ms = now_ms - int(window_s * 1000)
        found = rate(self._since(topic, from_ms), from_ms, now_ms)
        if found is None:
            raise PreflightError(
                f"No record of stream topic {topic} has a timestamp in the last "
                f"{window_s / 60:g} min, so its rate is not known.",
                "Give --events-per-second, best that of your busiest hour, or a longer --window.",
            )
        source = f"timestamps of topic {topic}, the last {window_s / 60:g} min"
        return _measured(found, "events/s", source)

    def row_bytes(self) -> Figure | None:
        """Bytes of a row: key, value and headers of records at the table's end, on average."""
        return self._size(self._settings.table.topic)

    def event_bytes(self) -> Figure | None:
        """The same of an event."""
        return self._size(self._settings.stream.topic)

    def retention(self) -> Figure | None:
        """How long the stream topic keeps an event, in seconds; None: for ever, or not to know."""
        topic = self._settings.stream.topic
        resource = ConfigResource(ResourceType.TOPIC, topic)
        asked = self._admin.client.describe_configs([resource], request_timeout=TIMEOUT_S)
        try:
            config = self._admin.answer(asked[resource], f"the configuration of topic {topic}")
        except KafkaException:
            # Not every user may read it, and the plan is of use without.
            return None
        kept_ms = int(config["retention.ms"].value)
        if "delete" not in config["cleanup.policy"].value or kept_ms < 0:
            return None
        return _measured(kept_ms / 1000, "s", f"retention.ms of topic {topic}")

    # ------------------------------------------------------------------------------ the questions

    def _targets(self, topic: str) -> dict[int, Target]:
        if topic not in self._known:
            self._known[topic] = self._resolvers[topic].resolve()
        return self._known[topic]

    def _since(self, topic: str, from_ms: int) -> list[Since]:
        targets = self._targets(topic)
        asked = {TopicPartition(topic, p): OffsetSpec.for_timestamp(from_ms) for p in targets}
        answers = self._admin.client.list_offsets(asked, request_timeout=TIMEOUT_S)
        found = []
        for place, question in answers.items():
            try:
                told = self._admin.answer(question, f"offsets of topic {topic} by time")
            except KafkaException as error:
                raise unreadable(self._admin, topic, error.args[0]) from None
            target = targets[place.partition]
            # -1: no record is as young as that.
            first = told.offset if told.offset >= 0 else None
            found.append(Since(target.begin, target.end, first, told.timestamp))
        return found

    def _size(self, topic: str) -> Figure | None:
        found = list(sizes(self._admin, self._client, topic, self._targets(topic)))
        if not found:
            return None
        source = f"the last {len(found):,} records of topic {topic}, on average"
        return _measured(sum(found) / len(found), "bytes", source)


def _measured(value: float, unit: str, source: str) -> Figure:
    return Figure(float(value), unit, Origin.MEASURED, source)
