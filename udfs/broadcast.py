"""A table that is whole in every subtask: Flink's broadcast state, on the JVM's heap.

Theory of operation
===================

The stream stays keyed by the join key, so that whatever belongs to a key (held events, parked ones,
timers, late marks, order) is kept as with a keyed table. The table's rows go to all subtasks, in
band with the gate's watermark. A row comes without a key of Flink's; where it has events that wait
for it, its key is made the current one, and they are decided at once as well.

Each subtask reads each row, and the one to which the row's key belongs speaks of it: of an
unreadable row one dead letter goes out, however many subtasks there are.

Flink copies broadcast state in the synchronous part of a checkpoint, while no record passes. So
rows are kept as text, with a character for each byte: text never changes in Java, and Flink copies
the map of it and not the rows. Byte arrays it would copy one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from pyflink.common import Types
from pyflink.datastream.state import MapStateDescriptor

from udfs.core.heap import HeapBudget

# A character for each byte, whatever the bytes are.
_BYTES = "latin-1"


def rows_state() -> MapStateDescriptor:
    """The table: join key to the row's JSON text, or to DELETED_ROW."""
    return MapStateDescriptor("table-rows", Types.STRING(), Types.STRING())


class Subtask(Protocol):
    """What the join has to know of its subtask, and PyFlink does not show."""

    @property
    def crosses(self) -> bool:
        """Whether records cross as ``udfs.crossing`` says."""
        ...

    @property
    def context(self) -> Any:
        """The context of the key that :meth:`take` made the current one."""
        ...

    @property
    def heap_bytes(self) -> int:
        """How large the JVM's heap may become."""
        ...

    def broadcast_state(self, descriptor: MapStateDescriptor) -> Any:
        """Broadcast state that can be read and written."""
        ...

    def entries(self, descriptor: MapStateDescriptor) -> int:
        """How many entries that state has."""
        ...

    def keys_with(self, state: str) -> Iterator[str]:
        """The keys of this subtask for which the keyed state of this name holds something."""
        ...

    def take(self, key: str) -> None:
        """Make the key Flink's current one. It has to belong to this subtask."""
        ...

    def owns(self, routed: str) -> bool:
        """Whether records that are routed by this text belong to this subtask."""
        ...


class BroadcastTable:
    """Rows in broadcast state. Raises TableTooLargeError when they will not fit on the heap."""

    def __init__(self, around: Subtask, topic: str) -> None:
        descriptor = rows_state()
        self._state = around.broadcast_state(descriptor)
        self._budget = HeapBudget(topic, around.heap_bytes, lambda: around.entries(descriptor))

    def get(self, key: str) -> bytes | None:
        row: str | None = self._state.get(key)
        return None if row is None else row.encode(_BYTES)

    def put(self, key: str, row: bytes) -> None:
        self._budget.add(len(key) + len(row))
        self._state.put(key, row.decode(_BYTES))
