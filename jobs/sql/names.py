"""What the SQL files may ask for by ``${NAME}``: the settings, as pieces of SQL."""

from __future__ import annotations

from collections.abc import Mapping

from pyflink.table import TableDescriptor

from jobs import kafka_tables
from jobs.clients import java_properties
from jobs.preflight.facts import ClusterFacts, TopicFacts
from jobs.routing import key_expression
from jobs.settings import Settings
from jobs.shading import for_connector
from jobs.sql.files import option_list
from udfs.core.events import EventReader
from udfs.core.gate import FAR_FUTURE_MS
from udfs.core.marks import STARTUP_MOMENT_MS


def names(settings: Settings, facts: ClusterFacts, events: EventReader) -> dict[str, str]:
    """Name to text. The option lists hold the clients' passwords."""
    client = for_connector(java_properties(settings))
    stream, output = settings.stream, settings.output
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
    return {
        "STREAM_TOPIC": stream.topic,
        "TABLE_TOPIC": settings.table.topic,
        "ENRICHED_TOPIC": output.enriched,
        "RETRY_TOPIC": output.retry,
        "DEAD_TOPIC": output.dead,
        "STREAM_OPTIONS": _options(source),
        "ENRICHED_OPTIONS": _options(_sink(settings, client, "enriched", enriched)),
        "RETRY_OPTIONS": _options(_sink(settings, client, "retry", retry)),
        "DEAD_OPTIONS": _options(_sink(settings, client, "dead", dead)),
        "EVENT_KEY": key_expression(events.key),
        "EVENT_MOMENT": (
            "CURRENT_ROW_TIMESTAMP()" if continuous else f"TO_TIMESTAMP_LTZ({STARTUP_MOMENT_MS}, 3)"
        ),
        "BEYOND_THE_GATE": f"TO_TIMESTAMP_LTZ({FAR_FUTURE_MS + 1}, 3)",
        "STATS_WINDOW": f"INTERVAL '{settings.stats.window_ms / 1000:.3f}' SECOND(5, 3)",
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
