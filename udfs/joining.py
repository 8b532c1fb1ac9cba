"""What the gated join does with a record, whichever way it looks rows up.

Moves state in and out, decides nothing itself. ``udfs.join`` and ``udfs.broadcast`` are the two
Flink functions made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from pyflink.common import Types
from pyflink.datastream import TimeDomain
from pyflink.datastream.functions import RuntimeContext
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

from udfs import clock, code
from udfs.brake import Brake
from udfs.core.events import record_bytes
from udfs.core.gate import OPENED_SHORT_MS
from udfs.core.hold import Completeness, Consistency, completeness, moment
from udfs.core.jsontext import BadRecord
from udfs.core.merge import CustomMerge, Merge
from udfs.core.model import DELETED_ROW, verdict_for
from udfs.core.recent import Recent
from udfs.grace import Grace, Parked
from udfs.join_rules import JoinRules
from udfs.outcomes import Outcomes
from udfs.records import Record, crossed, is_retried, read_record

Held = tuple[Any, ...]
"""A held event in the state: the time at which it was read (epoch ms), and the Record's fields."""

# How many events of a key are held in one value before the map takes the rest: the value is
# rewritten with every event, so it stays short.
_HELD_FIRST = 8

# Offsets use the low 48 bits of a held event's number, which sorts by partition and then offset.
_OFFSET_BITS = 48


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


class Table(Protocol):
    """The table's rows of one subtask. The key is the current one of Flink's, too."""

    def get(self, key: str) -> bytes | None:
        """The row's JSON text, DELETED_ROW after a deletion, None when there never was one."""
        ...

    def put(self, key: str, row: bytes) -> None:
        """Keep a row, or DELETED_ROW."""
        ...


class Joining:
    """Joins events with the table's rows: the part that is the same however rows are looked up.

    Main output: enriched events; side outputs: those of ``udfs.outcomes``. The watermark is the
    time until which the table is complete; until it passes an event's moment (``udfs.core.hold``),
    the event is held in state. One that then finds no row is parked until its row comes, or until
    its grace ends (``udfs.grace``).
    """

    def __init__(self, rules: JoinRules) -> None:
        self._rules = rules
        # Taken on the client, compared on the worker.
        self._code = code.LOADED
        self._merge_code = _code_of(rules.merge)

    def _require_same_code(self) -> None:
        code.require_same("Tablegate's workers (package udfs)", self._code, code.LOADED)
        code.require_same(
            "the merge function's module", self._merge_code, _code_of(self._rules.merge)
        )

    def _start(self, context: RuntimeContext, table: Table, grace: Grace, *, crosses: bool) -> None:
        """To be called in ``open``. ``crosses``: records come and go as ``udfs.crossing`` says."""
        self._read: Callable[[Any], Record] = crossed if crosses else read_record
        self._table, self._grace = table, grace
        # What rows add to events, by key. All records of a key come to this subtask, rows too, so
        # it is as true as the state.
        self._recent: Recent[Any] = Recent(self._rules.cached_rows)
        self._held_first = context.get_state(held_first_state())
        self._held_more = context.get_map_state(held_more_state())
        self._consistency = self._rules.consistency
        self._continuous = self._consistency is Consistency.CONTINUOUS
        # A watermark never goes back within an attempt, so that an open gate is asked for once.
        self._open = self._consistency is Consistency.NONE
        # When this subtask first had to know that the table is loaded.
        self._loaded_ms = 0
        self._holds = self._rules.on_miss.hold
        self._outcomes = Outcomes(self._rules, context, crosses=crosses)
        slack = self._rules.hold_slack_events
        self._brake = None if slack is None else Brake(slack)
        metrics = context.get_metrics_group()
        self._held_events = metrics.counter("held_events")
        self._held_bytes = metrics.counter("held_bytes")
        self._released_events = metrics.counter("released_events")
        self._released_bytes = metrics.counter("released_bytes")
        self._parked_events = metrics.counter("parked_events")
        self._unparked_events = metrics.counter("unparked_events")

    def _event(self, value: Any, ctx: Any) -> Iterable[Any]:
        """An event of the stream. ``ctx`` is that of its key, as in the other methods."""
        event = self._read(value)
        if self._open:
            return self._join(event, ctx)
        read_ms = clock.now_ms()
        at = moment(self._consistency, read_ms)
        # In continuous mode the moment is now, which no watermark has passed yet; and an event that
        # did not wait could overtake those of its key that do.
        if not self._continuous and ctx.timer_service().current_watermark() >= at:
            self._open = True
            return self._join(event, ctx)
        self._hold(event, read_ms, at, ctx)
        if self._brake is not None:
            self._brake.held()
        return ()

    def _row(self, record: Record) -> tuple[str, bool]:
        """Put a row of the table in its place: its key, and whether it is one to be met.

        Raises BadRecord when it cannot be read, with the table as it was.
        """
        if self._brake is not None:
            self._brake.row()
        key, row = self._rules.rows.read(record.key, record.value)
        _check_route(record, key)
        self._table.put(key, DELETED_ROW if row is None else row)
        self._recent.drop(key)
        return key, row is not None

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        # The text itself, in both of PyFlink's modes, though its state is kept under a row of it.
        key: str = ctx.get_current_key()
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

    def _settle(self, key: str, ctx: Any) -> Iterator[Any]:
        """Decide the parked events of the current key whose row is there or whose grace is over."""
        now_ms = clock.now_ms()
        has_row = bool(self._table.get(key))

        def is_over(parked: Parked) -> bool:
            return parked.until_ms <= now_ms and self._decidable(parked, ctx)

        def wanted(parked: Parked) -> bool:
            if has_row:
                return self._decidable(parked, ctx)
            return not self._holds and is_over(parked)

        for parked in self._grace.take(key, wanted):
            yield from self._join(parked.event, ctx, parked.read_ms, parked=parked)
            if not parked.restored:
                self._unparked_events.inc()
        if self._holds:
            for parked in self._grace.tell(is_over):
                yield from self._tell(parked, ctx)
        self._wait_on(key, now_ms, ctx)

    def _wait_on(self, key: str, now_ms: int, ctx: Any) -> None:
        """Set the timers that the parked events of the current key wait for."""
        timers = ctx.timer_service()
        first, untold = self._grace.first(), self._grace.first_untold()
        for parked in (first, untold):
            if parked is not None and not self._decidable(parked, ctx):
                timers.register_event_time_timer(self._moment(parked))
        if untold is not None and untold.until_ms > now_ms:
            timers.register_processing_time_timer(untold.until_ms)
        elif first is not None:
            # Also for those that only wait for the gate: by its timers the next attempt knows which
            # keys have parked events.
            timers.register_processing_time_timer(self._grace.next_look_ms(key, now_ms))

    def _decidable(self, parked: Parked, ctx: Any) -> bool:
        # After a restart the table may be short again, and its row not the newest.
        if self._consistency is Consistency.NONE:
            return True
        complete_until_ms: int = ctx.timer_service().current_watermark()
        return complete_until_ms >= self._moment(parked)

    def _moment(self, parked: Parked) -> int:
        return moment(self._consistency, parked.read_ms)

    def _hold(self, event: Record, read_ms: int, at: int, ctx: Any) -> None:
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

    def _release(self, held: Held, ctx: Any) -> Iterator[Any]:
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
        ctx: Any,
        seen_ms: int | None = None,
        *,
        parked: Parked | None = None,
    ) -> Iterable[Any]:
        outcomes = self._outcomes
        try:
            key, fields = self._rules.events.read(event.key, event.value)
            _check_route(event, key)
            if key is None:
                return list(outcomes.no_key(event, fields, seen_ms))
            prepared, row = self._recent.get(key), None
            if prepared is None:
                row = self._table.get(key)
                if row:
                    prepared = self._rules.merge.prepare(row)
                    self._recent.put(key, prepared)
            if prepared is not None:
                # An event without a value has been refused above.
                merged = self._rules.merge(event.value, fields, prepared)  # type: ignore[arg-type]
                told = parked is not None and parked.told
                return (
                    outcomes.hit(event, key, merged, seen_ms, parked=parked is not None, told=told),
                )
            # Asked for here only: a hit, the usual case, needs no clock and no watermark.
            now_ms = clock.now_ms()
            completeness_now = self._completeness(now_ms, ctx)
            seen_ms = now_ms if seen_ms is None else seen_ms
            if parked is None and self._parks(event):
                self._grace.park(key, event, seen_ms, now_ms, ctx)
                self._parked_events.inc()
                return ()
            verdict = verdict_for(row, completeness_now)
            return list(outcomes.miss(event, key, fields, verdict, seen_ms, now_ms))
        except BadRecord as error:
            return (outcomes.bad_event(event, str(error), seen_ms),)

    def _parks(self, event: Record) -> bool:
        # One that comes again has had its grace.
        return self._holds or (self._rules.miss_grace_ms > 0 and not is_retried(event))

    def _tell(self, parked: Parked, ctx: Any) -> Iterator[Any]:
        event = parked.event
        # It was read before it was parked, and had a key.
        key: str
        key, fields = self._rules.events.read(event.key, event.value)  # type: ignore[assignment]
        verdict = verdict_for(self._table.get(key), self._completeness(clock.now_ms(), ctx))
        try:
            yield from self._outcomes.tell(event, key, fields, verdict, parked.read_ms)
        except BadRecord as error:
            yield self._outcomes.bad_event(event, str(error), parked.read_ms)

    def _completeness(self, now_ms: int, ctx: Any) -> Completeness:
        if self._consistency is Consistency.NONE:
            return Completeness.KNOWN
        complete_until_ms = ctx.timer_service().current_watermark()
        if complete_until_ms > OPENED_SHORT_MS:
            # A load may have taken hours; how far the table lags is only known from then on.
            self._loaded_ms = self._loaded_ms or now_ms
            complete_until_ms = max(complete_until_ms, self._loaded_ms)
        return completeness(complete_until_ms, now_ms, self._rules.max_table_lag_ms)


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
