"""Whether a table that is kept on the JVM's heap will fit there, told before it does not."""

from __future__ import annotations

from collections.abc import Callable

from udfs.core.errors import TableTooLargeError

ROW_OVERHEAD_BYTES = 180
"""What a row takes beside its bytes and those of the copy that a checkpoint makes: two map nodes,
the heads of two arrays and of the key's text, the maps' slots. Without the copy 120 were measured,
Java 17 with compressed pointers (bench/results/lookups.jsonl)."""

HEAP_SHARE = 0.75
"""How much of the heap the table may take; Flink, Kafka's clients and the collector need the rest.
Beyond it the JVM does little but collect garbage, and events crawl."""

LOOK_EVERY_ROWS = 10_000
"""How often it is looked at, in rows that came."""


def heap_bytes(key_bytes: float, row_bytes: float) -> float:
    """What a row takes on the heap while a checkpoint is made, which copies rows but not keys."""
    return key_bytes + 2 * row_bytes + ROW_OVERHEAD_BYTES


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
        self._rows, self._bytes = 0, 0.0

    def add(self, key_bytes: int, row_bytes: int) -> None:
        """A row came."""
        self._rows += 1
        self._bytes += heap_bytes(key_bytes, row_bytes)
        if self._rows % LOOK_EVERY_ROWS == 0:
            self._look()

    def _look(self) -> None:
        mean = self._bytes / self._rows
        rows = self._entries()
        needed = int(rows * mean)
        if needed > self._limit_bytes:
            raise TableTooLargeError(
                f"{self._topic}: {rows} rows take {_mb(needed)} MB of the heap during a "
                f"checkpoint, {mean:.0f} bytes each, and the TaskManager's heap of "
                f"{_mb(self._heap_bytes)} MB has room for {_mb(self._limit_bytes)} MB of them; "
                "more rows may follow.",
                "Give the TaskManagers more heap (taskmanager.memory.task.heap.size, or less "
                'managed memory), or set join.lookup_state = "keyed" and load the table anew.',
            )


def _mb(size: int) -> int:
    return size // 1_000_000
