"""The gated join whose whole table is in every subtask: Flink's broadcast state, on the JVM's heap.

Theory of operation
===================

The stream stays keyed by the join key, so that whatever belongs to a key (held events, parked ones,
timers, late marks, order) is kept as in ``udfs.join``. The table's rows go to all subtasks, in band
with the gate's watermark. A row comes without a key of Flink's; where it has events that wait for
it, its key is made the current one, and they are decided at once as well.

Each subtask reads each row, and the one to which the row's key belongs speaks of it: of an
unreadable row one dead letter goes out, however many subtasks there are.

Rows are kept as text with a character for each byte. Text is never changed in Java, so that a
checkpoint copies the map and not the rows: of a million rows of 500 bytes 0.4 to 0.8 s, where byte
arrays took 6 to 10 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from pyflink.common import Types
from pyflink.datastream.functions import KeyedBroadcastProcessFunction, RuntimeContext
from pyflink.datastream.state import MapStateDescriptor

from udfs import clock, subtask
from udfs.core.heap import HeapBudget
from udfs.core.jsontext import BadRecord
from udfs.grace import Grace, ends_state
from udfs.joining import Joining

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


class _BroadcastTable:
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


class BroadcastJoin(Joining, KeyedBroadcastProcessFunction):
    """Joins keyed events (input 1) with the table's rows (input 2), which every subtask gets."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._require_same_code()
        self._around: Subtask = subtask.look_around(runtime_context)
        self._context = self._around.context
        grace = Grace(
            runtime_context,
            self._rules.miss_grace_ms,
            clock.now_ms(),
            self._around.keys_with(ends_state().name),
        )
        table = _BroadcastTable(self._around, self._rules.table_topic)
        self._start(runtime_context, table, grace, crosses=self._around.crosses)

    # Not one call more for each event.
    process_element = Joining._event  # noqa: SLF001  (our own)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        routed, record = value
        record = self._read(record)
        try:
            key, to_be_met = self._row(record)
        except BadRecord as error:
            bad = self._outcomes.bad_row
            return (bad(record, str(error)),) if self._around.owns(routed) else ()
        # Only keys of this subtask have parked events here.
        if to_be_met and self._grace.may_have(key, self._context):
            self._around.take(key)
            return self._settle(key, self._context)
        return ()
