"""The gated join as a Flink function: moves state in and out, decides nothing itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyflink.common import Types
from pyflink.datastream import OutputTag
from pyflink.datastream.functions import KeyedCoProcessFunction, RuntimeContext
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

from udfs import code
from udfs.core.events import (
    EventReader,
    Headers,
    record_bytes,
    set_aside_headers,
    without_ours,
)
from udfs.core.jsontext import BadRecord
from udfs.core.merge import CustomMerge, Merge
from udfs.core.model import DELETED_ROW, Verdict, source_of, verdict_for
from udfs.core.rows import RowReader
from udfs.records import Record, output, output_type, read_record

RELEASE_AT_MS = 0
"""Event time of every event, and of the timer that releases the held ones: the watermark passes it
when the gate opens. Kafka's timestamps play no part, so an event older than its row still hits."""

# How many events of a key are held in one value before the map takes the rest: the value is
# rewritten with every event, so it stays short.
_HELD_FIRST = 8

# Offsets use the low 48 bits of a held event's number, which sorts by partition and then offset.
_OFFSET_BITS = 48


def retry_tag() -> OutputTag:
    """Side output of the misses."""
    return OutputTag("retry", output_type())


def dead_tag() -> OutputTag:
    """Side output of unreadable records and events without a key."""
    return OutputTag("dead", output_type())


def row_state() -> ValueStateDescriptor:
    """The table: for each join key the row's JSON text, or DELETED_ROW."""
    return ValueStateDescriptor("table-row", Types.PICKLED_BYTE_ARRAY())


def held_first_state() -> ValueStateDescriptor:
    """The first few events held back for a key: list of (first-seen time, record), as they came.

    Most keys have no more than these, and one value costs RocksDB a point read where a map costs
    an iterator for the keys and another for the clearing.
    """
    return ValueStateDescriptor("held-first", Types.PICKLED_BYTE_ARRAY())


def held_more_state() -> MapStateDescriptor:
    """The events held back beyond the first: number in the log to (first-seen time, record).

    A map and not a list, since RocksDB reads a list whole: a key with half a million held events
    would need all of them in memory at once.
    """
    return MapStateDescriptor("held-more", Types.LONG(), Types.PICKLED_BYTE_ARRAY())


@dataclass(frozen=True)
class JoinRules:
    """What the join function is told by the settings."""

    stream_topic: str
    table_topic: str
    events: EventReader
    rows: RowReader
    merge: Merge
    gated: bool = True
    """False joins at once, as people write it without a gate. For comparison only."""
    max_enriched_bytes: int | None = None
    """The largest key, value and headers that the enriched topic takes; None: not known."""


class GatedJoin(KeyedCoProcessFunction):
    """Joins events (input 1) with the table's rows (input 2), both keyed by the join key.

    Main output: enriched events. Side outputs: :func:`retry_tag` and :func:`dead_tag`. Until the
    watermark passes RELEASE_AT_MS, that is until the table is loaded, events are held in state.
    """

    def __init__(self, rules: JoinRules) -> None:
        self._rules = rules
        # Taken on the client, compared on the worker.
        self._code = code.LOADED
        self._merge_code = _code_of(rules.merge)

    def open(self, runtime_context: RuntimeContext) -> None:
        code.require_same("Tablegate's workers (package udfs)", self._code, code.LOADED)
        code.require_same(
            "the merge function's module", self._merge_code, _code_of(self._rules.merge)
        )
        self._row = runtime_context.get_state(row_state())
        self._held_first = runtime_context.get_state(held_first_state())
        self._held_more = runtime_context.get_map_state(held_more_state())
        self._retry, self._dead = retry_tag(), dead_tag()
        # A watermark never goes back within an attempt, so that an open gate is asked for once.
        self._open = not self._rules.gated
        metrics = runtime_context.get_metrics_group()
        self._hits = metrics.counter("hits")
        self._misses = metrics.counter("misses")
        self._dead_letters = metrics.counter("dead_letters")
        self._held_events = metrics.counter("held_events")
        self._released_events = metrics.counter("released_events")

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        event = read_record(value)
        if self._open or ctx.timer_service().current_watermark() >= RELEASE_AT_MS:
            self._open = True
            yield from self._join(event)
            return
        self._hold(event, ctx)
        self._held_events.inc()

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        record = read_record(value)
        try:
            key, row = self._rules.rows.read(record.key, record.value)
            _check_route(record, key)
        except BadRecord as error:
            yield self._dead_letter(record, self._rules.table_topic, Verdict.BAD_RECORD, str(error))
            return
        self._row.update(DELETED_ROW if row is None else row)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        self._open = True
        first = self._held_first.value() or []
        for first_seen_ms, *event in first:
            yield from self._join(Record(*event), first_seen_ms)
        self._held_first.clear()
        self._released_events.inc(len(first))
        if len(first) < _HELD_FIRST:
            return
        # Sorted here: the order of a map state's keys depends on the state backend.
        for number in sorted(self._held_more.keys()):
            first_seen_ms, *event = self._held_more.get(number)
            yield from self._join(Record(*event), first_seen_ms)
            self._released_events.inc()
        self._held_more.clear()

    def _hold(self, event: Record, ctx: KeyedCoProcessFunction.Context) -> None:
        held = (_now_ms(), *event)
        first = self._held_first.value() or []
        if not first:
            ctx.timer_service().register_event_time_timer(RELEASE_AT_MS)
        if len(first) < _HELD_FIRST:
            self._held_first.update([*first, held])
        else:
            self._held_more.put((event.partition << _OFFSET_BITS) | event.offset, held)

    def _join(self, event: Record, seen_ms: int | None = None) -> Iterator[Any]:
        topic = self._rules.stream_topic
        try:
            key, fields = self._rules.events.read(event.key, event.value)
            _check_route(event, key)
            if key is None:
                yield self._dead_letter(
                    event, topic, Verdict.NO_KEY, "join key is missing or null", seen_ms
                )
                return
            row = self._row.value()
            verdict = verdict_for(row)
            if verdict is Verdict.HIT:
                # An event without a value has been refused above.
                merged = self._rules.merge(event.value, fields, row)  # type: ignore[arg-type]
                headers = without_ours(event.headers)
                self._check_size(event.key, merged, headers)
                yield output(event.key, merged, headers, event.timestamp_ms)
                self._hits.inc()
                return
        except BadRecord as error:
            yield self._dead_letter(event, topic, Verdict.BAD_RECORD, str(error), seen_ms)
            return
        source = source_of(topic, event.partition, event.offset)
        # Asked for here only: a hit, the usual case, needs no clock.
        seen_ms = _now_ms() if seen_ms is None else seen_ms
        headers = set_aside_headers(event.headers, verdict, source, seen_ms)
        yield self._retry, output(event.key, event.value, headers, event.timestamp_ms)
        self._misses.inc()

    def _check_size(self, key: bytes | None, value: bytes, headers: Headers | None) -> None:
        limit = self._rules.max_enriched_bytes
        if limit is not None and (size := record_bytes(key, value, headers)) > limit:
            raise BadRecord(
                f"enriched event would have {size} bytes, and its topic takes {limit} "
                "(max.message.bytes, less room for the envelope)"
            )

    def _dead_letter(
        self, record: Record, topic: str, verdict: Verdict, error: str, seen_ms: int | None = None
    ) -> tuple[OutputTag, Any]:
        self._dead_letters.inc()
        source = source_of(topic, record.partition, record.offset)
        now = _now_ms() if seen_ms is None else seen_ms
        headers = set_aside_headers(record.headers, verdict, source, now, f"{source}: {error}")
        return self._dead, output(record.key, record.value, headers, record.timestamp_ms)


def _code_of(merge: Merge) -> str:
    return code.digest_of_module(merge.module) if isinstance(merge, CustomMerge) else ""


def _check_route(record: Record, key: str | None) -> None:
    """Refuses a record that the JVM routed by another key than the one we read.

    Both read by the same rule, with two JSON readers; where these disagree (a document nested
    deeper than the JVM's limit, say) the state at hand is another key's.
    """
    if record.routed_key != key:
        raise BadRecord(
            f"key was read as {record.routed_key!r} for routing and as {key!r} for joining"
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
