"""The gated join whose table is spread over the subtasks by key, in Flink's keyed state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyflink.common import Types
from pyflink.datastream.functions import KeyedCoProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor

# The last five for other jobs: in thread mode the package stays in memory when its job is gone and
# the folder that it came from does not. A later job could not import what this one never needed.
from udfs import broadcast, clock, ddl_gate, hit_rate, retry, sql_functions  # noqa: F401
from udfs.core.jsontext import BadRecord
from udfs.crossing import take_over
from udfs.grace import Grace
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
    """Joins events (input 1) with the table's rows (input 2), both keyed by the join key."""

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
