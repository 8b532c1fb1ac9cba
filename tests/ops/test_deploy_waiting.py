"""Which records of the retry topic a reload has to bring along."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.settings import MissSettings, OutputSettings, Settings, from_mapping
from ops.deploy.engine import longest_grace_ms
from ops.deploy.journal import Version
from ops.deploy.offsets import retry_offsets
from ops.deploy.waiting import MARGIN_MS, still_waits
from tests.core.test_settings import MINIMAL
from tests.ops.test_deploy_savepoints import SPLITS, savepoint, state

_ASKED_MS = 1_000_000


@pytest.mark.parametrize(
    ("due", "waits"),
    [
        (_ASKED_MS - MARGIN_MS, False),
        # A busy task fires its timers late.
        (_ASKED_MS - MARGIN_MS + 1, True),
        (_ASKED_MS + 1, True),
        ("soon", False),
        (None, False),
    ],
)
def test_what_was_due_well_before_the_stop_was_let_through(due: object, waits: bool) -> None:
    headers = {"own": None, "tablegate-due": None if due is None else str(due).encode()}
    assert still_waits(headers, _ASKED_MS) is waits


def _settings(retry: str = "orders-1-00a94c", retry_after: str = "1 h") -> Settings:
    plain = from_mapping(MINIMAL)
    output = OutputSettings(enriched="e", retry=retry, dead="d")
    return plain.model_copy(
        update={"output": output, "miss": MissSettings(retry_after=retry_after)}
    )


def test_the_retry_topics_offsets_are_handed_over_when_both_versions_read_it() -> None:
    found = savepoint(state("retry-source", splits=SPLITS), state("stream-source"))
    assert retry_offsets(_settings(), _settings(), found) == {1: 502, 0: 498}
    for other in (_settings("another"), _settings(retry_after="")):
        assert retry_offsets(_settings(), other, found) == {}
        assert retry_offsets(other, _settings(), found) == {}


def _version(number: int, grace_ms: int, on_miss: str = "route", brokers: str = "a:1") -> Version:
    tables = MINIMAL | {"kafka": {"bootstrap_servers": brokers}, "miss": {"grace_ms": grace_ms}}
    tables["output"] = MINIMAL["output"] | {"on_miss": on_miss}
    settings = from_mapping(tables, {"BROKERS": "a:1"})
    config = settings.describe().replace("a:1", brokers)
    return Version(number, "orders", "upgrade", 1, config, package="p.zip", code="a")


@pytest.mark.parametrize(
    ("versions", "longest"),
    [
        ([(1, 0)], 0),
        ([(1, 5_000), (2, 0)], 5_000),
        # A later one, which is being started, has parked nothing.
        ([(1, 5_000), (3, 60_000)], 5_000),
        ([(1, 0, "hold"), (2, 0)], 600_000),
        ([(1, 0, "route", "${env:BROKERS}")], 600_000),
        ([], 600_000),
    ],
)
def test_restored_events_may_wait_for_as_long_as_any_version_before_let_them(
    versions: list[tuple[Any, ...]], longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BROKERS", raising=False)
    assert longest_grace_ms([_version(*version) for version in versions], 2) == longest
