"""Whether a table that is kept on the JVM's heap will fit there, told before it does not."""

from __future__ import annotations

from collections.abc import Callable

from udfs.core.errors import TableTooLargeError

ROW_OVERHEAD_BYTES = 170
"""What a row takes beside the bytes of its key and its text.

Measured on Java 17 with compressed pointers and a million rows of 500 bytes: 125 for the objects
around it (map node, two texts, two arrays), and 43 for the copy of the map that a checkpoint makes.
"""

HEAP_SHARE = 0.75
"""How much of the heap the table may take; Flink, Kafka's clients and the collector need the rest.
Beyond it the JVM does little but collect garbage, and events crawl."""

LOOK_EVERY_ROWS = 10_000
"""How often it is looked at, in rows that came."""


class HeapBudget:
    """Told of each row that is put into the table of ``topic``.

    ``heap_bytes`` is the most that the heap may become; ``entries`` says how many rows the table
    has. Raises TableTooLargeError when these, with the mean size of the rows that came, are more
    than the heap can take.
    """

    def __init__(self, topic: str, heap_bytes: int, entries: Callable[[], int]) -> None:
        self._topic, self._entries = topic, entries
        self._heap_bytes = heap_bytes
        self._limit_bytes = int(heap_bytes * HEAP_SHARE)
        self._rows = self._bytes = 0

    def add(self, size: int) -> None:
        """A row came, with so many bytes of key and text."""
        self._rows += 1
        self._bytes += size
        if self._rows % LOOK_EVERY_ROWS == 0:
            self._look()

    def _look(self) -> None:
        mean = self._bytes / self._rows + ROW_OVERHEAD_BYTES
        rows = self._entries()
        needed = int(rows * mean)
        if needed > self._limit_bytes:
            raise TableTooLargeError(
                f"{self._topic}: {rows} rows of {mean:.0f} bytes each on the heap take "
                f"{_mb(needed)} MB, and the TaskManager's heap of {_mb(self._heap_bytes)} MB has "
                f"room for {_mb(self._limit_bytes)} MB of them; more rows may follow.",
                "Give the TaskManagers more heap (taskmanager.memory.task.heap.size, or less "
                'managed memory), or set join.lookup_state = "keyed" and load the table anew.',
            )


def _mb(size: int) -> int:
    return size // 1_000_000
