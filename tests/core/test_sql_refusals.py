"""Settings that the SQL variant would not keep are refused by name, before anything is asked."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.settings import ConfigErrors, Settings, from_mapping
from jobs.sql.refusals import refuse
from tests.core.test_settings import changed

_KEPT: dict[str, Any] = {"miss": {"grace_ms": 0, "retry_after": ""}}


def _settings(changes: dict[str, Any]) -> Settings:
    return from_mapping(changed(_KEPT | changes), {})


def test_what_it_keeps_it_takes() -> None:
    refuse(_settings({}))
    refuse(_settings({"output/on_miss": "emit_null", "stats": {"topic": "orders.stats"}}))
    refuse(_settings({"gate/consistency": "continuous", "gate/tick_interval_ms": 100}))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"miss": {"grace_ms": 5_000, "retry_after": ""}}, "miss.grace_ms"),
        ({"miss": {"grace_ms": 0, "retry_after": "10 s"}}, "miss.retry_after"),
        ({"output/on_miss": "hold"}, "output.on_miss"),
        ({"output/also": {"orders.live": "route"}}, "output.also"),
        ({"join": {"lookup_state": "broadcast"}}, "join.lookup_state"),
    ],
)
def test_what_it_does_not_keep_it_refuses(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        refuse(_settings(changes))
    assert [problem.key for problem in caught.value.problems] == [key]


def test_the_defaults_say_everything_that_has_to_change_at_once() -> None:
    with pytest.raises(ConfigErrors) as caught:
        refuse(from_mapping(changed({}), {}))
    assert [p.key for p in caught.value.problems] == ["miss.grace_ms", "miss.retry_after"]
    assert "--set miss.grace_ms=0" in str(caught.value)
