"""The gated join as Flink functions: with the table by key, and with all of it in every subtask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyflink.common import Types
from pyflink.datastream.functions import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    RuntimeContext,
)
from pyflink.datastream.state import ValueStateDescriptor

# Four of these for other jobs: in thread mode the package stays in memory when its job is gone and
# the folder that it came from does not. A later job could not import what this one never needed.
from udfs import clock, ddl_gate, hit_rate, retry, sql_functions, subtask  # noqa: F401
from udfs.broadcast import BroadcastTable, Subtask
from udfs.core.jsontext import BadRecord
from udfs.crossing import take_over
from udfs.grace import Grace, ends_state
from udfs.joining import Joining


def row_state() -> ValueStateDescriptor:
    """The table: for each join key the row's JSON text, or DELETED_ROW."""
    return ValueStateDescriptor("table-row", Types.PICKLED_BYTE_ARRAY())


class _KeyedTable:
    """Rows in keyed state: that of the current key, whatever key is asked for."""

    def __init__(self, context: RuntimeContext) -> None:
        self._state = context.get_state(row_state())

    def get(self, key: str) -> bytes | None:
        row: bytes | None = self._state.value()
        return row

    def put(self, key: str, row: bytes) -> None:
        self._state.update(row)


class GatedJoin(Joining, KeyedCoProcessFunction):
    """Joins events (input 1) with the table's rows (input 2), both keyed by the join key.

    Each subtask has the rows of its own keys, in Flink's keyed state.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        self._require_same_code()
        crosses = take_over()
        # Also without a grace: an earlier version may have had one.
        grace = Grace(runtime_context, self._rules.miss_grace_ms, clock.now_ms())
        self._start(runtime_context, _KeyedTable(runtime_context), grace, crosses=crosses)

    # Not one call more for each event.
    process_element1 = Joining._event  # noqa: SLF001  (our own)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        record = self._read(value)
        try:
            key, to_be_met = self._row(record)
        except BadRecord as error:
            return (self._outcomes.bad_row(record, str(error)),)
        if to_be_met and self._grace.may_have(key, ctx):
            return self._settle(key, ctx)
        return ()


class BroadcastJoin(Joining, KeyedBroadcastProcessFunction):
    """Joins events (input 1), keyed, with the table's rows (input 2), which every subtask gets.

    See ``udfs.broadcast``.
    """

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
        table = BroadcastTable(self._around, self._rules.table_topic)
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
