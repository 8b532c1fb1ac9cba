"""What the hit rate counts, and how: each event once, when it is decided for the first time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from udfs.core.model import Verdict

MISSES = (Verdict.NOT_FOUND, Verdict.DELETED, Verdict.NOT_LOADED, Verdict.STALE_TABLE)
"""The verdicts that lower the hit rate. NO_KEY and BAD_RECORD say nothing about the table."""

_BASIS_POINTS = 10_000


class Later(StrEnum):
    """What is counted beside the verdicts: no event's first decision, so not part of the rate."""

    RETRIED_HIT = "RETRIED_HIT"
    """An event that had missed, and met its row when it came again."""
    RETRIED_MISS = "RETRIED_MISS"
    """An event that had missed, and missed again."""
    GIVEN_UP = "GIVEN_UP"
    """An event that missed for the last time, and is a dead letter."""
    BAD_ROW = "BAD_ROW"
    """A record of the table topic that cannot be read."""


COUNTED = (*Verdict, *Later)
"""Everything that is counted, in the order in which it is shown."""


class Tally:
    """Counts by verdict, and by what came later."""

    def __init__(self, counts: Mapping[str, int] | Iterable[str] = ()) -> None:
        self.counts: Counter[str] = Counter(counts)

    def add(self, what: str, count: int = 1) -> None:
        """Count ``what``, a Verdict or a Later."""
        self.counts[what] += count

    @property
    def hits(self) -> int:
        """Events that met their row when they were first decided."""
        return self.counts[Verdict.HIT]

    @property
    def misses(self) -> int:
        """Events that did not, whatever the reason."""
        return sum(self.counts[verdict] for verdict in MISSES)

    @property
    def rate_bp(self) -> int | None:
        """Hits of hits and misses, in basis points; None when there is nothing to divide.

        Rounded down, so that 10000 says that nothing was missed.
        """
        decided = self.hits + self.misses
        return self.hits * _BASIS_POINTS // decided if decided else None


def window_of(at_ms: int, window_ms: int) -> int:
    """The start of the window that what was counted until ``at_ms`` (exclusive) belongs to.

    Both are epoch milliseconds; windows begin at multiples of their length.
    """
    return (at_ms - 1) // window_ms * window_ms


def report(job: str, start_ms: int, window_ms: int, tally: Tally) -> dict[str, Any]:
    """A window as the stats topic tells it: every count, also those that are 0."""
    return {
        "job": job,
        "window_start_ms": start_ms,
        "window_end_ms": start_ms + window_ms,
        "hits": tally.hits,
        "misses": tally.misses,
        "hit_rate_bp": tally.rate_bp,
        "counts": {what.value: tally.counts[what] for what in COUNTED},
    }
