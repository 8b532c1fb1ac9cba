"""No secret in what the shell shows, in what it remembers, or in the names of its jobs."""

from __future__ import annotations

import pytest

from jobs.settings import Settings, from_mapping
from jobs.sql.masking import Masks, mask_options

_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="u" password="s3\'cret";'
)


def _settings(**properties: str) -> Settings:
    return from_mapping(
        {
            "job": {"name": "orders"},
            "kafka": {"bootstrap_servers": "localhost:1", "properties": properties},
            "stream": {"topic": "orders", "key": {"from": "key"}},
            "table": {"topic": "customers", "fields": {"tier": "tier"}},
            "output": {"enriched": "e", "retry": "r", "dead": "d"},
        }
    )


@pytest.mark.parametrize(
    "text",
    [
        f"failed with {_JAAS}",
        # As an option list, as SHOW CREATE TABLE and as JSON write it.
        "'sasl' = '" + _JAAS.replace("'", "''") + "'",
        '{"jaas": "' + _JAAS.replace('"', '\\"') + '"}',
        "Invalid password s3'cret of user u",
    ],
)
def test_the_settings_secrets_are_masked_however_they_are_written(text: str) -> None:
    masks = Masks.of(
        _settings(
            **{
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": _JAAS,
            }
        )
    )
    assert "cret" not in masks(text)
    assert "***" in masks(text)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (
            "WITH ('connector' = 'kafka', 'properties.ssl.key.password'='pw')",
            "WITH ('connector' = 'kafka', 'properties.ssl.key.password'='***')",
        ),
        ("SET 'a.secret' = 'it''s'", "SET 'a.secret' = '***'"),
        ("'properties.sasl.mechanism' = 'PLAIN'", "'properties.sasl.mechanism' = 'PLAIN'"),
        ("WHERE name = 'password'", "WHERE name = 'password'"),
    ],
)
def test_options_of_a_secret_name_are_masked(text: str, masked: str) -> None:
    assert mask_options(text) == masked
    assert Masks([])(text) == masked


def test_without_secrets_nothing_changes() -> None:
    masks = Masks.of(_settings())
    assert masks("SELECT '' FROM orders") == "SELECT '' FROM orders"
