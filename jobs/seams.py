"""Seams at which the planner's work is fixed as a stream, and SQL goes on behind it."""

from __future__ import annotations

from pyflink.datastream import DataStream
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment, Table

_ROW_DATA = "org.apache.flink.table.data.RowData"


def as_stream(t: StreamTableEnvironment, rows: Table) -> DataStream:
    """The rows as a stream in the planner's own form, which only ``from_data_stream`` can take.

    PyFlink's way to a stream (``to_append_stream``) makes a ``Row`` of each record, with maps and
    texts of their own, of which the way back makes the planner's form again.
    """
    loader = get_gateway().jvm.Thread.currentThread().getContextClassLoader()
    table, environment = rows._j_table, t._j_tenv  # noqa: SLF001  (PyFlink has no such way)
    form = table.getResolvedSchema().toPhysicalRowDataType()
    form = form.notNull().bridgedTo(loader.loadClass(_ROW_DATA))
    return DataStream(environment.toDataStream(table, form))
