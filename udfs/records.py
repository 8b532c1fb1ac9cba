"""The shape in which records cross between the JVM and Python, declared once for both sides."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyflink.common import Row, RowKind, Types
from pyflink.common.typeinfo import TypeInformation

from udfs.core.events import own_timestamp_ms

_INSERT = RowKind.INSERT.value


class Record(NamedTuple):
    """A Kafka record as the operators see it.

    ``routed_key`` is the join key that the JVM routed by, None when it found none. ``headers`` is
    None when there are none. ``timestamp_ms`` is Kafka's, epoch milliseconds. A negative
    ``partition`` is one of the retry topic, see :func:`retried`.
    """

    routed_key: str | None
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes] | None
    timestamp_ms: int
    partition: int
    offset: int


def retried(record: Record) -> Record:
    """The record, marked as one of the retry topic: partition 0 becomes -1, 1 becomes -2.

    Not by a field of its own: held events are kept in savepoints with the fields that they had.
    Its timestamp becomes the event's own.
    """
    return record._replace(
        partition=-1 - record.partition,
        timestamp_ms=own_timestamp_ms(record.headers, record.timestamp_ms),
    )


def is_retried(record: Record) -> bool:
    """Whether the record came from the retry topic."""
    return record.partition < 0


def record_type() -> TypeInformation:
    """Flink's type of a Record, as it comes from the JVM."""
    text, raw = Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE())
    fields = [text, raw, raw, Types.MAP(text, raw), Types.LONG(), Types.INT(), Types.LONG()]
    return Types.ROW_NAMED(list(Record._fields), fields)


def pair_type() -> TypeInformation:
    """Flink's type of a Record behind the text that it is routed by."""
    return Types.ROW([Types.STRING(), record_type()])


def pair(record: Record) -> Row:
    """The record behind the text that it is routed by, of :func:`pair_type`.

    One without a key is routed by where it stands: such records spread over all subtasks, and none
    of them is ever looked up.
    """
    routed = record.routed_key
    if routed is None:
        routed = f"no key: {record.partition}@{record.offset}"
    return Row(routed, Row(*record))


def output_type() -> TypeInformation:
    """Flink's type of what goes to a Kafka topic: key, value, headers, timestamp (epoch ms).

    ``counted`` says what it counts as in the hit rate, see ``udfs.core.hitrate``: null is a hit, ""
    nothing, as another record speaks for the event.
    """
    raw, text = Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.STRING()
    return Types.ROW_NAMED(
        ["key", "value", "headers", "timestamp_ms", "counted"],
        [raw, raw, Types.MAP(text, raw), Types.LONG(), text],
    )


class _OutputRow(Row):
    """A Row that is made quickly: Row checks each attribute by name as it is set."""

    __setattr__ = object.__setattr__

    def __init__(self, *values: Any) -> None:
        self._values = list(values)
        self._row_kind = RowKind.INSERT


def output(
    key: bytes | None,
    value: bytes | None,
    headers: dict[str, bytes] | None,
    timestamp_ms: int,
    counted: str | None = None,
) -> Row:
    """One record for a Kafka topic, of :func:`output_type`."""
    return _OutputRow(key, value, headers, timestamp_ms, counted)


def read_record(row: Any) -> Record:
    """The Record in a Flink row of :func:`record_type`."""
    # _make takes the row's own iterator; Record(*row) would build a tuple of arguments first.
    return Record._make(row)


def crossed(record: Any) -> Record:
    """The same of what ``udfs.crossing`` hands over: (row kind, fields)."""
    return Record._make(record[1])


def crossing_output(
    key: bytes | None,
    value: bytes | None,
    headers: dict[str, bytes] | None,
    timestamp_ms: int,
    counted: str | None = None,
) -> Any:
    """What :func:`output` makes, in the form that ``udfs.crossing`` hands to the JVM."""
    return _INSERT, (key, value, headers, timestamp_ms, counted)
