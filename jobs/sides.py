"""The two inputs of the join: the stream of events, and the table behind its gate."""

from __future__ import annotations

from pyflink.common import Types
from pyflink.datastream import DataStream
from pyflink.datastream.data_stream import KeyedStream
from pyflink.java_gateway import get_gateway
from pyflink.table import Schema, StreamTableEnvironment
from pyflink.table.udf import UserDefinedScalarFunctionWrapper

from jobs.routing import key_expression, row_key_expression
from jobs.uids import STREAM_SIDE, TABLE_SIDE
from jobs.wiring import adopt
from udfs.core.keys import KeyRule
from udfs.core.rows import RowReader
from udfs.records import record_type

# Kafka's timestamp as epoch milliseconds; Flink SQL has no one function for it.
_TIMESTAMP_MS = "EXTRACT(EPOCH FROM ts) * 1000 + EXTRACT(MILLISECOND FROM ts)"
_HEADERS = "CASE WHEN CARDINALITY(h) > 0 THEN h END"
# A record without a key is routed by where it stands: such records spread over all subtasks, and
# none of them is ever looked up.
_ROUTE = "COALESCE(routed, CONCAT('no key: ', CAST(p AS STRING), '@', CAST(o AS STRING)))"
_RECORD = "ROW(routed, k, v, h, ts_ms, p, o)"


def stream_side(t: StreamTableEnvironment, source: str, rule: KeyRule) -> KeyedStream:
    """Events of table ``source``, keyed by the join key. One JVM pass, no Python."""
    query = f"""
        SELECT {_ROUTE}, {_RECORD} FROM (
          SELECT {key_expression(rule)} AS routed, k, v, {_HEADERS} AS h,
                 {_TIMESTAMP_MS} AS ts_ms, p, o
          FROM {source})"""
    side = t.to_append_stream(t.sql_query(query), Types.ROW([Types.STRING(), record_type()]))
    adopt(side._j_data_stream.getTransformation(), STREAM_SIDE)
    return _keyed(side)


def table_side(
    t: StreamTableEnvironment,
    source: str,
    ticks: str,
    partitions: int,
    reader: RowReader,
    gate: UserDefinedScalarFunctionWrapper,
) -> KeyedStream:
    """Rows of table ``source``, keyed by the join key, the gate's watermark in band behind them.

    ``partitions`` is how many partitions the ticks speak for. One subtask up to the watermark.
    """
    t.create_temporary_function("table_gate", gate)
    # `zero` is 0, which the planner cannot know: an array of constants would become a stateful join
    # with a source that ends.
    numbers = ", ".join(f"zero + {n}" for n in range(partitions))
    gated = t.sql_query(f"""
        SELECT routed, k, v, h, ts_ms, p, o, table_gate(p, reached) AS complete_until FROM (
          SELECT *, MAX(o) OVER (PARTITION BY p ORDER BY pt
                                 ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS reached
          FROM (
            SELECT {row_key_expression(reader)} AS routed, k, v, {_HEADERS} AS h,
                   {_TIMESTAMP_MS} AS ts_ms, p, o, PROCTIME() AS pt
            FROM {source}
            UNION ALL
            SELECT CAST(NULL AS STRING), CAST(NULL AS BYTES), CAST(NULL AS BYTES),
                   CAST(NULL AS MAP<STRING, BYTES>), CAST(NULL AS BIGINT), n, CAST(NULL AS BIGINT),
                   PROCTIME()
            FROM {ticks} CROSS JOIN UNNEST(ARRAY[{numbers}]) AS u(n)))""")
    record = record_type()
    flat = Types.ROW_NAMED(
        [*record.get_field_names(), "complete_until"], [*record.get_field_types(), Types.LONG()]
    )
    schema = (
        Schema.new_builder()
        .column_by_expression("rt", "TO_TIMESTAMP_LTZ(0, 3)")
        .watermark("rt", "TO_TIMESTAMP_LTZ(complete_until, 3)")
        .build()
    )
    watermarked = t.from_data_stream(t.to_append_stream(gated, flat), schema)
    query = f"""
        SELECT COALESCE(routed_key, CONCAT('no key: ', CAST(`partition` AS STRING), '@',
                                           CAST(`offset` AS STRING))),
               ROW(routed_key, key, `value`, headers, timestamp_ms, `partition`, `offset`)
        FROM {watermarked} WHERE `offset` IS NOT NULL"""
    side = t.to_append_stream(t.sql_query(query), Types.ROW([Types.STRING(), record]))
    adopt(side._j_data_stream.getTransformation(), TABLE_SIDE, parallelism=1)
    return _keyed(side)


def _keyed(side: DataStream) -> KeyedStream:
    """Keyed by the first field, in the JVM; ``key_by`` would add a Python call for each record."""
    selector = get_gateway().jvm.KeyByKeySelector()
    key_type = Types.ROW([Types.STRING()]).get_java_type_info()
    return KeyedStream(side._j_data_stream.keyBy(selector, key_type), record_type(), side)
