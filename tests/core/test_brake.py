"""When the join slows the stream down, over a clock of the test's own."""

from __future__ import annotations

from udfs.brake import Brake


class Clock:
    """Time that passes only when somebody waits or says so; both in seconds."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


def held(brake: Brake, events: int) -> None:
    for _ in range(events):
        brake.held()


def test_up_to_the_slack_nothing_is_slowed_however_long_the_table_stands_still() -> None:
    clock = Clock()
    brake = Brake(10, clock, clock.sleep)
    clock.now_s = 3_600
    held(brake, 10)
    assert clock.slept == []


def test_beyond_the_slack_every_event_is_slowed_while_no_row_comes() -> None:
    clock = Clock()
    brake = Brake(10, clock, clock.sleep)
    clock.now_s = 3_600
    held(brake, 10 + 5_000)
    # Fifty a second: ten hours of a stalled table add two million events and not a billion.
    assert len(clock.slept) == 5_000
    assert 90 < clock.now_s - 3_600 < 110


def test_while_rows_come_nothing_is_slowed() -> None:
    clock = Clock()
    brake = Brake(10, clock, clock.sleep)
    for _ in range(1_000):
        clock.now_s += 0.5
        brake.row()
        held(brake, 10)
    assert clock.slept == []
    # The last row was a moment ago; a second later it is a table that stands still.
    clock.now_s += 0.5
    held(brake, 1)
    assert clock.slept == []
    clock.now_s += 0.6
    held(brake, 1)
    assert len(clock.slept) == 1


def test_a_row_lets_the_brake_go_at_once() -> None:
    clock = Clock()
    brake = Brake(0, clock, clock.sleep)
    clock.now_s = 60
    held(brake, 3)
    assert len(clock.slept) == 3
    brake.row()
    held(brake, 3)
    assert len(clock.slept) == 3


def test_released_events_count_no_more_and_those_of_an_earlier_attempt_not_at_all() -> None:
    clock = Clock()
    brake = Brake(10, clock, clock.sleep)
    clock.now_s = 60
    held(brake, 10)
    brake.released(10)
    brake.released(1_000)
    held(brake, 10)
    assert clock.slept == []
    held(brake, 1)
    assert len(clock.slept) == 1
