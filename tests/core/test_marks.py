"""Watermarks of the SQL variant: they tell what a miss means, and promise no more than is known."""

from __future__ import annotations

import random

import pytest

from udfs.core.gate import CLOSED_MS, OPENED_SHORT_MS
from udfs.core.hold import Consistency
from udfs.core.marks import STARTUP_MOMENT_MS, STEP, Known, Marks

_NOW = 1_700_000_000_000
_LAG = 60_000


def _told(mark: int) -> Known:
    return Known(mark % STEP)


def test_a_shut_gate_lets_nothing_through() -> None:
    marks = Marks(Consistency.STARTUP, _LAG)
    assert [marks.after(CLOSED_MS, _NOW + n) for n in range(3)] == [CLOSED_MS] * 3


@pytest.mark.parametrize(
    ("answer", "known"), [(_NOW, Known.LOADED), (OPENED_SHORT_MS, Known.SHORT)]
)
def test_an_opening_is_announced_before_it_releases_events(answer: int, known: Known) -> None:
    marks = Marks(Consistency.STARTUP, _LAG)
    announced, released = marks.after(answer, _NOW), marks.after(answer, _NOW)
    assert 50 < announced < STARTUP_MOMENT_MS <= released
    assert _told(announced) is _told(released) is known


def test_in_startup_mode_events_go_on_while_the_table_lags() -> None:
    marks = Marks(Consistency.STARTUP, _LAG)
    marks.after(_NOW, _NOW)
    fresh = marks.after(_NOW, _NOW + _LAG)
    late = [marks.after(CLOSED_MS, _NOW + _LAG + n) for n in (1, 2, 3)]
    assert _told(fresh) is Known.LOADED
    assert fresh < late[0] < late[1] < late[2]
    assert {_told(mark) for mark in late} == {Known.STALE}


def test_a_load_that_took_hours_is_no_lag() -> None:
    marks = Marks(Consistency.STARTUP, _LAG)
    hours_ms = 8 * 3_600_000
    assert _told(marks.after(_NOW, _NOW + hours_ms)) is Known.LOADED
    assert _told(marks.after(_NOW, _NOW + hours_ms + _LAG)) is Known.LOADED
    assert _told(marks.after(_NOW, _NOW + hours_ms + _LAG + 1)) is Known.STALE


def test_a_table_that_is_loaded_after_all_is_announced_too() -> None:
    marks = Marks(Consistency.STARTUP, _LAG)
    short = [marks.after(OPENED_SHORT_MS, _NOW + n) for n in range(3)][-1]
    announced, released = (marks.after(_NOW + 9, _NOW + 9) for _ in range(2))
    assert short < announced <= short + STEP
    assert announced < released
    assert _told(announced) is _told(released) is Known.LOADED


def test_in_continuous_mode_no_mark_is_beyond_what_is_complete() -> None:
    random.seed(6)
    marks, until, now, last = Marks(Consistency.CONTINUOUS, 500), CLOSED_MS, _NOW, CLOSED_MS
    told = set()
    for _ in range(20_000):
        now += random.choice([0, 1, 20, 700])
        if random.random() < 0.5:
            until = max(until, now - random.choice([0, 1, 3, 400, 900]))
        mark = marks.after(random.choice([until, CLOSED_MS]), now)
        assert last <= mark <= until
        last = mark
        told.add(_told(mark) if mark > CLOSED_MS else None)
    assert told >= {Known.LOADED, Known.STALE}


def test_in_continuous_mode_a_mark_is_at_most_a_few_milliseconds_behind() -> None:
    marks = Marks(Consistency.CONTINUOUS, _LAG)
    marks.after(_NOW, _NOW)
    assert marks.after(_NOW + 100, _NOW + 100) >= _NOW + 100 - 3 * STEP


def test_in_startup_mode_marks_never_stand_still_nor_go_back() -> None:
    random.seed(7)
    marks, now, last = Marks(Consistency.STARTUP, 500), _NOW, CLOSED_MS
    for _ in range(5_000):
        now += random.choice([-300, 0, 1, 20, 600])
        mark = marks.after(random.choice([now - 100, CLOSED_MS]), now)
        assert mark > last or mark == CLOSED_MS
        last = mark
