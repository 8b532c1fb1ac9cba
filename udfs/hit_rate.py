"""Counts by verdict, in Flink state: a restart neither forgets an event nor counts one twice.

What comes in has been counted already, second by second, by SQL in the JVM: a handful of calls a
second, whatever the load. Both are part of the checkpoint from which the sources go on, so an event
that is read again after a failure is one that the restored counts do not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from pyflink.common import Row, Types
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

from udfs.core.hitrate import COUNTED, Tally, report, window_of
from udfs.records import output

_SECOND_MS = 1_000
# After the end of a window, for its last second to come.
_SLACK_MS = 500
# Windows that are kept when they are over: another machine's clock may be behind, and what it
# counts must not replace what was told.
_KEPT = 60
_UNKNOWN = -1


def totals_state() -> ValueStateDescriptor:
    """Counts since the state began, by name."""
    return ValueStateDescriptor("hit-rate-totals", Types.PICKLED_BYTE_ARRAY())


def windows_state() -> MapStateDescriptor:
    """The newest windows, by start (epoch ms): (has it been told?, counts by name)."""
    return MapStateDescriptor("hit-rate-windows", Types.LONG(), Types.PICKLED_BYTE_ARRAY())


class HitRate(KeyedProcessFunction):
    """Adds up counts to windows, and tells each window once it is over.

    Input: rows of (what is counted, count) as each second ends, all under one key. Output:
    ``udfs.records.output_type``. A window that is told again, after a failure, has the same record
    key, and the newer record is the right one: what it lacks is counted again, in a later window.

    Metrics: ``verdict.NAME.decided`` for all of ``udfs.core.hitrate.COUNTED``, and ``hit_rate_bp``,
    that of the newest finished window in which something was decided, -1 before there is one. They
    are set to what the state says, also after a restart, and may then go back a little, to the
    checkpoint. All are Flink counters, also the rate: in thread mode the metrics' own thread would
    have to call a Python gauge, with the interpreter state of the operator's thread.
    """

    def __init__(self, job: str, window_ms: int) -> None:
        self._job, self._window_ms = job, window_ms

    def open(self, runtime_context: RuntimeContext) -> None:
        self._totals = runtime_context.get_state(totals_state())
        self._windows = runtime_context.get_map_state(windows_state())
        metrics = runtime_context.get_metrics_group()
        self._decided = {
            what.value: _Level(metrics.add_group("verdict", what.value).counter("decided"))
            for what in COUNTED
        }
        self._rate = _Level(metrics.counter("hit_rate_bp"))
        self._rate.set(_UNKNOWN)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        what, count = value
        timers = ctx.timer_service()
        totals = Tally(self._totals.value() or {})
        if not totals.counts:
            # From now on there is always a timer: after a restart it tells the totals at once.
            self._look_again(ctx)
        totals.add(what, count)
        self._totals.update(dict(totals.counts))
        self._show(totals)
        # The second that has just ended.
        until_ms = timers.current_processing_time() // _SECOND_MS * _SECOND_MS
        start_ms = window_of(until_ms, self._window_ms)
        _, counts = self._windows.get(start_ms) or (False, {})
        window = Tally(counts)
        window.add(what, count)
        self._windows.put(start_ms, (False, dict(window.counts)))
        timers.register_processing_time_timer(start_ms + self._window_ms + _SLACK_MS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        self._look_again(ctx)
        self._show(Tally(self._totals.value() or {}))
        starts = list(self._windows.keys())
        over = sorted(start for start in starts if start + self._window_ms < timestamp)
        for start_ms in over:
            told, counts = self._windows.get(start_ms)
            tally = Tally(counts)
            if tally.rate_bp is not None:
                self._rate.set(tally.rate_bp)
            if not told:
                self._windows.put(start_ms, (True, counts))
                yield self._record(start_ms, tally)
        for start_ms in over[:-_KEPT]:
            self._windows.remove(start_ms)

    def _look_again(self, ctx: KeyedProcessFunction.Context) -> None:
        timers = ctx.timer_service()
        end_ms = window_of(timers.current_processing_time() + 1, self._window_ms) + self._window_ms
        timers.register_processing_time_timer(end_ms + _SLACK_MS)

    def _show(self, totals: Tally) -> None:
        for what, level in self._decided.items():
            level.set(totals.counts[what])

    def _record(self, start_ms: int, tally: Tally) -> Row:
        value = msgspec.json.encode(report(self._job, start_ms, self._window_ms, tally))
        key = f"{self._job}/{start_ms}".encode()
        return output(key, value, None, start_ms + self._window_ms, "")


class _Level:
    """A Flink counter that is set to a value."""

    def __init__(self, counter: Any) -> None:
        self._counter, self._at = counter, 0

    def set(self, value: int) -> None:
        self._counter.inc(value - self._at)
        self._at = value
