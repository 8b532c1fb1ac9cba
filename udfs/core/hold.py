"""When an event may be joined: its moment against the time until which the table is complete."""

from __future__ import annotations

from enum import StrEnum

from udfs.core.gate import OPENED_SHORT_MS


class Consistency(StrEnum):
    """What an event is promised to see."""

    NONE = "none"
    """Nothing: it is joined as it comes. For comparison only."""
    STARTUP = "startup"
    """All rows that were written before this attempt of the job started."""
    CONTINUOUS = "continuous"
    """All rows that were written before the event was read."""


def moment(consistency: Consistency, read_ms: int) -> int:
    """The event time of an event that was read at ``read_ms`` (epoch milliseconds).

    It may be joined when the table's watermark is at or past it. In startup mode every event stands
    where the first watermark of an open gate passes it, so that a start opens once. Kafka's
    timestamps play no part: an event that is older than its row still meets it.
    """
    return read_ms if consistency is Consistency.CONTINUOUS else OPENED_SHORT_MS


class Completeness(StrEnum):
    """What is known about the table at the moment of a join."""

    KNOWN = "known"
    SHORT = "short"
    """The gate was opened by policy before the table was loaded."""
    STALE = "stale"
    """The table was loaded, but it lags by more than the user accepts."""


def completeness(watermark_ms: int, now_ms: int, max_lag_ms: int) -> Completeness:
    """``watermark_ms`` is the time until which the table is complete, or OPENED_SHORT_MS."""
    if watermark_ms <= OPENED_SHORT_MS:
        return Completeness.SHORT
    return Completeness.STALE if now_ms - watermark_ms > max_lag_ms else Completeness.KNOWN
