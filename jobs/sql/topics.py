"""Topics that nobody made: told before a job fails for them, or waits for them without a word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from confluent_kafka import KafkaException

from jobs.preflight.admin import TIMEOUT_S, Admin
from jobs.settings import Settings, topics
from jobs.sql.files import Statement, literal
from udfs.core.errors import PreflightError

_TABLE = re.compile(r"CREATE\s+TEMPORARY\s+TABLE\s", re.IGNORECASE)
_KAFKA = re.compile(r"'connector'\s*=\s*'(?:upsert-)?kafka'")
_TOPIC = re.compile(r"'topic'\s*=\s*'((?:[^']|'')*)'")
_BROKERS = re.compile(r"'properties\.bootstrap\.servers'\s*=\s*('(?:[^']|'')*')")


def require_topics(settings: Settings, statements: Iterable[Statement]) -> None:
    """See that the topics of Kafka tables on the job's own brokers exist.

    The brokers are asked only when a statement names a topic that is not one of the settings',
    which have been looked at before.

    Raises:
        SqlError: a topic does not exist.
        PreflightError: the brokers do not answer.
    """
    named = [
        (statement, topic) for statement in statements for topic in _named(settings, statement)
    ]
    if not named:
        return
    there = _there(settings)
    for statement, topic in named:
        if topic not in there:
            line = statement.text.count("\n", 0, statement.text.index(literal(topic)[1:-1])) + 1
            raise statement.error(
                f"there is no topic {topic} at {settings.kafka.bootstrap_servers}.",
                "Create it (compacted, for an upsert-kafka table), or correct its name; nothing "
                "was submitted.",
                line,
            )


def require_logs(settings: Settings) -> None:
    """See that the topics exist which are read as logs.

    Raises PreflightError: one does not, or the brokers do not answer.
    """
    there = _there(settings)
    read = {key: topic for key, topic in topics(settings).items() if key != "stats.topic"}
    missing = [f"{key}: topic {topic}" for key, topic in read.items() if topic not in there]
    if missing:
        raise PreflightError(
            f"{'; '.join(missing)}: not there at {settings.kafka.bootstrap_servers}.",
            "Correct the name, or grant DESCRIBE on it if it is there.",
        )


def _named(settings: Settings, statement: Statement) -> Iterator[str]:
    """Topics to ask for."""
    text = statement.text
    brokers = _BROKERS.search(text)
    if not (_TABLE.match(text) and _KAFKA.search(text) and brokers):
        return
    if brokers[1] != literal(settings.kafka.bootstrap_servers):
        return
    known = set(topics(settings).values())
    for option in _TOPIC.findall(text):
        # Of a source there may be several.
        for topic in option.replace("''", "'").split(";"):
            if topic.strip() and topic.strip() not in known:
                yield topic.strip()


def _there(settings: Settings) -> set[str]:
    with Admin(settings) as admin:
        try:
            return set(admin.client.list_topics(timeout=TIMEOUT_S).topics)
        except KafkaException:
            # Asked in the way that says what is wrong with the brokers.
            admin.answer(admin.client.describe_cluster(request_timeout=TIMEOUT_S), "their topics")
            raise
