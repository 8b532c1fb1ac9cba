"""What the measurement of the hold calls growth."""

from __future__ import annotations

import pytest

from bench.hold import Figures, judge

SLACK_EVENTS, EVENT_BYTES = 100_000, 1_000  # 100 MB


def run(backlog: int, **figures: float) -> Figures:
    made = Figures(backlog, held_events=90_000, enriched=backlog)
    for name in ("taskmanager_rss_mb", "disk_mb", "state_peak_mb", "state_at_open_mb"):
        setattr(made, name, 1_000.0)
    for name, value in figures.items():
        setattr(made, name, value)
    return made


def wrong(**figures: float) -> list[str]:
    return judge(run(1_000_000), run(5_000_000, **figures), SLACK_EVENTS, EVENT_BYTES)


def test_equal_figures_and_those_within_noise_and_slack_are_no_growth() -> None:
    assert wrong() == []
    assert wrong(taskmanager_rss_mb=1_349, state_peak_mb=1_349) == []


@pytest.mark.parametrize(
    "name",
    [
        "taskmanager_rss_mb",
        "workers_rss_mb",
        "disk_mb",
        "state_at_open_mb",
        "state_peak_mb",
        "state_after_drain_mb",
    ],
)
def test_each_figure_that_grows_is_named(name: str) -> None:
    (told,) = wrong(**{name: 1_351})
    assert told.startswith(f"{name} grew from ")


def test_a_hold_beyond_the_slack_is_named_although_both_runs_have_it() -> None:
    small, large = run(1_000_000, held_events=200_000), run(5_000_000, held_events=200_000)
    told = judge(small, large, SLACK_EVENTS, EVENT_BYTES)
    assert [line.partition(":")[0] for line in told] == ["backlog 1000000", "backlog 5000000"]


@pytest.mark.parametrize(
    "figures",
    [{"enriched": 4_999_999}, {"enriched": 5_000_001}, {"misses": 1}, {"dead_letters": 1}],
)
def test_a_lost_a_doubled_and_a_missed_event_are_wrong(figures: dict[str, float]) -> None:
    (told,) = wrong(**figures)
    assert "expected every event enriched once" in told


def test_a_restart_spoils_the_comparison() -> None:
    (told,) = wrong(restarts=1)
    assert "restarted" in told
