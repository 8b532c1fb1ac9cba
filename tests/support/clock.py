"""The workers' clock in a test: it stands still until the test moves it."""

from __future__ import annotations

START_MS = 1_700_000_000_000


class Clock:
    """In the place of ``udfs.clock.now_ms``; ``ms`` is what it tells."""

    ms = START_MS

    def __call__(self) -> int:
        return self.ms
