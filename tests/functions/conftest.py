"""Fixtures of the tests of functions, which run without a JVM."""

from __future__ import annotations

import pytest

from tests.support.clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The workers' clock, in the test's hands."""
    clock = Clock()
    monkeypatch.setattr("udfs.clock.now_ms", clock)
    return clock
