"""Slows the stream down when the join holds many events and the table stands still."""

from __future__ import annotations

import time
from collections.abc import Callable

SLACK_EVENTS = 20_000
"""How many events a subtask may hold before the brake works at all. Far more than wait at one time
once the gate is open, and a state of megabytes."""

# A table that is being read delivers a row within this time. While it does, nothing is slowed: the
# join takes turns between its inputs, so a slow event would be a slow row.
_STANDS_STILL_S = 1.0

# Fifty events a second for each subtask. A checkpoint's barrier waits behind the events in the
# network buffers, a thousand or so for each channel: longer sleeps would run into its timeout.
_SLEEP_S = 0.02


class Brake:
    """Told of each held event, of released ones and of rows; sleeps in ``held`` when it has to.

    Flink's pause of the stream's source follows the table's source, which counts as idle when an
    unfinished transaction hides its rows: then the pause is lifted although the gate is shut, and
    only the join itself knows better. It cannot refuse an input, but it can take its time, which
    makes Flink hold the source back.
    """

    def __init__(
        self,
        slack_events: int,
        now_s: Callable[[], float] = time.monotonic,
        sleep_s: Callable[[float], None] = time.sleep,
    ) -> None:
        """``now_s`` and ``sleep_s`` are a clock in seconds and a way to wait, for tests."""
        self._slack_events = slack_events
        self._now_s, self._sleep_s = now_s, sleep_s
        # Rows are counted, not timed: one comes by hundreds of thousands of times in a load.
        self._held = self._rows = self._rows_seen = 0
        self._still_since_s = now_s()

    def row(self) -> None:
        """A row of the table came by."""
        self._rows += 1

    def released(self, events: int) -> None:
        """So many held events were joined; they may have been held by an earlier attempt."""
        self._held = max(0, self._held - events)

    def held(self) -> None:
        """An event was put on hold."""
        self._held += 1
        if self._held <= self._slack_events:
            return
        now_s = self._now_s()
        if self._rows != self._rows_seen:
            self._rows_seen, self._still_since_s = self._rows, now_s
        elif now_s - self._still_since_s >= _STANDS_STILL_S:
            self._sleep_s(_SLEEP_S)
