"""What the measurement of the catch-up makes of its samples, and how its writer keeps time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.catch_up_model import (
    Figures,
    Sample,
    back,
    corrected_s,
    figures,
    judge,
    level,
    rate,
    reached,
    simple_s,
    standstill,
)
from bench.catch_up_report import markdown
from bench.pace import due
from ops.plan import model as plan
from tests.ops.test_plan_model import inputs

EVERY_S = 0.2


def run(
    load: float,
    *,
    hold_s: float = 20,
    held: int = 0,
    release: float = 10_000,
    watched_s: float = 400,
) -> tuple[list[Sample], list[Sample]]:
    """A job with a capacity of 10,000 events/s: 10 s of steady state, then a hold."""
    arriving, lag = 10_000 * load, 100
    before: list[Sample] = []
    after: list[Sample] = []
    released_s = held / release
    for step in range(int((10 + hold_s + watched_s) / EVERY_S)):
        at_s = step * EVERY_S
        written = int(arriving * at_s) + lag
        open_s = at_s - 10 - hold_s
        if at_s <= 10:
            enriched = written - lag
        elif open_s <= 0:
            enriched = int(arriving * 10)
        else:
            left = min(open_s, released_s) * release + max(0, open_s - released_s) * 10_000
            enriched = min(written - lag, int(arriving * 10 + left))
        (before if at_s < 10 else after).append(Sample(at_s, written, enriched))
    return before, after


def told(load: float, **shape: float) -> Figures:
    held = int(shape.get("held", 0))
    return figures(load, 10_000 * load, *run(load, **shape), held, 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("load", [0.5, 0.75, 0.9])
def test_a_job_of_one_rate_catches_up_as_the_simple_formula_says(load: float) -> None:
    found = told(load)
    assert found.hold_s == pytest.approx(20, abs=2 * EVERY_S)
    assert found.catch_up_s == pytest.approx(20 * load / (1 - load), rel=0.03)
    assert found.ratio == pytest.approx(1, rel=0.03)
    assert found.written_rate == pytest.approx(10_000 * load, rel=0.001)
    assert found.topic_rate == pytest.approx(10_000, rel=0.03)
    assert judge([found]) == []


@pytest.mark.parametrize("release", [4_000, 20_000])
def test_held_events_of_another_rate_are_what_the_corrected_formula_is_for(release: int) -> None:
    found = told(0.75, held=40_000, release=release)
    assert found.release_rate == pytest.approx(release, rel=0.12)
    assert found.topic_rate == pytest.approx(10_000, rel=0.03)
    assert found.ratio is not None
    assert abs(found.ratio - 1) > 0.1
    assert found.corrected_ratio == pytest.approx(1, rel=0.06)


def test_the_formulas_are_those_of_the_plan() -> None:
    asked = inputs(events_per_s=9_000, release_rate=4_000, start=0, rows=400_000)
    assert plan.catch_up_s(asked) == corrected_s(20, 9_000, 30_000, 4_000, 10_000)
    asked = inputs(events_per_s=9_000, start=0, rows=400_000)
    assert plan.catch_up_s(asked) == pytest.approx(simple_s(20, 0.9))
    assert corrected_s(20, 10_000, 0, 1, 10_000) is None


def test_a_lag_that_is_not_back_while_it_is_watched_is_said() -> None:
    found = told(0.9, watched_s=100)
    assert (found.catch_up_s, found.ratio, found.corrected_ratio) == (None, None, None)
    assert judge([found]) == ["load 90%: the lag was not back while it was watched"]


@pytest.mark.parametrize("written", [9_790, 10_210])
def test_a_rate_that_was_missed_spoils_the_run(written: float) -> None:
    found = replace(told(0.5), wanted_rate=10_000, written_rate=written)
    (wrong,) = judge([found])
    assert wrong == f"load 50%: {written} events/s were written, 10000 wanted"
    assert judge([replace(found, written_rate=9_900)]) == []


# ------------------------------------------------------------------------------ samples


def lags(*values: int) -> list[Sample]:
    return [Sample(float(n), value, 0) for n, value in enumerate(values)]


def test_a_dip_of_the_lag_is_no_return() -> None:
    assert back(lags(50, 9, 50, 50, 9, 9, 9), 10) == Sample(4.0, 9, 0)
    # It has to be seen to stay.
    assert back(lags(50, 50, 9, 9), 10) is None
    # A jump at a checkpoint is no reason to wait on.
    assert back(lags(50, 9, 50, 9, 9), 10) == Sample(1.0, 9, 0)


def test_the_hold_is_the_longest_standstill_of_the_output() -> None:
    counts = [0, 5, 5, 5, 9, 9, 9, 9, 9, 12, 15]
    samples = [Sample(float(n), 0, count) for n, count in enumerate(counts)]
    assert standstill(samples) == (samples[4], samples[9])


def test_a_count_is_reached_between_two_samples() -> None:
    samples = [Sample(0.0, 0, 0), Sample(1.0, 0, 0), Sample(2.0, 0, 100), Sample(3.0, 0, 300)]
    assert reached(samples, 25) == 1.25
    assert reached(samples, 200) == 2.5
    assert reached(samples, 301) is None


def test_rate_and_level_of_samples() -> None:
    samples = [Sample(float(n), 100 * n + 40 * (n % 2), 100 * n) for n in range(101)]
    assert rate(samples, "enriched") == 100
    assert level(samples) == 40


# ------------------------------------------------------------------------------ the writer


def test_a_writer_makes_up_for_a_look_that_came_late() -> None:
    sent = 0
    counts = []
    for at_s in (0.0, 0.005, 0.010, 1.0, 1.005, 0.9):
        now = due(3_000, at_s, sent)
        counts.append(now)
        sent += now
    assert counts == [0, 15, 15, 2_970, 14, 0]
    assert sent == int(3_000 * 1.005)


def test_no_event_is_lost_to_rounding() -> None:
    sent = 0
    for n in range(1, 10_001):
        sent += due(777.7, n / 1_000, sent)
    assert sent == int(777.7 * 10)


def test_the_page_has_a_line_for_each_load_and_says_what_spoils_it() -> None:
    shown = {
        "date": "2026-11-29 12:00 UTC",
        "cores": 2,
        "load_average": 0.4,
        "versions": {"flink": "2.3.0"},
        "options": {"rows": 1_000, "row_bytes": 200, "hold_s": 20.0},
        "rates": {"join_rate": 9_000.0, "load_rate": 20_000.0},
        "capacity_without_writer": 10_000.0,
        "runs": [told(0.5).shown(), told(0.9, watched_s=100).shown()],
        "wrong": ["load 90%: the lag was not back while it was watched"],
    }
    lines = markdown(shown).splitlines()
    half, most = (line for line in lines if line.startswith(("| 50%", "| 90%")))
    assert "| 20.2 |" in half or "| 20.0 |" in half
    assert "never" in most
    assert half.startswith("| 50% | 10,000 | 5,000 |")
    assert "**Spoilt:** load 90%: the lag was not back while it was watched." in lines
