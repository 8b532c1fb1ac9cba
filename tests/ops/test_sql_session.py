"""A session's settings keep away from what the running job keeps in Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.clients import java_properties, librdkafka_config
from jobs.settings import ConfigErrors, Settings, from_mapping
from jobs.settings.secrets import MASK
from ops.sql.session import for_reading, for_session, notes


def _settings(**changes: dict[str, Any]) -> Settings:
    tables: dict[str, Any] = {
        "job": {"name": "orders-enrich"},
        "kafka": {"bootstrap_servers": "localhost:1"},
        "stream": {"topic": "orders", "key": {"from": "key"}},
        "table": {"topic": "customers", "fields": {"tier": "tier"}},
        "output": {"enriched": "e", "retry": "r", "dead": "d"},
    }
    return from_mapping(
        {name: tables.get(name, {}) | changes.get(name, {}) for name in tables | changes}
    )


@pytest.mark.parametrize("start", [None, "earliest", "latest"])
@pytest.mark.parametrize("properties", [{}, {"group.id": "orders-group"}])
def test_the_group_is_the_sessions_own_and_nothing_is_committed(
    properties: dict[str, str], start: str | None
) -> None:
    kafka = {"bootstrap_servers": "localhost:1", "properties": properties}
    settings = _settings(kafka=kafka)
    own = for_session(settings, "sql-1", start)
    assert own.stream_group == f"{settings.stream_group}.sql-1"
    assert java_properties(own)["group.id"] == own.stream_group
    assert java_properties(own)["commit.offsets.on.checkpoint"] == "false"
    # The gate's own client takes what Java's is told.
    assert librdkafka_config(own)["bootstrap.servers"] == "localhost:1"


def test_from_the_jobs_offsets_means_its_group_which_is_read_and_not_written() -> None:
    settings = _settings()
    own = for_session(settings, "sql-1", "committed")
    assert own.stream_group == settings.stream_group
    assert own.stream.start == "committed"
    assert java_properties(own)["commit.offsets.on.checkpoint"] == "false"


def test_transactions_are_the_sessions_own() -> None:
    job = {
        "name": "orders-enrich",
        "delivery": "exactly-once",
        "transactional_id_prefix": "orders-tx",
    }
    own = for_session(_settings(job=job), "sql-1", None)
    assert own.job.transactional_id_prefix == "orders-tx.sql-1"
    assert for_session(_settings(), "sql-1", None).job.transactional_id_prefix == ""


def test_what_is_secret_stays_so() -> None:
    properties = {"ssl.key.password": "pw", "security.protocol": "SSL"}
    kafka = {"bootstrap_servers": "localhost:1", "properties": properties}
    own = for_session(_settings(kafka=kafka), "sql-1", None)
    assert own.kafka.properties.shown("ssl.key.password") is MASK
    assert own.kafka.properties.secret_values() == {"pw"}
    assert own.kafka.properties.shown("security.protocol") == "SSL"


def test_grace_and_retries_are_the_jobs_and_a_note_says_so() -> None:
    settings = _settings()
    own = for_session(settings, "sql-1", None)
    assert (own.miss.grace_ms, own.miss.retry_after) == (0, "")
    assert any("miss.grace_ms" in note for note in notes(settings, None))
    quiet = _settings(miss={"grace_ms": 0, "retry_after": ""})
    assert not any("miss.grace_ms" in note for note in notes(quiet, None))


def test_where_the_job_looks_rows_up_is_nothing_to_a_session() -> None:
    own = for_session(_settings(join={"lookup_state": "broadcast"}), "sql-1", None)
    assert own.join.lookup_state == "keyed"


def test_other_settings_that_sql_cannot_keep_are_refused() -> None:
    output = {"enriched": "e", "retry": "r", "dead": "d", "on_miss": "hold"}
    settings = _settings(output=output)
    with pytest.raises(ConfigErrors, match=r"output\.on_miss"):
        for_session(settings, "sql-1", None)


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (None, "orders from its end on"),
        ("earliest", "orders from its beginning"),
        ("committed", "orders from where the job's group orders-enrich stands"),
    ],
)
def test_a_session_says_where_it_reads_from(start: str | None, says: str) -> None:
    stream = {"topic": "orders", "key": {"from": "key"}, "start": "latest"}
    assert any(says in note for note in notes(_settings(stream=stream), start))


def test_outputs_can_be_read_and_the_stream_is_read_as_it_is() -> None:
    known = {"DEAD_OPTIONS": "'a' = 'b'", "STREAM_OPTIONS": "'c' = 'd'", "STREAM_TOPIC": "orders"}
    found = for_reading(known)
    assert found["DEAD_OPTIONS"].startswith("'a' = 'b', 'scan.startup.mode' = 'earliest-offset'")
    assert {k: found[k] for k in ("STREAM_OPTIONS", "STREAM_TOPIC")} == {
        "STREAM_OPTIONS": "'c' = 'd'",
        "STREAM_TOPIC": "orders",
    }
