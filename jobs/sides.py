"""The two inputs of the join: the stream of events, and the table behind its gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyflink.common import Types
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import DataStream
from pyflink.datastream.data_stream import KeyedStream
from pyflink.java_gateway import get_gateway
from pyflink.table import Schema, StreamTableEnvironment, Table
from pyflink.table.udf import UserDefinedScalarFunctionWrapper

from jobs.routing import key_expression, row_key_expression
from jobs.seams import as_stream
from jobs.uids import (
    NO_STREAM,
    RETRY_DELAY,
    RETRY_SIDE,
    STREAM_SIDE,
    TABLE_SIDE,
    Operator,
)
from jobs.wiring import adopt
from udfs.core.keys import KeyRule
from udfs.core.rows import RowReader
from udfs.records import pair_type, record_type
from udfs.retry import RetryDelay

# Kafka's timestamp as epoch milliseconds; Flink SQL has no one function for it.
_TIMESTAMP_MS = "EXTRACT(EPOCH FROM ts) * 1000 + EXTRACT(MILLISECOND FROM ts)"
_HEADERS = "CASE WHEN CARDINALITY(h) > 0 THEN h END"
# A record without a key is routed by where it stands: such records spread over all subtasks, and
# none of them is ever looked up.
_ROUTE = "COALESCE(routed, CONCAT('no key: ', CAST(p AS STRING), '@', CAST(o AS STRING)))"
_RECORD = "ROW(routed, k, v, h, ts_ms, p, o)"
_GATED_RECORD = "ROW(routed_key, key, `value`, headers, timestamp_ms, `partition`, `offset`)"


def stream_side(t: StreamTableEnvironment, source: str, rule: KeyRule) -> DataStream:
    """Events of table ``source``, each behind its join key. One JVM pass, no Python."""
    return _events(t, source, rule, STREAM_SIDE)


def retry_side(t: StreamTableEnvironment, source: str, rule: KeyRule) -> DataStream:
    """Events of the retry topic, table ``source``, as ``stream_side``, once each is due."""
    waiting = keyed(_events(t, source, rule, RETRY_SIDE))
    return waiting.process(RetryDelay(), pair_type()).uid(RETRY_DELAY.uid).name(RETRY_DELAY.name)


def _events(
    t: StreamTableEnvironment, source: str, rule: KeyRule, operators: Sequence[Operator]
) -> DataStream:
    query = f"""
        SELECT {_ROUTE}, {_RECORD} FROM (
          SELECT {key_expression(rule)} AS routed, k, v, {_HEADERS} AS h,
                 {_TIMESTAMP_MS} AS ts_ms, p, o
          FROM {source})"""
    side = t.to_append_stream(t.sql_query(query), pair_type())
    adopt(side._j_data_stream.getTransformation(), operators)
    return side


class TableTicks(NamedTuple):
    """What tells the progress of a quiet table: a tick for each partition, one or several a second.

    ``seed`` is a table of zeros, one a second; ``interval_ms`` a divisor of 1000; ``partitions``
    how many partitions the ticks speak for.
    """

    seed: str
    interval_ms: int
    partitions: int

    def query(self) -> str:
        """SELECT n, the partition's number.

        Windows of one second that begin every interval: each zero is in all that are running, and
        each ends at its own time.
        """
        # `zero` is 0, which the planner cannot know: an array of constants would become a stateful
        # join with a source that ends.
        numbers = ", ".join(f"zero + {n}" for n in range(self.partitions))
        slide = f"INTERVAL '{self.interval_ms / 1000:.3f}' SECOND(2, 3)"
        return f"""
            SELECT n FROM (
              SELECT MAX(zero) AS zero
              FROM TABLE(HOP(TABLE {self.seed}, DESCRIPTOR(pt), {slide}, INTERVAL '1' SECOND))
              GROUP BY window_start, window_end)
            CROSS JOIN UNNEST(ARRAY[{numbers}]) AS u(n)"""


def gated_rows(
    t: StreamTableEnvironment,
    source: str,
    ticks: TableTicks,
    reader: RowReader,
    gate: UserDefinedScalarFunctionWrapper,
    stamp: str,
    also: str = "",
) -> Table:
    """Rows of table ``source`` and the ticks, the gate's watermark in band behind them.

    ``stamp`` names what the state belongs to: the first one is kept in it. ``also`` are further
    columns for SELECT, of the record's ``routed``, ``k`` and ``v``: vectorised functions among them
    are called with the gate, in one go.
    """
    t.create_temporary_function("table_gate", gate)
    gated = t.sql_query(f"""
        SELECT routed AS routed_key, k AS key, v AS `value`, h AS headers, ts_ms AS timestamp_ms,
               p AS `partition`, o AS `offset`,
               table_gate(p, reached, NULLIF(stamp, '{stamp}'), at_s - before_s, o IS NULL)
                 AS complete_until{also and f", {also}"}
        FROM (
          SELECT *, MAX(o) OVER so_far AS reached, FIRST_VALUE('{stamp}') OVER so_far AS stamp,
                 LAG(at_s) OVER so_far AS before_s
          FROM (
            SELECT {row_key_expression(reader)} AS routed, k, v, {_HEADERS} AS h,
                   {_TIMESTAMP_MS} AS ts_ms, p, o, UNIX_TIMESTAMP() AS at_s, PROCTIME() AS pt
            FROM {source}
            UNION ALL
            SELECT CAST(NULL AS STRING), CAST(NULL AS BYTES), CAST(NULL AS BYTES),
                   CAST(NULL AS MAP<STRING, BYTES>), CAST(NULL AS BIGINT), n, CAST(NULL AS BIGINT),
                   UNIX_TIMESTAMP(), PROCTIME()
            FROM ({ticks.query()}))
          WINDOW so_far AS (PARTITION BY p ORDER BY pt))""")
    schema = (
        Schema.new_builder()
        .column_by_expression("rt", "TO_TIMESTAMP_LTZ(0, 3)")
        .watermark("rt", "TO_TIMESTAMP_LTZ(complete_until, 3)")
        .build()
    )
    return t.from_data_stream(as_stream(t, gated), schema)


def table_side(t: StreamTableEnvironment, gated: Table) -> DataStream:
    """The rows of ``gated_rows``, each behind its join key. One subtask up to here."""
    query = f"""
        SELECT COALESCE(routed_key, CONCAT('no key: ', CAST(`partition` AS STRING), '@',
                                           CAST(`offset` AS STRING))),
               {_GATED_RECORD}
        FROM {gated} WHERE `offset` IS NOT NULL"""
    return _pinned(t, query, TABLE_SIDE)


def no_stream_side(t: StreamTableEnvironment, gated: Table) -> KeyedStream:
    """A stream without events, for a run that only loads the table.

    Made of the table's side and not of a source of its own, whose state a savepoint would hold.
    """
    query = f"SELECT 'none', {_GATED_RECORD} FROM {gated} WHERE `offset` < 0"
    return keyed(_pinned(t, query, NO_STREAM))


def _pinned(t: StreamTableEnvironment, query: str, operators: Sequence[Operator]) -> DataStream:
    side = t.to_append_stream(t.sql_query(query), pair_type())
    adopt(side._j_data_stream.getTransformation(), operators, parallelism=1)
    return side


def keyed(side: DataStream, of: TypeInformation | None = None) -> KeyedStream:
    """Keyed by the first field, in the JVM; ``key_by`` would add a Python call for each record.

    ``of`` is the type of the second field, a Record's when it is not given.
    """
    selector = get_gateway().jvm.KeyByKeySelector()
    key_type = Types.ROW([Types.STRING()]).get_java_type_info()
    return KeyedStream(side._j_data_stream.keyBy(selector, key_type), of or record_type(), side)
