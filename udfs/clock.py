"""The wall clock of the workers' functions, in one place for the tests that set it."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000
