"""A table that is whole in every subtask: Flink's broadcast state, on the JVM's heap.

Theory of operation
===================

The stream stays keyed by the join key, so that whatever belongs to a key (held events, parked ones,
timers, late marks, order) is kept as with a keyed table. The table's rows go to all subtasks, in
band with the gate's watermark. A row comes without a key of Flink's; where it has events that wait
for it, its key is made the current one, and they are decided at once as well.

Each subtask reads each row, and the one to which the row's key belongs speaks of it: of an
unreadable row one dead letter goes out, however many subtasks there are.

Flink copies broadcast state, rows and all, in the synchronous part of a checkpoint, while no record
passes, and writes all of it. Rows are kept as arrays of bytes: text would be shared and not copied,
but Flink writes it character by character (source: ``StringValue.writeString``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from pyflink.common import Types
from pyflink.datastream.state import MapStateDescriptor

from udfs.core.heap import HeapBudget


def rows_state() -> MapStateDescriptor:
    """The table: join key to the row's JSON text, or to DELETED_ROW.

    Not pickled, whatever the type says: ``Subtask.broadcast_state`` goes by no converter, and of an
    array of bytes PyFlink's would make a tuple of numbers.
    """
    return MapStateDescriptor("table-rows", Types.STRING(), Types.PICKLED_BYTE_ARRAY())


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
        """Flink's own map: ``get(key)`` and ``put(key, value)``, the value as it is in Java."""
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
        row: bytes | None = self._state.get(key)
        return row

    def put(self, key: str, row: bytes) -> None:
        self._budget.add(len(key), len(row))
        self._state.put(key, row)
