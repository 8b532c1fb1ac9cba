"""Fixtures of the tests of functions, which run without a JVM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.functions import joins
from tests.support.clock import Clock
from tests.support.keyed_harness import HarnessSubtask
from udfs.join_rules import Lookup


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The workers' clock, in the test's hands."""
    clock = Clock()
    monkeypatch.setattr("udfs.clock.now_ms", clock)
    return clock


@pytest.fixture(scope="module", params=list(Lookup))
def lookup(request: pytest.FixtureRequest) -> Iterator[Lookup]:
    """Each test of the module runs for both ways to look rows up: ``joins.join`` makes the join."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("udfs.subtask.look_around", HarnessSubtask)
        patch.setattr(joins, "LOOKUP", request.param)
        yield request.param
