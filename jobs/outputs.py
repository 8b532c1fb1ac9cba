"""What leaves the join, each stream into the tables that somebody has made for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

from jobs.uids import Operator
from jobs.wiring import adopt


class Output(NamedTuple):
    """A stream of ``udfs.records.output_type``, the table that it goes to, and its operators.

    ``parallelism`` is pinned where it is given.
    """

    stream: DataStream
    table: str
    operators: Sequence[Operator]
    parallelism: int | None = None


def write(
    env: StreamExecutionEnvironment, t: StreamTableEnvironment, outputs: Sequence[Output]
) -> None:
    """Send each stream to its table, which has the columns k, v, h (headers) and ts (timestamp)."""
    statements = t.create_statement_set()
    for output in outputs:
        view = t.from_data_stream(output.stream)
        statements.add_insert(
            output.table,
            t.sql_query(
                "SELECT key AS k, `value` AS v, headers AS h, "
                # Kafka's -1 means that there is none; the producer refuses it and takes null.
                "CASE WHEN timestamp_ms >= 0 THEN TO_TIMESTAMP_LTZ(timestamp_ms, 3) END AS ts "
                f"FROM {view}"
            ),
        )
    statements.attach_as_datastream()
    # Attached in the order of the statements, and nothing else in the graph ends in a sink.
    sinks = list(env._j_stream_execution_environment.getTransformations())[-len(outputs) :]
    for output, sink in zip(outputs, sinks, strict=True):
        adopt(sink, output.operators, output.parallelism)
