"""Which records of the retry topic a reload has to bring along."""

from __future__ import annotations

import pytest

from jobs.settings import MissSettings, OutputSettings, Settings, from_mapping
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
