"""The three outputs of the join, each into a table that somebody has made."""

from __future__ import annotations

from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

from jobs.topology import Joined
from jobs.uids import DEAD_OUTPUT, ENRICHED_OUTPUT, RETRY_OUTPUT
from jobs.wiring import adopt

_OPERATORS = {"enriched": ENRICHED_OUTPUT, "retry": RETRY_OUTPUT, "dead": DEAD_OUTPUT}


def write(
    env: StreamExecutionEnvironment,
    t: StreamTableEnvironment,
    joined: Joined,
    tables: dict[str, str],
) -> None:
    """Send each stream of ``joined`` to its table: ``enriched``, ``retry`` and ``dead`` to names.

    The tables have the columns k, v, h (headers) and ts (timestamp).
    """
    statements = t.create_statement_set()
    for name, stream in joined._asdict().items():
        view = t.from_data_stream(stream)
        statements.add_insert(
            tables[name],
            t.sql_query(
                "SELECT key AS k, `value` AS v, headers AS h, "
                # Kafka's -1 means that there is none; the producer refuses it and takes null.
                "CASE WHEN timestamp_ms >= 0 THEN TO_TIMESTAMP_LTZ(timestamp_ms, 3) END AS ts "
                f"FROM {view}"
            ),
        )
    statements.attach_as_datastream()
    # Attached in the order of the statements, and nothing else in the graph ends in a sink.
    sinks = list(env._j_stream_execution_environment.getTransformations())[-len(joined) :]
    for name, sink in zip(joined._fields, sinks, strict=True):
        adopt(sink, _OPERATORS[name])
