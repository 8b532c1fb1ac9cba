"""Counts by verdict, in Flink state: a restart neither forgets an event nor counts one twice.

What comes in has been counted already, second by second, by SQL in the JVM: a handful of calls a
second, whatever the load. Both are part of the checkpoint from which the sources go on, so an event
that is read again after a failure is one that the restored counts do not have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from pyflink.common import Row, Types
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor

from udfs.core.hitrate import COUNTED, Tally, report, window_of
from udfs.records import output

_SECOND_MS = 1_000
# After the end of a window, for its last second to come.
_SLACK_MS = 500
# After a longer time away the windows behind these are left out.
_MOST_AT_ONCE = 10_000
_UNKNOWN = -1


def counts_state() -> ValueStateDescriptor:
    """The fields of :class:`_Counts`."""
    return ValueStateDescriptor("hit-rate", Types.PICKLED_BYTE_ARRAY())


class _Counts(NamedTuple):
    """What the state holds. Times are epoch milliseconds."""

    totals: dict[str, int]
    """Since the state began, by what is counted."""
    told_until_ms: int
    """Where the next window to be told begins."""
    windows: dict[int, dict[str, int]]
    """Counts of those that have not been told, by start."""
    rate_bp: int
    """Of the newest window that was told and had a rate; -1: none yet."""


class HitRate(KeyedProcessFunction):
    """Adds up counts to windows, and tells each window once it is over, also an empty one.

    Input: rows of (what is counted, count) as each second ends, all under one key. Output:
    ``udfs.records.output_type``. After a failure all windows since the checkpoint are told again,
    under the same record keys, and the newer records are the right ones: what they lack is read and
    counted again, in later windows. That is why an empty one is told, too.

    Metrics: ``verdict.NAME.decided`` for all of ``udfs.core.hitrate.COUNTED``, and ``hit_rate_bp``,
    that of the newest finished window in which something was decided, -1 before there is one. They
    are set to what the state says, also after a restart, and may then go back a little, to the
    checkpoint. All are Flink counters, also the rate: in thread mode the metrics' own thread would
    have to call a Python gauge, with the interpreter state of the operator's thread.
    """

    def __init__(self, job: str, window_ms: int) -> None:
        self._job, self._window_ms = job, window_ms

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state(counts_state())
        metrics = runtime_context.get_metrics_group()
        self._decided = {
            what.value: _Level(metrics.add_group("verdict", what.value).counter("decided"))
            for what in COUNTED
        }
        self._rate = _Level(metrics.counter("hit_rate_bp"))
        self._rate.set(_UNKNOWN)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        what, count = value
        # The second that has just ended.
        until_ms = ctx.timer_service().current_processing_time() // _SECOND_MS * _SECOND_MS
        start_ms = window_of(until_ms, self._window_ms)
        counts = self._counts()
        if counts is None:
            counts = _Counts({}, start_ms, {}, _UNKNOWN)
            self._wait(start_ms, ctx)
        # Another machine's clock may be behind; what was told is told.
        start_ms = max(start_ms, counts.told_until_ms)
        for counted in (counts.totals, counts.windows.setdefault(start_ms, {})):
            counted[what] = counted.get(what, 0) + count
        self._keep(counts)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        counts = self._counts()
        if counts is None:
            return
        now_ms = ctx.timer_service().current_processing_time()
        starts = range(
            counts.told_until_ms, now_ms - _SLACK_MS - self._window_ms + 1, self._window_ms
        )
        for number, start_ms in enumerate(starts):
            if number >= _MOST_AT_ONCE and start_ms not in counts.windows:
                continue
            tally = Tally(counts.windows.pop(start_ms, {}))
            if tally.rate_bp is not None:
                counts = counts._replace(rate_bp=tally.rate_bp)
            yield self._record(start_ms, tally)
        if starts:
            counts = counts._replace(told_until_ms=starts[-1] + self._window_ms)
        self._keep(counts)
        self._wait(counts.told_until_ms, ctx)

    def _wait(self, start_ms: int, ctx: KeyedProcessFunction.Context) -> None:
        timers = ctx.timer_service()
        over_ms = start_ms + self._window_ms + _SLACK_MS
        # There is always a timer, and never one that is far away: after a restart it fires soon,
        # if not at once, and shows the counts.
        soon_ms = timers.current_processing_time() + _SECOND_MS
        timers.register_processing_time_timer(min(over_ms, soon_ms))

    def _counts(self) -> _Counts | None:
        stored = self._state.value()
        return None if stored is None else _in_windows(_Counts(*stored), self._window_ms)

    def _keep(self, counts: _Counts) -> None:
        self._state.update(tuple(counts))
        for what, level in self._decided.items():
            level.set(counts.totals.get(what, 0))
        self._rate.set(counts.rate_bp)

    def _record(self, start_ms: int, tally: Tally) -> Row:
        value = msgspec.json.encode(report(self._job, start_ms, self._window_ms, tally))
        key = f"{self._job}/{start_ms}".encode()
        return output(key, value, None, start_ms + self._window_ms, "")


def _in_windows(counts: _Counts, window_ms: int) -> _Counts:
    """The counts for windows of this length, in case that they were kept for others."""
    if not any(start % window_ms for start in (counts.told_until_ms, *counts.windows)):
        return counts
    # Forward, so that no key of a window that was told is used again.
    begin_ms = -(-counts.told_until_ms // window_ms) * window_ms
    windows: dict[int, Counter[str]] = {}
    for start, counted in counts.windows.items():
        start_ms = max(start // window_ms * window_ms, begin_ms)
        windows.setdefault(start_ms, Counter()).update(counted)
    return counts._replace(
        told_until_ms=begin_ms, windows={start: dict(c) for start, c in windows.items()}
    )


class _Level:
    """A Flink counter that is set to a value."""

    def __init__(self, counter: Any) -> None:
        self._counter, self._at = counter, 0

    def set(self, value: int) -> None:
        self._counter.inc(value - self._at)
        self._at = value
