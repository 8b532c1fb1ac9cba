"""The gated join as a Flink function: moves state in and out, decides nothing itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyflink.common import Types
from pyflink.datastream import OutputTag, TimeDomain
from pyflink.datastream.functions import KeyedCoProcessFunction, RuntimeContext
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

from udfs import code
from udfs.brake import Brake
from udfs.core.events import (
    EventReader,
    Headers,
    attempts_before,
    record_bytes,
    set_aside_headers,
    without_ours,
)
from udfs.core.gate import OPENED_SHORT_MS
from udfs.core.hold import Completeness, Consistency, completeness, moment
from udfs.core.jsontext import BadRecord
from udfs.core.merge import CustomMerge, Merge
from udfs.core.model import DELETED_ROW, Header, Verdict, source_of, verdict_for
from udfs.core.retry import RetryPlan
from udfs.core.rows import RowReader
from udfs.grace import Grace, Parked
from udfs.records import Record, is_retried, output, output_type, read_record

Held = tuple[Any, ...]
"""A held event in the state: the time at which it was read (epoch ms), and the Record's fields."""

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
    """The first few events held back for a key: (are there more?, list of :data:`Held`).

    Most keys have no more than these, and one value costs RocksDB a point read where a map costs
    an iterator for the keys and another for the clearing.
    """
    return ValueStateDescriptor("held-first", Types.PICKLED_BYTE_ARRAY())


def held_more_state() -> MapStateDescriptor:
    """The events held back beyond the first: number in the log to :data:`Held`.

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
    consistency: Consistency = Consistency.STARTUP
    max_table_lag_ms: int = 60_000
    """How old the time of the table's completeness may be before a miss is STALE_TABLE."""
    max_enriched_bytes: int | None = None
    """The largest key, value and headers that the enriched topic takes; None: not known."""
    hold_slack_events: int | None = None
    """Events that a subtask holds at full speed, see udfs.brake; None: no limit."""
    retry_topic: str = ""
    retries: RetryPlan = field(default_factory=RetryPlan)
    miss_grace_ms: int = 0
    """How long a miss waits for its row before it is told, see udfs.grace; 0: not at all."""


class GatedJoin(KeyedCoProcessFunction):
    """Joins events (input 1) with the table's rows (input 2), both keyed by the join key.

    Main output: enriched events. Side outputs: :func:`retry_tag` and :func:`dead_tag`. The
    watermark is the time until which the table is complete; until it passes an event's moment
    (``udfs.core.hold``), the event is held in state. One that then finds no row is parked until its
    row comes, or until its grace ends (``udfs.grace``).
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
        self._consistency = self._rules.consistency
        self._continuous = self._consistency is Consistency.CONTINUOUS
        # A watermark never goes back within an attempt, so that an open gate is asked for once.
        self._open = self._consistency is Consistency.NONE
        # When this subtask first had to know that the table is loaded.
        self._loaded_ms = 0
        # Also without a grace: an earlier version may have had one.
        self._grace = Grace(runtime_context, self._rules.miss_grace_ms, _now_ms())
        slack = self._rules.hold_slack_events
        self._brake = None if slack is None else Brake(slack)
        metrics = runtime_context.get_metrics_group()
        self._hits = metrics.counter("hits")
        self._misses = metrics.counter("misses")
        self._not_loaded = metrics.counter("not_loaded_misses")
        self._stale = metrics.counter("stale_table_misses")
        self._dead_letters = metrics.counter("dead_letters")
        self._held_events = metrics.counter("held_events")
        self._held_bytes = metrics.counter("held_bytes")
        self._released_events = metrics.counter("released_events")
        self._released_bytes = metrics.counter("released_bytes")
        self._parked_events = metrics.counter("parked_events")
        self._unparked_events = metrics.counter("unparked_events")
        self._late_hits = metrics.counter("late_hits")
        self._retried_hits = metrics.counter("retried_hits")
        self._given_up = metrics.counter("given_up")

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        event = read_record(value)
        if self._open:
            yield from self._join(event, ctx)
            return
        read_ms = _now_ms()
        at = moment(self._consistency, read_ms)
        # In continuous mode the moment is now, which no watermark has passed yet; and an event that
        # did not wait could overtake those of its key that do.
        if not self._continuous and ctx.timer_service().current_watermark() >= at:
            self._open = True
            yield from self._join(event, ctx)
            return
        self._hold(event, read_ms, at, ctx)
        if self._brake is not None:
            self._brake.held()

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        record = read_record(value)
        if self._brake is not None:
            self._brake.row()
        try:
            key, row = self._rules.rows.read(record.key, record.value)
            _check_route(record, key)
        except BadRecord as error:
            source = source_of(self._rules.table_topic, record.partition, record.offset)
            yield self._dead_letter(record, Verdict.BAD_RECORD, str(error), source=source)
            return
        self._row.update(DELETED_ROW if row is None else row)
        if row is not None and self._grace.may_have(key, ctx):
            yield from self._settle(key, ctx)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        key = ctx.get_current_key()[0]
        if ctx.time_domain() == TimeDomain.PROCESSING_TIME:
            self._grace.fired(timestamp)
            yield from self._settle(key, ctx)
            return
        # Before those that were held, which are younger.
        if self._grace.may_have(key, ctx):
            yield from self._settle(key, ctx)
        if not self._continuous:
            self._open = True
        complete_until_ms = ctx.timer_service().current_watermark()
        more, first = self._held_first.value() or (False, [])
        # What an event of one partition waits for, those behind it wait for as well.
        waiting: dict[int, int] = {}
        left: list[Held] = []
        for held in first:
            if self._waits(held, complete_until_ms, waiting):
                left.append(held)
            else:
                yield from self._release(held, ctx)
        # Sorted here: the order of a map state's keys depends on the state backend.
        numbers = sorted(self._held_more.keys()) if more else []
        released = 0
        for number in numbers:
            if number >> _OFFSET_BITS in waiting:
                continue
            held = self._held_more.get(number)
            if not self._waits(held, complete_until_ms, waiting):
                yield from self._release(held, ctx)
                self._held_more.remove(number)
                released += 1
        if waiting:
            self._held_first.update((released < len(numbers), left))
            ctx.timer_service().register_event_time_timer(min(waiting.values()))
        else:
            self._held_first.clear()

    def _settle(self, key: str | None, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        """Decide the parked events of the current key whose row is there or whose grace is over."""
        timers, now_ms = ctx.timer_service(), _now_ms()
        watermark_ms = timers.current_watermark()
        has_row = bool(self._row.value())

        def decidable(parked: Parked) -> bool:
            # After a restart the table may be short again, and its row not the newest.
            return self._consistency is Consistency.NONE or watermark_ms >= self._moment(parked)

        def wanted(parked: Parked) -> bool:
            return decidable(parked) and (has_row or parked.until_ms <= now_ms)

        for parked in self._grace.take(key, wanted):
            yield from self._join(parked.event, ctx, parked.read_ms, parked=True)
            if not self._grace.restored(parked):
                self._unparked_events.inc()
        head = self._grace.head()
        if head is None:
            return
        if head.until_ms > now_ms:
            timers.register_processing_time_timer(head.until_ms)
        if not decidable(head):
            timers.register_event_time_timer(self._moment(head))

    def _moment(self, parked: Parked) -> int:
        return moment(self._consistency, parked.read_ms)

    def _hold(
        self, event: Record, read_ms: int, at: int, ctx: KeyedCoProcessFunction.Context
    ) -> None:
        held = (read_ms, *event)
        more, first = self._held_first.value() or (False, [])
        if not first and not more:
            # One timer for a key: it releases what it may, and sets the next one.
            ctx.timer_service().register_event_time_timer(at)
        if more or len(first) >= _HELD_FIRST:
            self._held_more.put((event.partition << _OFFSET_BITS) | event.offset, held)
            if not more:
                self._held_first.update((True, first))
        else:
            self._held_first.update((False, [*first, held]))
        self._held_events.inc()
        self._held_bytes.inc(_size(event))

    def _waits(self, held: Held, complete_until_ms: int, waiting: dict[int, int]) -> bool:
        read_ms, partition = held[0], Record(*held[1:]).partition
        at = moment(self._consistency, read_ms)
        if partition not in waiting and at <= complete_until_ms:
            return False
        waiting.setdefault(partition, at)
        return True

    def _release(self, held: Held, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        read_ms, *event = held
        record = Record(*event)
        yield from self._join(record, ctx, read_ms)
        self._released_events.inc()
        if self._brake is not None:
            self._brake.released(1)
        self._released_bytes.inc(_size(record))

    def _join(
        self,
        event: Record,
        ctx: KeyedCoProcessFunction.Context,
        seen_ms: int | None = None,
        *,
        parked: bool = False,
    ) -> Iterator[Any]:
        try:
            key, fields = self._rules.events.read(event.key, event.value)
            _check_route(event, key)
            if key is None:
                yield self._dead_letter(
                    event, Verdict.NO_KEY, "join key is missing or null", seen_ms=seen_ms
                )
                return
            row = self._row.value()
            if row:
                # An event without a value has been refused above.
                merged = self._rules.merge(event.value, fields, row)  # type: ignore[arg-type]
                headers = without_ours(event.headers)
                if is_retried(event):
                    # A newer event of its key may have gone before.
                    attempt = attempts_before(event.headers or {})
                    headers = {**(headers or {}), Header.LATE: str(attempt).encode()}
                    self._retried_hits.inc()
                self._check_size(event.key, merged, headers)
                yield output(event.key, merged, headers, event.timestamp_ms)
                self._hits.inc()
                if parked:
                    self._late_hits.inc()
                return
        except BadRecord as error:
            yield self._dead_letter(event, Verdict.BAD_RECORD, str(error), seen_ms=seen_ms)
            return
        # Asked for here only: a hit, the usual case, needs no clock and no watermark.
        now_ms = _now_ms()
        completeness_now = self._completeness(now_ms, ctx)
        seen_ms = now_ms if seen_ms is None else seen_ms
        if self._rules.miss_grace_ms and not parked and not is_retried(event):
            self._grace.park(key, event, seen_ms, now_ms, ctx)
            self._parked_events.inc()
            return
        verdict = verdict_for(row, completeness_now)
        retries = self._rules.retries
        if retries.exhausted(event.headers):
            told = f"no row after {attempts_before(event.headers or {})} retries"
            yield self._dead_letter(event, verdict, told, seen_ms=seen_ms)
            self._given_up.inc()
        else:
            due_ms = retries.due_ms(event.headers, now_ms)
            source = self._source(event)
            headers = set_aside_headers(event.headers, verdict, source, seen_ms, due_ms=due_ms)
            yield self._retry, output(event.key, event.value, headers, event.timestamp_ms)
        self._misses.inc()
        if verdict is Verdict.NOT_LOADED:
            self._not_loaded.inc()
        elif verdict is Verdict.STALE_TABLE:
            self._stale.inc()

    def _completeness(self, now_ms: int, ctx: KeyedCoProcessFunction.Context) -> Completeness:
        if self._consistency is Consistency.NONE:
            return Completeness.KNOWN
        complete_until_ms = ctx.timer_service().current_watermark()
        if complete_until_ms > OPENED_SHORT_MS:
            # A load may have taken hours; how far the table lags is only known from then on.
            self._loaded_ms = self._loaded_ms or now_ms
            complete_until_ms = max(complete_until_ms, self._loaded_ms)
        return completeness(complete_until_ms, now_ms, self._rules.max_table_lag_ms)

    def _check_size(self, key: bytes | None, value: bytes, headers: Headers | None) -> None:
        limit = self._rules.max_enriched_bytes
        if limit is not None and (size := record_bytes(key, value, headers)) > limit:
            raise BadRecord(
                f"enriched event would have {size} bytes, and its topic takes {limit} "
                "(max.message.bytes, less room for the envelope)"
            )

    def _source(self, event: Record) -> str:
        """Where an event stands; of one that comes again, where it stood first."""
        if not is_retried(event):
            return source_of(self._rules.stream_topic, event.partition, event.offset)
        first = (event.headers or {}).get(Header.SOURCE)
        here = source_of(self._rules.retry_topic, -1 - event.partition, event.offset)
        return here if first is None else first.decode(errors="backslashreplace")

    def _dead_letter(
        self,
        record: Record,
        verdict: Verdict,
        error: str,
        *,
        source: str | None = None,
        seen_ms: int | None = None,
    ) -> tuple[OutputTag, Any]:
        self._dead_letters.inc()
        source = self._source(record) if source is None else source
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


def _size(event: Record) -> int:
    """Bytes of a held event's key, value and headers."""
    return record_bytes(event.key, event.value or b"", event.headers)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
