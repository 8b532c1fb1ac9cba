"""What the SQL files may ask for by ``${NAME}``: the settings, as pieces of SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyflink.table import TableDescriptor

from jobs import kafka_tables
from jobs.clients import java_properties
from jobs.preflight.facts import ClusterFacts, TopicFacts
from jobs.routing import key_expression, row_key_expression
from jobs.settings import Settings
from jobs.shading import for_connector
from jobs.sql.files import literal, option_list
from udfs.core.gate import FAR_FUTURE_MS
from udfs.core.hitrate import MISSES
from udfs.core.marks import STARTUP_MOMENT_MS
from udfs.core.model import Verdict
from udfs.join_rules import JoinRules


def log_names(settings: Settings, rules: JoinRules) -> dict[str, str]:
    """What can be asked for without a job: the topics as logs. See :func:`names`."""
    client = for_connector(java_properties(settings))
    stream, table, output = settings.stream, settings.table, settings.output
    logs = {
        "STREAM": (stream.topic, stream.isolation_level),
        "TABLE": (table.topic, table.isolation_level),
        # What an unfinished transaction of ours has written has not been written.
        "ENRICHED": (output.enriched, "read_committed"),
        "RETRY": (output.retry, "read_committed"),
        "DEAD": (output.dead, "read_committed"),
    }
    read = {name: [topic] for name, (topic, _) in logs.items()}
    read["ENRICHED"] += list(output.also)
    return {
        **{f"{name}_TOPIC": topic for name, (topic, _) in logs.items()},
        **{
            f"{name}_LOG": _options(kafka_tables.log(read[name], client, isolation))
            for name, (_, isolation) in logs.items()
        },
        "CLIENT_OPTIONS": option_list({f"properties.{k}": v for k, v in client.items()}),
        "EVENT_KEY": key_expression(rules.events.key),
        "ROW_KEY": row_key_expression(rules.rows),
        "MISSES": _texts(MISSES),
        "MAX_TABLE_LAG_MS": str(settings.gate.max_table_lag_ms),
        "STATS_WINDOW": f"INTERVAL '{settings.stats.window_ms / 1000:.3f}' SECOND(5, 3)",
    }


def names(settings: Settings, facts: ClusterFacts, rules: JoinRules) -> dict[str, str]:
    """Name to text. The option lists hold the clients' passwords."""
    client = for_connector(java_properties(settings))
    stream = settings.stream
    source = kafka_tables.stream_source(
        stream.topic,
        client,
        stream.isolation_level,
        stream.start,
        settings.stream_group,
        pause=settings.gate.pause_stream,
    )
    continuous = settings.gate.continuous
    enriched, retry, dead, *_ = facts.outputs
    policy = rules.on_miss
    return log_names(settings, rules) | {
        "STREAM_OPTIONS": _options(source),
        "ENRICHED_OPTIONS": _options(_sink(settings, client, "enriched", enriched)),
        "RETRY_OPTIONS": _options(_sink(settings, client, "retry", retry)),
        "DEAD_OPTIONS": _options(_sink(settings, client, "dead", dead)),
        "TO_RETRY": _texts(MISSES if policy.route else ()),
        "TO_DEAD": _texts((Verdict.BAD_RECORD, *([Verdict.NO_KEY] if policy.route else ()))),
        # Both may be null for the planner, so that the join's state is of the same types, and a
        # savepoint of one goes on as the other.
        "EVENT_MOMENT": (
            "CASE WHEN TRUE THEN CURRENT_ROW_TIMESTAMP() END"
            if continuous
            else f"TO_TIMESTAMP_LTZ({STARTUP_MOMENT_MS}, 3)"
        ),
        "BEYOND_THE_GATE": f"TO_TIMESTAMP_LTZ({FAR_FUTURE_MS + 1}, 3)",
    }


def _sink(
    settings: Settings, client: Mapping[str, str], name: str, topic: TopicFacts
) -> TableDescriptor:
    job = settings.job
    return kafka_tables.sink(
        topic.name,
        client,
        job.delivery,
        # As in the DataStream job: Kafka fences producers that share a prefix.
        f"{job.transactional_id_prefix}-{name}" if job.exactly_once else None,
        job.transaction_timeout_ms,
        topic.max_message_bytes,
    )


def _options(table: TableDescriptor) -> str:
    return option_list(table.get_options())


def _texts(verdicts: Iterable[Verdict]) -> str:
    """The inside of IN (...). Of none a text that no verdict is: the plan stays the same."""
    return ", ".join(map(literal, verdicts)) or "''"
