"""From settings to a job graph: reads and writes Kafka, decides nothing about the join."""

from __future__ import annotations

from collections.abc import Mapping

from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

from jobs import kafka_tables, outputs
from jobs.clients import java_properties
from jobs.preflight.facts import ClusterFacts
from jobs.rules import gate_rules, identity, join_rules
from jobs.settings import Settings
from jobs.shading import for_connector
from jobs.sides import (
    TableTicks,
    gated_rows,
    keyed,
    no_stream_side,
    retry_side,
    stream_side,
    table_side,
)
from jobs.topology import gated_join
from udfs.core.gate import Target
from udfs.gate import gate_function

JOB_CONFIG = {
    # A graph with an operator that jobs/uids.py does not name is refused at submission.
    "pipeline.auto-generate-uids": "false",
    # Our functions keep no record after they return, so the JVM need not copy between operators.
    "pipeline.object-reuse": "true",
    # How soon the gate's watermark follows the row that opened it.
    "pipeline.auto-watermark-interval": "50 ms",
    # Records per hand-over to Python: large ones, as a load is millions of rows...
    "python.fn-execution.bundle.size": "10000",
    "python.fn-execution.arrow.batch.size": "10000",
    # ...and the longest that one waits to fill, in ms, which bounds the latency of a quiet topic.
    "python.fn-execution.bundle.time": "100",
}
"""What the job owns; checkpoints, state backend and restarts are the cluster's configuration."""

# Ticks also speak for partitions that the table topic may get while the job runs: a failover
# resolves new targets but does not draw a new graph.
_TICKED_PARTITIONS_SPARE = 16


def ticked_partitions(partitions: int) -> int:
    """For how many partitions the ticks speak, given the number that the table topic has now."""
    return 2 * partitions + _TICKED_PARTITIONS_SPARE


def build(
    settings: Settings,
    facts: ClusterFacts,
    targets: Mapping[int, Target],
    *,
    gated: bool = True,
    table_only: bool = False,
) -> StreamExecutionEnvironment:
    """The job's graph, ready to execute.

    ``facts`` are the brokers' answers and ``targets`` the table topic's targets of now. The targets
    only end the pause of the stream's source in time and say how many partitions there are; the
    gate resolves its own on every attempt. ``gated=False`` joins at once, for comparison only.
    ``table_only=True`` loads the table and reads no stream: its savepoint has the table's state for
    the whole job to start from, and no positions of the stream.

    Raises RuntimeError when the planner makes other operators than ``jobs.uids`` names.
    """
    config = Configuration()
    for key, value in (JOB_CONFIG | {"pipeline.name": settings.job.name}).items():
        config.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(settings.job.parallelism)
    env.set_max_parallelism(settings.job.max_parallelism)
    t = StreamTableEnvironment.create(env)

    enriched, retry, dead = (topic.max_message_bytes for topic in facts.outputs)
    rules = join_rules(settings, enriched, gated=gated)
    client = for_connector(java_properties(settings))
    pause = settings.gate.pause_stream and gated
    stream, table = settings.stream, settings.table
    loaded_at = {p: goal for p, target in targets.items() if (goal := target.goal) is not None}
    t.create_temporary_table(
        "table_topic",
        kafka_tables.table_source(
            table.topic, client, table.isolation_level, loaded_at, pause=pause
        ),
    )
    t.create_temporary_table("tick_seed", kafka_tables.tick_seed())
    ticked = ticked_partitions(len(targets))
    rows = gated_rows(
        t,
        "table_topic",
        TableTicks("tick_seed", settings.gate.tick_interval_ms, ticked),
        rules.rows,
        gate_function(gate_rules(settings, facts, ticked)),
        identity(settings, facts).stamp,
    )
    loaded = table_side(t, rows)
    if table_only:
        events = no_stream_side(t, rows)
    else:
        t.create_temporary_table(
            "stream_topic",
            kafka_tables.stream_source(
                stream.topic,
                client,
                stream.isolation_level,
                stream.start,
                settings.stream_group,
                pause=pause,
            ),
        )
        read = stream_side(t, "stream_topic", rules.events.key)
        if rules.retries.delays_ms and gated:
            t.create_temporary_table(
                "retry_again",
                kafka_tables.stream_source(
                    settings.output.retry,
                    client,
                    # Our own records: those of a transaction that is not finished may never be.
                    "read_committed",
                    "committed",
                    settings.stream_group,
                    pause=False,
                ),
            )
            read = read.union(retry_side(t, "retry_again", rules.events.key))
        events = keyed(read)
    limits = {"enriched": enriched, "retry": retry, "dead": dead}
    tables = _output_tables(t, settings, client, limits)
    outputs.write(env, t, gated_join(events, loaded, rules), tables)
    return env


def _output_tables(
    t: StreamTableEnvironment,
    settings: Settings,
    client: Mapping[str, str],
    limits: Mapping[str, int],
) -> dict[str, str]:
    topics = {
        "enriched": settings.output.enriched,
        "retry": settings.output.retry,
        "dead": settings.output.dead,
    }
    for name, topic in topics.items():
        # A prefix of its own for each sink: Kafka fences producers that share one.
        prefix = f"{settings.job.transactional_id_prefix}-{name}"
        t.create_temporary_table(
            f"{name}_topic",
            kafka_tables.sink(
                topic,
                client,
                settings.job.delivery,
                prefix if settings.job.exactly_once else None,
                settings.job.transaction_timeout_ms,
                limits[name],
            ),
        )
    return {name: f"{name}_topic" for name in topics}
