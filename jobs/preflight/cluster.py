"""Reads the facts of the brokers that the job relies on."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType, TopicDescription

from jobs.clients import translate
from jobs.preflight.admin import TIMEOUT_S, Admin
from jobs.preflight.facts import ClusterFacts, Refusal, TopicFacts, judge, refuse
from jobs.settings import TOPIC_KEYS, Settings, topics
from udfs.targets import topic_id_text

_FORBIDDEN = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)

_UNKNOWN = KafkaError.UNKNOWN_TOPIC_OR_PART
_SETTLE_S = 3.0


def inspect(settings: Settings) -> ClusterFacts:
    """What the brokers say about the job's topics and themselves, judged; print ``warnings``.

    Raises:
        PreflightError: brokers that do not answer or let us in, missing topics, a compacted retry
            topic, a transaction timeout above the brokers' limit, ...
        ConfigError: a property that librdkafka does not know.
    """
    with Admin(settings) as admin:
        facts = _read(admin, settings)
    kafka = settings.kafka
    notes = translate(kafka.properties.plain(), kafka.librdkafka.plain()).notes
    return judge(settings, facts, notes)


def _read(admin: Admin, settings: Settings) -> ClusterFacts:
    cluster = admin.answer(
        admin.client.describe_cluster(request_timeout=TIMEOUT_S), "the cluster's description"
    )
    by_key = topics(settings)
    descriptions = _describe(admin, settings, by_key)
    configs = _topic_configs(admin, by_key.values())
    found = {key: _topic_facts(descriptions[name], configs[name]) for key, name in by_key.items()}
    stream, table, enriched, retry, dead = (found.pop(key) for key in TOPIC_KEYS)
    stats = found.pop("stats.topic", None)
    return ClusterFacts(
        cluster_id=cluster.cluster_id,
        stream=stream,
        table=table,
        enriched=enriched,
        retry=retry,
        dead=dead,
        transaction_max_timeout_ms=_transaction_limit(admin, settings, cluster.nodes),
        also=tuple(found.values()),
        stats=stats,
    )


# ----------------------------------------------------------------------------------------- topics


def _describe(
    admin: Admin, settings: Settings, by_key: Mapping[str, str]
) -> dict[str, TopicDescription]:
    def ask() -> Mapping[str, Future[Any]]:
        names = TopicCollection(list(by_key.values()))
        return admin.client.describe_topics(names, request_timeout=TIMEOUT_S)

    found, errors = _settled(admin, ask, "the topics")
    refusals = []
    for key, name in by_key.items():
        if name not in errors:
            continue
        error = errors[name]
        if error.code() == _UNKNOWN:
            command = _create_command(settings, key, name, found)
            refusals.append(
                Refusal(f"{key}: topic {name} does not exist.", f"Create it: {command}")
            )
        else:
            refusals.append(_unreadable(admin, f"{key}: topic {name}", error, "DESCRIBE"))
    refuse(refusals)
    return found


def _create_command(
    settings: Settings, key: str, name: str, found: Mapping[str, TopicDescription]
) -> str:
    command = [
        "kafka-topics.sh",
        "--create",
        "--bootstrap-server",
        settings.kafka.bootstrap_servers,
        "--topic",
        name,
    ]
    if "security.protocol" in settings.kafka.properties:
        command += ["--command-config", "client.properties"]
    stream = found.get(settings.stream.topic)
    if key.startswith("output.") and stream is not None:
        # As many as the events come from, so that writing is spread as wide as reading.
        command += ["--partitions", str(len(stream.partitions))]
    policy = "compact" if key == "table.topic" else "delete"
    return shlex.join([*command, "--config", f"cleanup.policy={policy}"])


def _topic_configs(admin: Admin, names: Collection[str]) -> dict[str, Mapping[str, str]]:
    def ask() -> Mapping[str, Future[Any]]:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        questions = admin.client.describe_configs(resources, request_timeout=TIMEOUT_S)
        return {resource.name: question for resource, question in questions.items()}

    found, errors = _settled(admin, ask, "the topics' configuration")
    refuse(
        _unreadable(admin, f"the configuration of topic {name}", error, "DESCRIBE_CONFIGS")
        for name, error in errors.items()
    )
    return {
        topic: {name: entry.value for name, entry in entries.items()}
        for topic, entries in found.items()
    }


def _settled(
    admin: Admin, ask: Callable[[], Mapping[str, Future[Any]]], what: str
) -> tuple[dict[str, Any], dict[str, KafkaError]]:
    """Answers and errors by topic.

    A topic that was created a moment ago is known to the controller and not yet to every broker,
    so that "unknown" is believed only when it is still said after ``_SETTLE_S``.
    """
    deadline = time.monotonic() + _SETTLE_S
    while True:
        found: dict[str, Any] = {}
        errors: dict[str, KafkaError] = {}
        for name, question in ask().items():
            answer, error = _ask(admin, question, what)
            if error is None:
                found[name] = answer
            else:
                errors[name] = error
        unknown = any(error.code() == _UNKNOWN for error in errors.values())
        if not unknown or time.monotonic() > deadline:
            return found, errors
        admin.client.poll(0.1)


def _topic_facts(topic: TopicDescription, config: Mapping[str, str]) -> TopicFacts:
    return TopicFacts(
        name=topic.name,
        topic_id=topic_id_text(topic.topic_id),
        partitions=len(topic.partitions),
        replicas=min(len(partition.replicas) for partition in topic.partitions),
        leaderless=tuple(p.id for p in topic.partitions if p.leader is None or p.leader.id < 0),
        cleanup_policy=frozenset(part.strip() for part in config["cleanup.policy"].split(",")),
        retention_ms=int(config["retention.ms"]),
        delete_retention_ms=int(config["delete.retention.ms"]),
        min_insync_replicas=int(config["min.insync.replicas"]),
        timestamp_type=config["message.timestamp.type"],
        max_message_bytes=int(config["max.message.bytes"]),
    )


# ---------------------------------------------------------------------------------------- brokers


def _transaction_limit(admin: Admin, settings: Settings, nodes: Any) -> int | None:
    """The lowest ``transaction.max.timeout.ms`` of the brokers, in milliseconds."""
    # The client takes one broker a call, since each answers for itself.
    questions = [
        question
        for node in nodes
        for question in admin.client.describe_configs(
            [ConfigResource(ResourceType.BROKER, str(node.id))], request_timeout=TIMEOUT_S
        ).values()
    ]
    limits = []
    for question in questions:
        what = "the brokers' configuration"
        answer, error = _ask(admin, question, what)
        if error is None:
            limits.append(int(answer["transaction.max.timeout.ms"].value))
        elif settings.job.exactly_once:
            refuse([_unreadable(admin, what, error, "DESCRIBE_CONFIGS")])
        else:
            # Hosted clusters rarely let users read it, and without transactions nobody needs it.
            return None
    return min(limits)


def _ask(admin: Admin, question: Future[Any], what: str) -> tuple[Any, KafkaError | None]:
    try:
        return admin.answer(question, what), None
    except KafkaException as error:
        return None, error.args[0]


def _unreadable(admin: Admin, what: str, error: KafkaError, right: str) -> Refusal:
    reason = admin.scrub(error.str())
    if error.code() in _FORBIDDEN:
        return Refusal(f"{what} may not be read by this user ({reason}).", f"Grant {right} on it.")
    return Refusal(f"{what} cannot be read ({reason}).", "Look into the brokers' log.")
