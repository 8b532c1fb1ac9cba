"""From settings to a job graph: reads and writes Kafka, decides nothing about the join."""

from __future__ import annotations

from collections.abc import Mapping

from pyflink.common import Configuration
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

from jobs import kafka_tables, outputs, uids
from jobs.clients import java_properties
from jobs.hit_rate import hit_rate
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
from jobs.topology import Joined, gated_join
from udfs.core.errors import ConfigError
from udfs.core.gate import Target
from udfs.core.misses import OnMiss
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

# And Flink's default.
_EXECUTION_MODE = ("python.execution-mode", "process")

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
    _require_threads_for(settings, t)

    sinks = _sinks(facts)
    enriched = [limit for name, (_, limit) in sinks.items() if name not in _SET_ASIDE]
    rules = join_rules(settings, min(enriched), gated=gated)
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
    joined = gated_join(events, loaded, rules)
    # A run for the table alone decides nothing; counts in its savepoint would be told once more by
    # the job that starts from it.
    _write(env, t, settings, client, joined, sinks, counted=not table_only)
    return env


def _require_threads_for(settings: Settings, t: StreamTableEnvironment) -> None:
    mode = t.get_config().get(*_EXECUTION_MODE)
    if settings.join.lookup_state == "broadcast" and mode != "thread":
        raise ConfigError(
            "join.lookup_state",
            settings.join.lookup_state,
            f"Python would run in worker processes (python.execution-mode: {mode}), which do not "
            "reach the events that wait for a row: set python.execution-mode: thread in the "
            'configuration of the cluster and of its client, or give "keyed"',
        )


# Tables of the events that did not become an enriched one.
_SET_ASIDE = ("retry", "dead")


def _sinks(facts: ClusterFacts) -> dict[str, tuple[str, int]]:
    """Topic and its limit in bytes for each output of events, by the name of its operators."""
    enriched, retry, dead, *also = facts.outputs
    found = {"enriched": enriched, "retry": retry, "dead": dead}
    found |= {f"also-{topic.name}": topic for topic in also}
    return {name: (topic.name, topic.max_message_bytes) for name, topic in found.items()}


def _write(
    env: StreamExecutionEnvironment,
    t: StreamTableEnvironment,
    settings: Settings,
    client: Mapping[str, str],
    joined: Joined,
    sinks: Mapping[str, tuple[str, int]],
    *,
    counted: bool,
) -> None:
    job = settings.job
    tables = {}
    for number, (name, (topic, limit)) in enumerate(sinks.items()):
        # A prefix of its own for each sink: Kafka fences producers that share one.
        prefix = f"{job.transactional_id_prefix}-{name}" if job.exactly_once else None
        tables[name] = f"output_{number}"
        t.create_temporary_table(
            tables[name],
            kafka_tables.sink(
                topic, client, job.delivery, prefix, job.transaction_timeout_ms, limit
            ),
        )
    on_miss = settings.output.on_miss_of()
    streams = {"retry": joined.retry, "dead": joined.dead}
    for name, (topic, _) in sinks.items():
        if name not in streams:
            wants_nulls = on_miss[topic] is OnMiss.EMIT_NULL
            streams[name] = joined.enriched.union(joined.nulls) if wants_nulls else joined.enriched
    written = [
        outputs.Output(streams[name], table, uids.output(name)) for name, table in tables.items()
    ]
    if counted:
        written.append(_stats(t, settings, client, joined))
    outputs.write(env, t, written)


def _stats(
    t: StreamTableEnvironment, settings: Settings, client: Mapping[str, str], joined: Joined
) -> outputs.Output:
    return stats_output(
        t, settings, client, hit_rate(t, joined, settings.job.name, settings.stats.window_ms)
    )


def stats_output(
    t: StreamTableEnvironment, settings: Settings, client: Mapping[str, str], told: DataStream
) -> outputs.Output:
    """Where the counts go: to the topic of the settings, or nowhere but into the metrics."""
    if settings.stats.topic:
        # A window that is told twice has the same key: no transaction, which would keep what is
        # happening now from everybody until the next checkpoint.
        sink = kafka_tables.sink(settings.stats.topic, client, "at-least-once", None, 0)
    else:
        sink = kafka_tables.nowhere()
    t.create_temporary_table("stats", sink)
    return outputs.Output(told, "stats", uids.STATS_OUTPUT, parallelism=1)
