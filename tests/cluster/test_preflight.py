"""The questions before submission, put to real brokers, with and without security."""

import logging
import pickle
import shlex
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jobs.clients import java_properties
from jobs.preflight import inspect
from jobs.settings import Settings, from_mapping
from ops.stack.ports import free_ports
from tests.support.kafka import Kafka, unique
from tests.support.secured import (
    KEY_PASSWORD,
    PASSWORD,
    USER,
    SecuredKafka,
    java_can_describe,
    secured_kafka,
)
from udfs.core.errors import PreflightError

COMPACT = {"cleanup.policy": "compact"}


@dataclass
class Topics:
    stream: str
    table: str
    enriched: str
    retry: str
    dead: str


def create(kafka: Kafka, **configs: dict[str, str]) -> Topics:
    configs.setdefault("table", COMPACT)
    partitions = {"stream": 3, "table": 2}
    return Topics(
        **{
            role: kafka.create_topic(role, partitions.get(role, 1), configs.get(role))
            for role in ("stream", "table", "enriched", "retry", "dead")
        }
    )


def settings(
    topics: Topics, brokers: str, properties: dict[str, str] | None = None, **job: Any
) -> Settings:
    return from_mapping(
        {
            "job": {"name": "preflight", **job},
            "kafka": {"bootstrap_servers": brokers, "properties": properties or {}},
            "stream": {"topic": topics.stream, "key": {"from": "key"}},
            "table": {"topic": topics.table, "fields": {"tier": "tier"}},
            "output": {
                "enriched": topics.enriched,
                "retry": topics.retry,
                "dead": topics.dead,
            },
        },
        {"PASSWORD": PASSWORD},
    )


def missing() -> Topics:
    return Topics(*(unique(role) for role in ("stream", "table", "enriched", "retry", "dead")))


# ------------------------------------------------------------------------------ without security


def test_the_facts_are_those_that_the_brokers_hold(kafka: Kafka) -> None:
    topics = create(kafka, table={**COMPACT, "delete.retention.ms": "12345"})
    facts = inspect(settings(topics, kafka.bootstrap_servers))
    assert not facts.warnings
    assert facts.cluster_id == str(kafka.admin.list_topics(timeout=10).cluster_id)
    assert (facts.stream.name, facts.stream.partitions) == (topics.stream, 3)
    assert (facts.table.name, facts.table.partitions) == (topics.table, 2)
    assert facts.table.cleanup_policy == {"compact"}
    assert facts.table.delete_retention_ms == 12_345
    assert facts.retry.cleanup_policy == {"delete"}
    assert facts.retry.min_insync_replicas == 1
    assert facts.transaction_max_timeout_ms == 900_000
    assert len({topic.topic_id for topic in (facts.stream, facts.table, *facts.outputs)}) == 5


def test_a_topic_that_is_created_anew_has_another_id(kafka: Kafka) -> None:
    topics = create(kafka)
    before = inspect(settings(topics, kafka.bootstrap_servers))
    kafka.delete_topic(topics.table)
    kafka.create_exactly(topics.table, 2, COMPACT)
    after = inspect(settings(topics, kafka.bootstrap_servers))
    assert before.table.topic_id != after.table.topic_id
    assert before.stream.topic_id == after.stream.topic_id


def test_each_missing_topic_is_named_with_the_command_that_creates_it(kafka: Kafka) -> None:
    topics = create(kafka)
    gone = missing()
    topics.table, topics.dead = gone.table, gone.dead
    with pytest.raises(PreflightError) as caught:
        inspect(settings(topics, kafka.bootstrap_servers))
    text = str(caught.value)
    assert f"table.topic: topic {gone.table} does not exist" in text
    assert f"output.dead: topic {gone.dead} does not exist" in text
    assert topics.stream not in text
    (table, dead) = [
        shlex.split(line.partition("Create it: ")[2])
        for line in text.splitlines()
        if "Create it" in line
    ]
    assert table[-1] == "cleanup.policy=compact"
    assert dead[-1] == "cleanup.policy=delete"
    # As many as the stream has.
    assert dead[dead.index("--partitions") + 1] == "3"


def test_further_outputs_and_the_stats_topic_are_looked_at_too(kafka: Kafka) -> None:
    topics, live, stats = create(kafka), unique("live"), unique("stats")
    more = settings(topics, kafka.bootstrap_servers).model_dump(by_alias=True, exclude_unset=True)
    more["output"]["also"], more["stats"] = {live: "emit_null"}, {"topic": stats}
    with pytest.raises(PreflightError) as caught:
        inspect(from_mapping(more))
    assert f"output.also.{live}: topic {live} does not exist" in str(caught.value)
    assert f"stats.topic: topic {stats} does not exist" in str(caught.value)
    kafka.create_exactly(live, 1, {"message.timestamp.type": "LogAppendTime"})
    kafka.create_exactly(stats, 1, {"min.insync.replicas": "2", **COMPACT})
    with pytest.raises(PreflightError, match=rf"Topic {stats} has min\.insync\.replicas=2"):
        inspect(from_mapping(more))
    kafka.delete_topic(stats)
    kafka.create_exactly(stats, 1, COMPACT)
    facts = inspect(from_mapping(more))
    assert ([topic.name for topic in facts.also], facts.stats and facts.stats.name) == (
        [live],
        stats,
    )
    # Of the newest record of each window nothing is lost by compaction.
    (warning,) = facts.warnings
    assert f"output topic {live} has message.timestamp.type=LogAppendTime" in warning


def test_a_compacted_retry_topic_is_refused(kafka: Kafka) -> None:
    topics = create(kafka, retry={"cleanup.policy": "compact,delete"})
    with pytest.raises(
        PreflightError, match=f"topic {topics.retry} has cleanup.policy=compact,del"
    ):
        inspect(settings(topics, kafka.bootstrap_servers))


def test_doubtful_policies_are_warnings(kafka: Kafka) -> None:
    topics = create(
        kafka,
        stream=COMPACT,
        table={"cleanup.policy": "delete", "retention.ms": "777"},
        enriched=COMPACT | {"message.timestamp.type": "LogAppendTime"},
        retry={"retention.ms": "3599999"},
    )
    table, stream, enriched, times, retry = inspect(
        settings(topics, kafka.bootstrap_servers)
    ).warnings
    assert f"table topic {topics.table} is not compacted" in table
    assert "retention.ms=777" in table
    assert f"stream topic {topics.stream} is compacted" in stream
    assert f"output topic {topics.enriched} is compacted" in enriched
    assert f"{topics.enriched} has message.timestamp.type=LogAppendTime" in times
    assert f"retry topic {topics.retry} has retention.ms=3599999" in retry


def test_an_output_with_too_few_replicas_is_refused(kafka: Kafka) -> None:
    topics = create(kafka, dead={"min.insync.replicas": "2"})
    with pytest.raises(PreflightError, match=r"min\.insync\.replicas=2 but 1 replicas"):
        inspect(settings(topics, kafka.bootstrap_servers))


def test_exactly_once_is_checked_against_the_brokers_limit(kafka: Kafka) -> None:
    topics, brokers = create(kafka), kafka.bootstrap_servers
    exactly_once: dict[str, Any] = {"delivery": "exactly-once", "transactional_id_prefix": "x"}
    assert inspect(settings(topics, brokers, **exactly_once)).warnings == ()
    with pytest.raises(PreflightError, match=r"is 900001, and the brokers allow at most 900000"):
        inspect(settings(topics, brokers, **exactly_once, transaction_timeout_ms=900_001))


def test_brokers_that_are_away_are_named_in_time_and_quietly(
    capfd: pytest.CaptureFixture[str],
) -> None:
    (port,) = free_ports(1)
    started = time.monotonic()
    with pytest.raises(PreflightError, match=f"127.0.0.1:{port} did not answer within 10 s.*refus"):
        inspect(settings(missing(), f"127.0.0.1:{port}"))
    assert time.monotonic() - started < 15
    assert capfd.readouterr() == ("", "")


# --------------------------------------------------------------------------------- with security


@pytest.fixture(scope="module")
def secured(stack_folder: Path) -> Iterator[SecuredKafka]:
    with secured_kafka(stack_folder / "secured") as running:
        yield running


def login(mechanism: str, password: str) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": (
            f"org.apache.kafka.common.security.{module} required "
            f'username="{USER}" password="{password}";'
        ),
    }


def certificate(secured: SecuredKafka, how: str) -> dict[str, str]:
    files = secured.certificates
    trust = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files / "ca.pem"),
    }
    if how == "PEM":
        return trust | {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(files / "client.pem"),
            "ssl.key.password": KEY_PASSWORD,
        }
    if how == "PKCS12":
        return trust | {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(files / "client.p12"),
            "ssl.keystore.password": KEY_PASSWORD,
        }
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": (files / "ca.pem").read_text(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": (files / "client.enc").read_text(),
        "ssl.keystore.certificate.chain": (files / "client.crt").read_text(),
        "ssl.key.password": KEY_PASSWORD,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_one_login_serves_both_clients(
    secured: SecuredKafka, tmp_path: Path, mechanism: str
) -> None:
    topics = create(secured.plain)
    chosen = settings(topics, secured.sasl, login(mechanism, "${env:PASSWORD}"))
    assert inspect(chosen).table.partitions == 2
    told = java_can_describe(topics.table, java_properties(chosen), tmp_path)
    assert "cleanup.policy=compact" in told


@pytest.mark.parametrize("how", ["PEM", "PKCS12", "inline"])
def test_one_certificate_serves_both_clients(
    secured: SecuredKafka, tmp_path: Path, how: str
) -> None:
    topics = create(secured.plain)
    chosen = settings(topics, secured.tls, certificate(secured, how))
    assert inspect(chosen).table.partitions == 2
    if how != "inline":
        # A properties file cannot hold line breaks; Flink hands its properties over as a map.
        told = java_can_describe(topics.table, java_properties(chosen), tmp_path)
        assert "cleanup.policy=compact" in told


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_told_at_once_and_never_printed(
    secured: SecuredKafka,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    mechanism: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    # No literal below: a traceback quotes the lines of the test.
    wrong = unique("wrong")
    started = time.monotonic()
    with pytest.raises(PreflightError, match=r"refuse the connection.*Authentication failed") as e:
        inspect(settings(missing(), secured.sasl, login(mechanism, wrong)))
    assert time.monotonic() - started < 5
    printed = "".join(traceback.format_exception(e.value)) + caplog.text + repr(e.value)
    assert wrong not in printed + str(pickle.dumps(e.value))
    assert secured.sasl in str(e.value)
    assert capfd.readouterr() == ("", "")


def test_a_client_without_certificate_or_trust_is_refused(secured: SecuredKafka) -> None:
    only_protocol = {"security.protocol": "SSL"}
    with pytest.raises(PreflightError, match=r"certificate verify failed.*sasl\.\* and ssl\.\*"):
        inspect(settings(missing(), secured.tls, only_protocol))


def test_a_listener_that_wants_a_login_is_named_when_none_is_given(secured: SecuredKafka) -> None:
    with pytest.raises(PreflightError, match=r"did not answer.*closed by peer.*security\.protocol"):
        inspect(settings(missing(), secured.sasl))


def test_asking_for_a_missing_topic_does_not_create_it(secured: SecuredKafka) -> None:
    # This broker creates topics on demand, as brokers do by default.
    gone = missing()
    with pytest.raises(PreflightError, match="does not exist"):
        inspect(settings(gone, secured.plain.bootstrap_servers))
    assert not set(vars(gone).values()) & set(secured.plain.admin.list_topics(timeout=10).topics)


def test_the_limit_is_this_brokers_own_and_not_kafkas_default(secured: SecuredKafka) -> None:
    topics = create(secured.plain)
    with pytest.raises(PreflightError, match="at most 60000"):
        inspect(
            settings(
                topics,
                secured.plain.bootstrap_servers,
                delivery="exactly-once",
                transactional_id_prefix="x",
            )
        )
