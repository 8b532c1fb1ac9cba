"""Topics that the tables of somebody's SQL files name."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.settings import Settings, from_mapping
from jobs.sql import topics
from jobs.sql.files import SqlError, Statement, of_text
from tests.core.test_settings import MINIMAL, changed
from udfs.core.errors import PreflightError

OURS = "'properties.bootstrap.servers' = 'localhost:9092'"


def statements(text: str) -> list[Statement]:
    return of_text(Path("tables/90_mine.sql"), text, {})


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    made = from_mapping(MINIMAL)
    monkeypatch.setattr(topics, "_there", lambda _settings: {"totals", "it's"})
    return made


def table(topic: str, brokers: str = OURS, connector: str = "upsert-kafka") -> str:
    return (
        f"CREATE TEMPORARY TABLE t (k STRING)\nWITH ('connector' = '{connector}',\n"
        f"'topic' = '{topic}', {brokers});"
    )


def test_a_topic_that_nobody_made_is_told_with_file_and_line(settings: Settings) -> None:
    with pytest.raises(SqlError, match=r"90_mine.sql:3: there is no topic totels at localhost"):
        topics.require_topics(settings, statements(table("totels")))


@pytest.mark.parametrize("topic", ["totals", "it''s", "totals;it''s"])
def test_topics_that_are_there_are_taken(settings: Settings, topic: str) -> None:
    topics.require_topics(settings, statements(table(topic, connector="kafka")))


@pytest.mark.parametrize(
    "text",
    [
        table("elsewhere", brokers="'properties.bootstrap.servers' = 'other:9092'"),
        table("no_topic_at_all", connector="filesystem"),
        "CREATE TEMPORARY VIEW v AS SELECT 'topic';",
    ],
)
def test_what_is_no_topic_on_these_brokers_is_not_asked_for(settings: Settings, text: str) -> None:
    topics.require_topics(settings, statements(text))


def test_topics_that_are_read_as_logs_are_named_with_their_keys_when_they_are_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = from_mapping(changed({"output/also": {"board": "emit_null"}}))
    known = {settings.stream.topic, settings.table.topic, settings.output.enriched}
    monkeypatch.setattr(topics, "_there", lambda _settings: known | {settings.output.dead})
    with pytest.raises(PreflightError) as caught:
        topics.require_logs(settings)
    told = (
        "output.retry: topic orders.retry; output.also.board: topic board: not there at localhost"
    )
    assert told in str(caught.value)


def test_the_topics_of_the_settings_need_no_question(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "_there", lambda _settings: pytest.fail("asked"))
    known = (settings.stream.topic, settings.table.topic, settings.output.retry)
    topics.require_topics(settings, statements(table(";".join(known))))
