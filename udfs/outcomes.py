"""What leaves the join for each outcome: records, their headers, and what is counted.

Whether an event may be decided, and whether there is a row, the join knows; here stands what
follows from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyflink.common import Row
from pyflink.datastream import OutputTag
from pyflink.datastream.functions import RuntimeContext

from udfs import clock
from udfs.core.events import (
    Headers,
    attempts_before,
    record_bytes,
    set_aside_headers,
    without_ours,
)
from udfs.core.hitrate import Later
from udfs.core.jsontext import BadRecord, Fields
from udfs.core.merge import without_row
from udfs.core.model import Header, Verdict, source_of
from udfs.core.overtaking import Overtaking, Position, position_in
from udfs.join_rules import JoinRules
from udfs.records import Record, crossing_output, is_retried, output, output_type

# What a record counts as when another one speaks for its event.
_NOT_COUNTED = ""

Tagged = tuple[OutputTag, Row]


def retry_tag() -> OutputTag:
    """Side output of the misses that are to be tried again."""
    return OutputTag("retry", output_type())


def dead_tag() -> OutputTag:
    """Side output of unreadable records, events without a key, and misses that are given up."""
    return OutputTag("dead", output_type())


def nulls_tag() -> OutputTag:
    """Side output of events that go out without their row."""
    return OutputTag("nulls", output_type())


class Outcomes:
    """One subtask's way out: makes the records, and counts what this attempt has decided.

    ``crosses``: the main output is in the JVM's form, see ``udfs.crossing``. Side outputs are rows.

    The counters begin at 0 with each attempt. What is exact across restarts is counted from the
    records, by the field ``counted`` of ``udfs.records.output_type``.
    """

    def __init__(self, rules: JoinRules, context: RuntimeContext, *, crosses: bool) -> None:
        self._rules = rules
        self._output = crossing_output if crosses else output
        self._policy = rules.on_miss
        self._retry, self._dead, self._nulls = retry_tag(), dead_tag(), nulls_tag()
        self._overtaking = Overtaking()
        metrics = context.get_metrics_group()
        self._hits = metrics.counter("hits")
        self._misses = metrics.counter("misses")
        self._not_loaded = metrics.counter("not_loaded_misses")
        self._stale = metrics.counter("stale_table_misses")
        self._dead_letters = metrics.counter("dead_letters")
        self._late_hits = metrics.counter("late_hits")
        self._retried_hits = metrics.counter("retried_hits")
        self._retried_misses = metrics.counter("retried_misses")
        self._given_up = metrics.counter("given_up")

    def hit(
        self,
        event: Record,
        key: str,
        merged: bytes,
        seen_ms: int | None,
        *,
        parked: bool = False,
        told: bool = False,
    ) -> Any:
        """The event met its row; ``merged`` is what goes out.

        ``seen_ms`` is when it was first read, None: now. ``parked``: it had to wait for its row;
        ``told``: its grace ended meanwhile, and it went out without, where that is wanted.

        Raises BadRecord when the result is too large for its topic.
        """
        headers = without_ours(event.headers)
        retried = is_retried(event)
        if retried and self._came_back(event, key):
            attempt = attempts_before(event.headers or {})
            headers = {**(headers or {}), Header.LATE: str(attempt).encode()}
        self._check_size(event.key, merged, headers)
        if not retried and self._overtaking.watches(key):
            self._overtaking.goes_out(key, self._position(event, seen_ms))
        # Also without such outputs a held event's grace ends; but then nothing went out.
        if retried or (told and self._policy.emit_null):
            self._retried_hits.inc()
            return self._output(event.key, merged, headers, event.timestamp_ms, Later.RETRIED_HIT)
        self._hits.inc()
        if parked:
            self._late_hits.inc()
        # Nothing said is a hit: a text for each of them would have to be handed to the JVM.
        return self._output(event.key, merged, headers, event.timestamp_ms)

    def miss(
        self, event: Record, key: str, fields: Fields, verdict: Verdict, seen_ms: int, now_ms: int
    ) -> Iterator[Tagged]:
        """The event found no row, and is decided. Times in epoch milliseconds.

        Raises BadRecord, with nothing given out, when the event without a row is too large.
        """
        retried, policy, retries = is_retried(event), self._policy, self._rules.retries
        if policy.emit_null and not retried:
            yield self.null(event, key, fields, verdict, seen_ms, counted=not policy.route)
        # What is in the retry topic stays on its way when the policy becomes another.
        routed = policy.route or retried
        # A number in the headers of the stream's own events is of another job, or somebody's idea.
        if retried and retries.exhausted(event.headers):
            error = f"no row after {attempts_before(event.headers or {})} retries"
            yield self._dead_letter(event, verdict, error, seen_ms, Later.GIVEN_UP)
            self._given_up.inc()
            self._overtaking.comes_back(key, position_in(event.headers))
        elif routed:
            source = self._source(event)
            due_ms = retries.due_ms(event.headers, now_ms)
            headers = set_aside_headers(
                event.headers,
                verdict,
                source,
                seen_ms,
                due_ms=due_ms,
                timestamp_ms=event.timestamp_ms,
            )
            counted = Later.RETRIED_MISS if retried else verdict
            yield self._retry, output(event.key, event.value, headers, now_ms, counted)
            if not retried:
                self._overtaking.goes_away(key, self._position(event, seen_ms))
        if retried:
            self._retried_misses.inc()
        else:
            self._count_miss(verdict)

    def null(
        self,
        event: Record,
        key: str | None,
        fields: Fields,
        verdict: Verdict,
        seen_ms: int,
        *,
        counted: bool,
    ) -> Tagged:
        """The event without its row. Raises BadRecord when that is too large for its topic."""
        # An event without a value has been refused before.
        value: bytes = event.value  # type: ignore[assignment]
        told = {self._rules.verdict_field: verdict.value}
        without = without_row(value, fields, self._rules.merge.names, told)
        headers = {**(without_ours(event.headers) or {}), Header.VERDICT: verdict.encode()}
        self._check_size(event.key, without, headers)
        if key is not None:
            self._overtaking.goes_out(key, self._position(event, seen_ms))
        counts_as = verdict if counted else _NOT_COUNTED
        return self._nulls, output(event.key, without, headers, event.timestamp_ms, counts_as)

    def no_key(self, event: Record, fields: Fields, seen_ms: int | None) -> Iterator[Tagged]:
        """The event has no join key. Raises BadRecord as :meth:`null` does."""
        seen_ms = clock.now_ms() if seen_ms is None else seen_ms
        verdict, policy = Verdict.NO_KEY, self._policy
        dead = policy.route or policy.hold
        if policy.emit_null and not is_retried(event):
            yield self.null(event, None, fields, verdict, seen_ms, counted=not dead)
        if dead or is_retried(event):
            error = "join key is missing or null"
            counted = Later.GIVEN_UP if is_retried(event) else verdict
            yield self._dead_letter(event, verdict, error, seen_ms, counted)

    def bad_event(self, event: Record, error: str, seen_ms: int | None) -> Tagged:
        """The event cannot be read, or what became of it cannot be written."""
        seen_ms = clock.now_ms() if seen_ms is None else seen_ms
        verdict = Verdict.BAD_RECORD
        counted = Later.GIVEN_UP if is_retried(event) else verdict
        return self._dead_letter(event, verdict, error, seen_ms, counted)

    def bad_row(self, record: Record, error: str) -> Tagged:
        """A record of the table topic cannot be read."""
        source = source_of(self._rules.table_topic, record.partition, record.offset)
        verdict, now_ms = Verdict.BAD_RECORD, clock.now_ms()
        return self._dead_letter(record, verdict, error, now_ms, Later.BAD_ROW, source=source)

    def tell(
        self, event: Record, key: str, fields: Fields, verdict: Verdict, seen_ms: int
    ) -> Iterator[Tagged]:
        """The grace of an event that is held until its row comes is over.

        Raises BadRecord as :meth:`null` does.
        """
        if self._policy.emit_null and not is_retried(event):
            yield self.null(event, key, fields, verdict, seen_ms, counted=True)
            self._count_miss(verdict)

    def _count_miss(self, verdict: Verdict) -> None:
        self._misses.inc()
        if verdict is Verdict.NOT_LOADED:
            self._not_loaded.inc()
        elif verdict is Verdict.STALE_TABLE:
            self._stale.inc()

    def _came_back(self, event: Record, key: str) -> bool:
        position = position_in(event.headers)
        overtaken = self._overtaking.comes_back(key, position)
        if position is not None:
            self._overtaking.goes_out(key, position)
        return overtaken

    @staticmethod
    def _position(event: Record, seen_ms: int | None) -> Position:
        return Position(clock.now_ms() if seen_ms is None else seen_ms, event.offset)

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
        seen_ms: int,
        counted: str,
        *,
        source: str | None = None,
    ) -> Tagged:
        self._dead_letters.inc()
        source = self._source(record) if source is None else source
        headers = set_aside_headers(
            record.headers,
            verdict,
            source,
            seen_ms,
            f"{source}: {error}",
            timestamp_ms=record.timestamp_ms,
        )
        return self._dead, output(record.key, record.value, headers, clock.now_ms(), counted)
