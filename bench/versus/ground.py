"""Topics of a measurement: filled, asked for their ends, read back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from confluent_kafka.admin import AdminClient

from bench import records
from ops.demo import topics
from ops.demo.check import Record

# Rows are older than the events: where event time decides, every event still meets its row.
_ROWS_AGE_MS = 3_600_000
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

    def delete(self, brokers: str) -> None:
        """Give the disk back."""
        admin = AdminClient({"bootstrap.servers": brokers, "log_level": 3})
        for answer in admin.delete_topics(list(self), operation_timeout=_ANSWER_S).values():
            answer.result(timeout=_ANSWER_S)


def fill_table(brokers: str, topic: str, size: Size) -> None:
    """Write all rows once, oldest first."""
    written_ms = now_ms() - _ROWS_AGE_MS
    topics.produce(brokers, topic, records.rows(size.rows, size.row_bytes, written_ms))


def write_delta(brokers: str, topic: str, size: Size, count: int) -> None:
    """Write ``count`` rows anew, the newest keys and with them the newest row last."""
    written_ms = now_ms() - _ROWS_AGE_MS // 2
    first = max(0, size.rows - count)
    drafts = (records.row(n, size.row_bytes, written_ms) for n in range(first, size.rows))
    topics.produce(brokers, topic, drafts)


class Answer(NamedTuple):
    """One enriched record."""

    n: int
    at_ms: int
    """When the broker took it."""
    right: bool


def answers(brokers: str, topic: str, *, joined: bool = True) -> Iterator[Answer]:
    """All enriched records so far, by partition. ``joined=False``: they need no row to be right."""
    reader = topics.Reader(brokers, [topic])
    try:
        for _, record in reader.rest(deadline_s=600):
            yield answer(record, joined=joined)
    finally:
        reader.close()


def answer(record: Record, *, joined: bool) -> Answer:
    """What an enriched record says. Raises msgspec.DecodeError for what is not JSON."""
    value = record.value or b"{}"
    number = int(msgspec.json.decode(value).get("n", -1))
    return Answer(number, record.timestamp_ms, records.is_right(value) if joined else True)
