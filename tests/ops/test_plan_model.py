"""The arithmetic of a start, as a table of cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ops.plan.cautions import cautions
from ops.plan.figures import Figure, Origin
from ops.plan.model import Inputs, Plan, make

DEFAULTS: dict[str, float] = {
    "rows": 600_000,
    "events_per_s": 5_000,
    "load_rate": 20_000,
    "join_rate": 10_000,
    "release_rate": 10_000,
    "start": 10,
    "backlog": 0,
    "slack": 30_000,
    "parallelism": 1,
    "within": 600,
}


def inputs(restart: bool = False, paused: bool = True, **values: float) -> Inputs:
    figures: Any = {
        name: Figure(value, "", Origin.GIVEN, "a test")
        for name, value in (DEFAULTS | values).items()
    }
    return Inputs(**figures, restart=restart, paused=paused)


def plan(restart: bool = False, paused: bool = True, **values: float) -> Plan:
    return make(inputs(restart, paused, **values))


def value(made: Plan, name: str) -> float | None:
    return made.figures[name].value


# Hold: 600,000 / 20,000 + 10 = 40 s.
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"load": 30, "hold": 40, "exposure": 30, "waiting_events": 200_000, "catch_up": 40}),
        ({"events_per_s": 7_500}, {"load_share": 0.75, "catch_up": 120, "behind_for": 160}),
        ({"events_per_s": 9_000}, {"load_share": 0.9, "catch_up": 360, "behind_for": 400}),
        # Nothing arrives: nothing to catch up with.
        ({"events_per_s": 0}, {"waiting_events": 0, "catch_up": 0, "exposed_events": 0}),
        ({"rows": 0}, {"load": 0, "hold": 10, "exposure": 0, "exposed_events": 0, "catch_up": 10}),
        ({"rows": 0, "start": 0}, {"hold": 0, "waiting_events": 0, "catch_up": 0}),
        ({"backlog": 100_000}, {"waiting_events": 300_000, "catch_up": 60}),
        # The table's load stays with one subtask; the join has four.
        ({"parallelism": 4}, {"load": 30, "capacity": 40_000, "load_share": 0.125}),
        ({"parallelism": 4, "events_per_s": 20_000}, {"waiting_events": 800_000, "catch_up": 40}),
        # 30,000 events in state take twice as long: 3 s more, shared with those that arrive: 6 s.
        ({"release_rate": 5_000}, {"in_state_events": 30_000, "catch_up": 46}),
        # Twice as fast: 15,000 events' worth less.
        ({"release_rate": 20_000}, {"catch_up": 37}),
        ({"row_bytes": 100}, {"table_bytes": 60_000_000}),
        (
            {"event_bytes": 100},
            {
                "waiting_bytes": 20_000_000,
                "in_topic_bytes": 17_000_000,
                "in_state_bytes": 3_000_000,
            },
        ),
        # The slack is for each subtask; fewer than that wait.
        ({"parallelism": 8}, {"in_state_events": 200_000, "in_topic_events": 0}),
        # Without a gate: no more than the join takes in those 30 s, no more than there are.
        ({"backlog": 1_000_000}, {"exposed_events": 300_000}),
        ({"events_per_s": 1_000}, {"exposed_events": 40_000}),
    ],
)
def test_what_follows_from_what(given: dict[str, Any], expected: dict[str, float]) -> None:
    made = plan(**given)
    assert {name: value(made, name) for name in expected} == pytest.approx(expected)


def test_with_equal_rates_and_no_backlog_it_is_hold_times_load_over_the_rest() -> None:
    for load in (0.1, 0.5, 0.75, 0.9, 0.99):
        made = plan(events_per_s=10_000 * load)
        assert value(made, "catch_up") == pytest.approx(40 * load / (1 - load))


@pytest.mark.parametrize("rate", [10_000, 10_001, 25_000])
def test_at_or_above_its_capacity_a_job_never_catches_up_and_is_told_how_far_to_scale(
    rate: int,
) -> None:
    made = plan(events_per_s=rate)
    assert made.never
    assert value(made, "catch_up") is value(made, "behind_for") is None
    (warning,) = cautions(made.inputs)
    least = {10_000: "2 is the least", 10_001: "2 is the least", 25_000: "3 is the least"}
    assert warning.startswith("It never catches up")
    assert f"Parallelism {least[rate]}" in warning
    assert f"falls behind by {rate - 10_000:,} events/s" in warning
    roomy = {10_000: 2, 10_001: 2, 25_000: 4}
    assert f"{roomy[rate]} keeps the load at or below 80%" in warning


@pytest.mark.parametrize("given", [{}, {"release_rate": 4_000}, {"backlog": 500_000}])
@pytest.mark.parametrize("rate", [3_000.0, 9_500.0, 30_000.0, 43_000.0])
def test_the_highest_rate_and_the_parallelism_just_keep_the_wanted_time(
    rate: float, given: dict[str, Any]
) -> None:
    asked = inputs(events_per_s=rate, **given)
    made = make(asked)
    highest = value(made, "highest_rate")
    assert highest is not None
    at_it = plan(**given, events_per_s=highest)
    assert value(at_it, "catch_up") == pytest.approx(600)
    needed = value(made, "subtasks_needed")
    assert needed is not None

    def took(subtasks: float) -> float | None:
        figure = Figure(subtasks, "", Origin.GIVEN, "")
        return value(make(replace(asked, parallelism=figure)), "catch_up")

    enough = took(needed)
    assert enough is not None
    assert enough <= 600
    less = took(needed - 1) if needed > 1 else None
    assert less is None or less > 600


def test_where_the_backlog_alone_takes_longer_no_rate_is_low_enough() -> None:
    assert value(plan(backlog=6_000_001), "highest_rate") == pytest.approx(0, abs=0.01)


def test_what_is_computed_from_an_assumption_says_so() -> None:
    assumed = Figure(20_000, "rows/s", Origin.ASSUMED, "a default")
    figures = make(replace(inputs(), load_rate=assumed)).figures
    assert figures["load"].assumes == figures["catch_up"].assumes == ("load_rate",)
    assert figures["capacity"].assumes == figures["load_share"].assumes == ()
    assert all(figure.origin is Origin.COMPUTED for figure in figures.values())


# ------------------------------------------------------------------------------------- warnings


def warnings(restart: bool = False, paused: bool = True, **values: float) -> str:
    return "\n".join(cautions(inputs(restart, paused, **values)))


def test_a_plan_without_trouble_warns_of_nothing() -> None:
    assert warnings() == ""


def test_a_high_load_is_told_with_what_a_second_of_hold_costs() -> None:
    assert "each second of hold costs 9 s" in warnings(events_per_s=9_000)
    assert "each second of hold" not in warnings(events_per_s=8_000)


def test_a_catch_up_that_is_too_long_names_the_parallelism_that_is_enough() -> None:
    assert "longer than 30 s: parallelism 2 would do" in warnings(within=30)


@pytest.mark.parametrize(("kept_s", "lost"), [(79, True), (81, False)])
def test_a_stream_topic_that_forgets_before_the_job_has_read_is_a_warning(
    kept_s: float, lost: bool
) -> None:
    # 40 s of hold and 40 s of catch-up.
    assert ("Events are lost" in warnings(retention=kept_s)) is lost


@pytest.mark.parametrize(("size", "unlike"), [(200, False), (390, False), (410, True), (90, True)])
def test_rows_of_another_size_than_those_of_the_rate_are_a_warning(
    size: float, unlike: bool
) -> None:
    assert ("measure with yours" in warnings(row_bytes=size, measured_row_bytes=200)) is unlike


def test_a_table_on_the_heap_is_told_with_the_heap_that_it_needs() -> None:
    plain = inputs(rows=1_000_000, row_bytes=500)
    on_heap = replace(plain, broadcast=True)
    (told,) = set(cautions(on_heap)) - set(cautions(plain))
    assert "about 1,180 MB" in told
    assert "a heap of 1,573 MB at least" in told
    # What a restart reads is not the table.
    restart = inputs(restart=True, rows=1_000_000, row_bytes=500)
    assert set(cautions(replace(restart, broadcast=True))) == set(cautions(restart))


def test_without_the_pause_all_that_waits_is_in_state() -> None:
    made = plan(paused=False)
    assert (value(made, "in_state_events"), value(made, "in_topic_events")) == (200_000, 0)
    assert "pause_stream is false" in warnings(paused=False)


def test_a_restart_says_that_a_failover_holds_more() -> None:
    assert "After a failover" in warnings(restart=True)
