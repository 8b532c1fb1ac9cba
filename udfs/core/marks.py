"""The gate's time as watermarks of the SQL variant, which also tell what a miss means.

Theory of operation
===================

SQL joins an event when a watermark passes its row time, and never in between. So the watermark has
to go on as long as events may be joined, and the verdict of a miss has to be read off it: behind a
join, SQL knows nothing else of the table's side. A watermark here is a time in milliseconds whose
remainder by 4 is a :class:`Known`.

What is released by a watermark leaves the join *before* that watermark, so whoever reads the
current watermark behind the join reads the one before. Therefore a change is **announced**: the
first watermark that tells it releases nothing that the news is about, and only the next one does.

- The first announcement of an attempt is below every event's moment.
- In startup mode the watermark then is the clock's time and goes on with each batch of rows or
  ticks, also when the table lags: events are joined, and their misses are ``STALE_TABLE``.
- In continuous mode it is the time until which the table is complete, a few milliseconds less, and
  stands still when that does: events wait.
"""

from __future__ import annotations

from enum import IntEnum

from udfs.core.gate import CLOSED_MS, OPENED_SHORT_MS
from udfs.core.hold import Completeness, Consistency, completeness

STARTUP_MOMENT_MS = 2_000
"""The row time of every event in startup mode: above the first announcement of an attempt, below
every watermark behind it."""

# More than pipeline.auto-watermark-interval (50 ms) above 0, so that the assigner sends it with the
# row that carries it, and not with its next timer.
_ANNOUNCED_MS = 1_000
STEP = 4
"""A watermark's remainder by this is a Known. It divides 1000: the milliseconds of a timestamp's
second tell it as well."""


class Known(IntEnum):
    """What is known about the table, as a watermark tells it."""

    LOADED = 0
    SHORT = 1
    """The gate was opened by policy before the table was loaded."""
    STALE = 2
    """The table lags by more than is accepted."""


_KNOWN = {
    Completeness.KNOWN: Known.LOADED,
    Completeness.SHORT: Known.SHORT,
    Completeness.STALE: Known.STALE,
}


class Marks:
    """Makes the watermarks of one attempt, in the order of the gate's answers."""

    def __init__(self, consistency: Consistency, max_lag_ms: int) -> None:
        """``max_lag_ms``: beyond this lag a miss is STALE_TABLE."""
        self._continuous = consistency is Consistency.CONTINUOUS
        self._max_lag_ms = max_lag_ms
        self._complete_until_ms = CLOSED_MS
        # When the gate first said that the table is loaded.
        self._loaded_ms = 0
        self._known: Known | None = None
        self._last_ms = CLOSED_MS

    def after(self, complete_until_ms: int, now_ms: int) -> int:
        """The watermark behind the rows for which the gate gave this answer at ``now_ms``.

        CLOSED_MS as long as the gate is shut; then it never goes back. An answer of CLOSED_MS from
        an open gate says that nothing new is known.
        """
        self._complete_until_ms = max(self._complete_until_ms, complete_until_ms)
        if self._complete_until_ms <= CLOSED_MS:
            return CLOSED_MS
        known = self._known_at(now_ms)
        if known is not self._known:
            self._known = known
            self._last_ms = _next(max(self._last_ms, _ANNOUNCED_MS - 1), known)
        elif self._continuous:
            # Two steps less, so that an announcement does not promise more than is known either.
            until_ms = _at_most(self._complete_until_ms - 2 * STEP, known)
            self._last_ms = max(self._last_ms, until_ms)
        else:
            self._last_ms = max(_next(self._last_ms, known), _at_most(now_ms, known))
        return self._last_ms

    def _known_at(self, now_ms: int) -> Known:
        until_ms = self._complete_until_ms
        if until_ms > OPENED_SHORT_MS:
            # A load may have taken hours; how far the table lags is only known from then on.
            self._loaded_ms = self._loaded_ms or now_ms
            until_ms = max(until_ms, self._loaded_ms)
        return _KNOWN[completeness(until_ms, now_ms, self._max_lag_ms)]


def _next(above_ms: int, known: Known) -> int:
    return above_ms + 1 + (known - above_ms - 1) % STEP


def _at_most(ms: int, known: Known) -> int:
    return ms - (ms - known) % STEP
