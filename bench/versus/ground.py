"""Topics of a measurement: filled, asked for their ends, read back."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from confluent_kafka.admin import AdminClient

from bench import records
from bench.versus.filling import ends, fill, passed
from ops.demo import topics

ROWS_AGE_MS = 3_600_000
"""By how much rows are older than the events: where event time decides, every event meets its row.
A negative age makes them younger: as after a restart that went on with old events."""

_ANSWER_S = 30.0
# The time at which the broker took a record: one clock for all systems, whatever each writes.
_APPENDED = topics.KEEP | {"message.timestamp.type": "LogAppendTime"}


@dataclass(frozen=True)
class Size:
    """How large the inputs are."""

    rows: int
    row_bytes: int
    partitions: int = 4


def now_ms() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000


class Topics(NamedTuple):
    """Of one run."""

    stream: str
    table: str
    enriched: str

    @classmethod
    def of(cls, name: str) -> Topics:
        """Those of the run ``name``."""
        return cls(f"events-{name}", f"rows-{name}", f"enriched-{name}")

    def create(self, brokers: str, partitions: int) -> None:
        """Empty ones. Raises StackError."""
        topics.create(brokers, {self.stream: topics.KEEP}, partitions)
        topics.create(brokers, {self.table: topics.COMPACTED}, partitions)
        topics.create(brokers, {self.enriched: _APPENDED}, partitions)
        for topic in self:
            ends(brokers, topic)

    def delete(self, brokers: str, run: str) -> None:
        """Give the disk back, also that of topics which the system made for ``run``."""
        admin = AdminClient({"bootstrap.servers": brokers, "log_level": 3})
        there = admin.list_topics(timeout=_ANSWER_S).topics
        gone = [*self, *(name for name in there if name.startswith(f"{run}-"))]
        for answer in admin.delete_topics(gone, operation_timeout=_ANSWER_S).values():
            answer.result(timeout=_ANSWER_S)


def fill_table(brokers: str, topic: str, size: Size, age_ms: int = ROWS_AGE_MS) -> None:
    """Write all rows once, oldest first."""
    written_ms = now_ms() - age_ms
    fill(brokers, topic, records.rows(size.rows, size.row_bytes, written_ms))


def write_delta(brokers: str, topic: str, size: Size, count: int) -> None:
    """Write a new revision of the newest ``count`` rows, the newest row last."""
    written_ms = now_ms() - ROWS_AGE_MS // 2
    first = max(0, size.rows - count)
    drafts = (records.row(n, size.row_bytes, written_ms, 1) for n in range(first, size.rows))
    fill(brokers, topic, drafts)


class Answer(NamedTuple):
    """One enriched record."""

    n: int
    at_ms: int
    """When the broker took it."""
    right: bool


def answers(
    brokers: str, topic: str, *, joined: bool = True, since: Mapping[int, int] | None = None
) -> Iterator[Answer]:
    """Enriched records by partition, from offsets ``since`` on (None: all) to the ends of now.

    ``joined=False``: they need no row to be right.
    """
    for message in passed(brokers, topic, since):
        yield answer(message.value(), message.timestamp()[1], joined=joined)


def answer(value: bytes | None, at_ms: int, *, joined: bool, revision: int = 0) -> Answer:
    """What an enriched value says. Raises msgspec.DecodeError for what is not JSON."""
    number = int(msgspec.json.decode(value or b"{}").get("n", -1))
    return Answer(number, at_ms, records.is_right(value, revision) if joined else True)
