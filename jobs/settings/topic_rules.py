"""Rules for topics: their names, that no two are the same, and what the outputs get at a miss."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from udfs.core.errors import ConfigError
from udfs.core.misses import OnMiss

if TYPE_CHECKING:
    from jobs.settings.model import Settings

# Kafka's own rule: org.apache.kafka.common.internals.Topic.validate.
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
_TOPIC_MAX_LENGTH = 249

TOPIC_KEYS = ("stream.topic", "table.topic", "output.enriched", "output.retry", "output.dead")
"""The topics that every job has."""


def topic_name(name: str) -> str:
    """The name itself. Raises ValueError when Kafka would not take it."""
    if name in {"", ".", ".."}:
        raise ValueError('give a topic name; Kafka allows none of "", "." and ".."')
    if len(name) > _TOPIC_MAX_LENGTH:
        raise ValueError(f"Kafka allows {_TOPIC_MAX_LENGTH} characters, this has {len(name)}")
    if not _TOPIC.fullmatch(name):
        raise ValueError(
            "Kafka allows only ASCII letters, digits, '.', '_' and '-' in a topic name"
        )
    return name


def topics(settings: Settings) -> dict[str, str]:
    """The topics by the key that names them: TOPIC_KEYS first, then those of this job."""
    output = settings.output
    names = (
        settings.stream.topic,
        settings.table.topic,
        output.enriched,
        output.retry,
        output.dead,
    )
    return dict(zip(TOPIC_KEYS, names, strict=True)) | _further(settings)


def _further(settings: Settings) -> dict[str, str]:
    further = {f"output.also.{topic}": topic for topic in settings.output.also}
    if settings.stats.topic:
        further["stats.topic"] = settings.stats.topic
    return further


def distinct(keys: tuple[str, str], settings: Settings) -> Iterator[ConfigError]:
    """The two keys name different topics."""
    first, second = keys
    names = topics(settings)
    if names[first] == names[second]:
        yield ConfigError(
            second, names[second], f"{first} is the same topic: give each its own topic"
        )
    # Kafka's metrics replace the dot, so it refuses to create the second of such a pair.
    elif names[first].replace(".", "_") == names[second].replace(".", "_"):
        yield ConfigError(
            second,
            names[second],
            f"{first} is {names[first]!r}, and Kafka refuses two topics that differ only in "
            "'.' and '_': rename one",
        )


def further_are_distinct(settings: Settings) -> Iterator[ConfigError]:
    """Each topic that only this job has differs from all before it."""
    keys = list(topics(settings))
    for second in _further(settings):
        for first in keys[: keys.index(second)]:
            yield from distinct((first, second), settings)


def on_miss(settings: Settings) -> Iterator[ConfigError]:
    """Each output says what it gets at a miss, and they do not exclude each other."""
    wishes: dict[str, str] = {"output.on_miss": settings.output.on_miss}
    for topic, how in settings.output.also.items():
        key = f"output.also.{topic}"
        try:
            topic_name(topic)
        except ValueError as error:
            yield ConfigError(key, how, f"the key is a topic: {error}")
        if how in set(OnMiss):
            wishes[key] = how
        else:
            given = ", ".join(f'"{known}"' for known in OnMiss)
            yield ConfigError(key, how, f"give one of {given}")
    holding = [key for key, how in wishes.items() if how == OnMiss.HOLD]
    routing = [key for key, how in wishes.items() if how == OnMiss.ROUTE]
    if holding and routing:
        yield ConfigError(
            holding[0],
            wishes[holding[0]],
            f'{routing[0]} is "route", and an event cannot wait in the job and go to the retry '
            'topic as well: give both the same, or one of them "emit_null"',
        )
