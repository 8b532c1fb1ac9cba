"""What the files of ``sql/client`` and ``sql/gated`` may ask for by ``${NAME}``.

They are for sessions of other clients (Flink's SQL client and gateway), which get them as text.
JVM-free: nothing here asks Flink.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jobs.clients import java_properties
from jobs.routing import key_expression, row_key_expression
from jobs.rules import join_rules
from jobs.settings import Settings
from jobs.shading import for_connector
from jobs.sql.files import SqlError, literal, of_text, read_text, with_names
from udfs.core.errors import ConfigError

_START = {"earliest": "earliest-offset", "latest": "latest-offset"}


def output_names(settings: Settings, *, with_secrets: bool = False) -> dict[str, str]:
    """Names of ``sql/client``: how to read each output. Passwords are ``***`` by default."""
    client, output = _client(settings, with_secrets), settings.output
    topics = {"ENRICHED": output.enriched, "RETRY": output.retry, "DEAD": output.dead}
    if settings.stats.topic:
        topics["STATS"] = settings.stats.topic
    # As far as the topic goes now: a query that ends is what most questions need.
    ends = {"scan.bounded.mode": "latest-offset"}
    return {
        f"{name}_READ": _options(topic, client, "read_committed", "earliest-offset", ends)
        for name, topic in topics.items()
    }


def gate_names(
    settings: Settings, module: str, python_files: str, *, with_secrets: bool = False
) -> dict[str, str]:
    """Names of ``sql/gated``; ``module`` holds the gate and is among ``python_files``.

    Raises ConfigError for settings under which such a table would not be exact.
    """
    stream, table = settings.stream, settings.table
    if table.format != "json":
        raise ConfigError(
            "table.format",
            table.format,
            "a gated table in DDL takes each record for the row itself, and change records hold it "
            "inside; use jobs/enrich_sql.py",
        )
    if stream.start not in _START:
        raise ConfigError(
            "stream.start",
            stream.start,
            "a session must not go on where a job's consumer group stands; give "
            '"earliest" or "latest" (--set stream.start=latest)',
        )
    client, rules = _client(settings, with_secrets), join_rules(settings)
    return {
        "PYTHON_FILES": python_files.replace("'", "''"),
        "GATE_MODULE": module,
        "TABLE_READ": _options(table.topic, client, table.isolation_level, "earliest-offset"),
        "STREAM_READ": _options(stream.topic, client, stream.isolation_level, _START[stream.start]),
        "ROW_KEY": row_key_expression(rules.rows),
        "EVENT_KEY": key_expression(rules.events.key),
    }


def printed(folder: Path, names: Mapping[str, str]) -> str:
    """The folder's files as one text, names filled in and comments as they are.

    A file that asks for the statistics is left out where there are none. Raises SqlError as
    ``jobs.sql.files.statements`` does.
    """
    texts = []
    for file in sorted(folder.glob("*.sql")):
        text = read_text(file)
        if "${STATS_READ}" in text and "STATS_READ" not in names:
            continue
        # For its checks: unknown names, quotes that do not close.
        of_text(file, text, names)
        texts.append(with_names(text, names))
    if not texts:
        raise SqlError(folder, 1, "there are no *.sql files in it.", "Give the path of sql/.")
    return "\n".join(texts)


def _client(settings: Settings, with_secrets: bool) -> dict[str, str]:
    properties = for_connector(java_properties(settings))
    if with_secrets:
        return properties
    return properties | {
        name: str(settings.kafka.properties.shown(name)) for name in settings.kafka.properties
    }


def _options(
    topic: str,
    client: Mapping[str, str],
    isolation_level: str,
    start: str,
    more: Mapping[str, str] | None = None,
) -> str:
    options = {
        "connector": "kafka",
        "topic": topic,
        **{f"properties.{name}": value for name, value in client.items() if name != "group.id"},
        "properties.isolation.level": isolation_level,
        "key.format": "raw",
        "key.fields": "k",
        "value.format": "raw",
        "value.fields-include": "EXCEPT_KEY",
        "scan.startup.mode": start,
        **(more or {}),
    }
    lines = (f"  {literal(name)} = {literal(value)}" for name, value in options.items())
    return "\n" + ",\n".join(lines) + "\n"
