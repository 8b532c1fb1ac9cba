"""When a miss is tried again, and when that ends: tiers with growing delays."""

from __future__ import annotations

import re
from dataclasses import dataclass

from udfs.core.events import TIME_DIGITS, Headers, attempts_before, number_in
from udfs.core.model import Header

_UNIT_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DELAY = re.compile(r"(\d+)\s*([a-z]+)")

MAX_DELAY_MS = 30 * 86_400_000
"""A month: an event that waits longer is no retry but an archive."""


def parse_delays(text: str) -> tuple[int, ...]:
    """Delays in milliseconds from a text such as ``10 s, 5 min, 1 h``; none from an empty one.

    Raises ValueError, in words for the person who wrote it.
    """
    delays: list[int] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _DELAY.fullmatch(part)
        if match is None or match[2] not in _UNIT_MS:
            raise ValueError(
                f"{part!r} is no delay: write a number and {', '.join(_UNIT_MS)}, e.g. "
                '"10 s, 5 min, 1 h"'
            )
        delay = int(match[1]) * _UNIT_MS[match[2]]
        if not 0 < delay <= MAX_DELAY_MS:
            raise ValueError(f"{part!r} is out of range: more than nothing, and 30 d at most")
        if delays and delay < delays[-1]:
            raise ValueError(f"{part!r} is shorter than the delay before it: let them grow")
        delays.append(delay)
    return tuple(delays)


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """The tiers of a job. Without any, a miss goes to the retry topic and nobody reads it there."""

    delays_ms: tuple[int, ...] = ()

    def exhausted(self, headers: Headers | None) -> bool:
        """Whether an event that has just missed has been tried often enough.

        ``headers`` are those with which it came.
        """
        return bool(self.delays_ms) and attempts_before(headers or {}) >= len(self.delays_ms)

    def due_ms(self, headers: Headers | None, now_ms: int) -> int | None:
        """When it is to be tried again, in epoch milliseconds; None: whenever somebody reads it."""
        if not self.delays_ms:
            return None
        return now_ms + self.delays_ms[min(attempts_before(headers or {}), len(self.delays_ms) - 1)]


def due_of(headers: Headers | None) -> int:
    """When a retry record is due, in epoch milliseconds; 0, at once, when it does not say so."""
    return number_in(headers, Header.DUE, TIME_DIGITS) or 0
