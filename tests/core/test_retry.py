"""The tiers: what a text says, and which attempt waits how long."""

from __future__ import annotations

import pytest

from udfs.core.retry import RetryPlan, due_of, parse_delays

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "delays"),
    [
        ("10 s, 5 min, 1 h", (10_000, 300_000, 3_600_000)),
        ("100ms", (100,)),
        (" 1 d , 30 d ", (86_400_000, 2_592_000_000)),
        ("5 s, 5 s", (5_000, 5_000)),
        ("", ()),
        (" , ", ()),
    ],
)
def test_delays_are_read_as_they_are_written(text: str, delays: tuple[int, ...]) -> None:
    assert parse_delays(text) == delays


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("10", "'10' is no delay"),
        ("ten s", "'ten s' is no delay"),
        ("1 week", "'1 week' is no delay"),
        ("-1 s", "'-1 s' is no delay"),
        ("0 s", "'0 s' is out of range"),
        ("31 d", "'31 d' is out of range"),
        ("1 h, 5 min", "'5 min' is shorter than the delay before it"),
    ],
)
def test_and_what_is_none_is_named(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_delays(text)


def test_each_attempt_waits_longer_and_the_last_one_ends_it() -> None:
    plan = RetryPlan((10, 300, 3_600))
    waits = []
    headers: dict[str, bytes] | None = None
    while not plan.exhausted(headers):
        due_ms = plan.due_ms(headers, NOW_MS)
        assert due_ms is not None
        waits.append(due_ms - NOW_MS)
        headers = {"tablegate-attempt": str(len(waits)).encode()}
    assert waits == [10, 300, 3_600]


def test_without_tiers_nothing_is_due_and_nothing_ends() -> None:
    headers = {"tablegate-attempt": b"99"}
    assert not RetryPlan().exhausted(headers)
    assert RetryPlan().due_ms(headers, NOW_MS) is None


@pytest.mark.parametrize(
    ("text", "due_ms"), [(b"1700000000000", NOW_MS), (b"soon", 0), (b"-1", 0), (b"9" * 19, 0)]
)
def test_a_record_that_does_not_say_when_is_due_at_once(text: bytes, due_ms: int) -> None:
    assert due_of({"tablegate-due": text}) == due_ms
    assert due_of(None) == 0
