"""What the figures of `bench.versus` are made of."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import NamedTuple

import pytest

from bench import growth_model, records
from bench.growth_model import BASE, VARIATIONS
from bench.versus.ground import Answer
from bench.versus.model import (
    Figures,
    Spread,
    fastest,
    from_json,
    lines,
    quantile,
    ratios,
    spreads,
    steady,
)
from bench.versus.page import markdown
from bench.versus.phases import Plan, drained


class At(NamedTuple):
    at_s: float
    written: int
    cpu_s: float


RUN = Figures(
    system="kafka-streams-ktable",
    open_s=9.0,
    events_per_s=40_000.0,
    seconds=60.0,
    cores=0.8,
    p50_ms=20.0,
    p99_ms=90.0,
    peak_memory_mb=900.0,
    state_mb=None,
    wrong_warm=0,
)


def test_the_rate_is_taken_while_there_is_work_only() -> None:
    samples = [
        At(10.0, 1_000, 5.0),
        At(11.0, 3_000, 5.5),
        At(12.0, 5_000, 6.0),
        # Done, and idle since.
        At(13.0, 5_100, 6.1),
        At(20.0, 5_100, 6.2),
    ]
    assert steady(samples, 5_100) == (2_000.0, 2.0, 0.5)


def test_a_backlog_that_was_too_small_gives_no_rate() -> None:
    samples = [At(1.0, 10, 0.0), At(1.5, 12, 0.0), At(9.0, 20, 0.0)]
    assert steady(samples, 20) == (0.0, 0.0, 0.0)


def test_the_fastest_rate_is_one_over_some_samples_and_not_a_jump() -> None:
    samples = [At(float(n), written, 0.0) for n, written in enumerate((0, 0, 0, 900, 900, 1_000))]
    assert fastest(samples) == 1_000 / 3
    assert fastest(samples[:3]) == 0.0


@pytest.mark.parametrize(
    ("share", "value"), [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.001, 1.0)]
)
def test_a_quantile_is_one_of_the_values(share: float, value: float) -> None:
    assert quantile([float(n) for n in range(100, 0, -1)], share) == value


def test_medians_have_their_spread_and_what_no_run_has_is_left_out() -> None:
    runs = [replace(RUN, open_s=seconds) for seconds in (9.0, 30.0, 10.0)]
    found = spreads(runs)["kafka-streams-ktable"]
    assert found["open_s"] == Spread(10.0, 9.0, 30.0)
    assert "state_mb" not in found
    assert found["events_per_core_s"].median == 50_000.0


def test_ratios_are_to_the_ktable_join_of_the_same_run() -> None:
    other = replace(RUN, system="tablegate-datastream", events_per_s=30_000.0)
    assert ratios(spreads([RUN, other]), "events_per_s")["tablegate-datastream"] == 0.75
    assert ratios(spreads([other]), "events_per_s") == {}


def test_quick_lines_name_measure_system_value_unit_and_ratio() -> None:
    other = replace(RUN, system="quix", events_per_s=4_000.0)
    told = [line for line in lines([RUN, other]) if line["measure"] == "events_per_s"]
    assert told[1] == {
        "measure": "events_per_s",
        "system": "quix",
        "value": 4_000.0,
        "unit": "events/s",
        "ratio_to_kafka_streams": 0.1,
    }
    alone = lines([other])
    assert {line["ratio_to_kafka_streams"] for line in alone} == {None}


def test_figures_survive_the_json_file() -> None:
    assert from_json(json.loads(json.dumps(RUN.shown()))) == RUN


def test_of_the_waiting_events_those_that_never_came_out_right_are_wrong() -> None:
    found = [
        Answer(1, 1_000, right=True),
        Answer(2, 1_500, right=False),
        # At least once: wrong first, right when it came again.
        Answer(3, 2_000, right=False),
        Answer(3, 3_000, right=True),
    ]
    assert drained(found) == (2.0, 1)


def test_an_event_meets_the_row_that_it_names_and_a_null_is_wrong() -> None:
    event = json.loads(records.event(5, 1_000, 0).value or b"")
    number = int(event["id"][1:])
    row = json.loads(records.row(number, 500, 0).value or b"")
    assert records.is_right(json.dumps(event | {"tier": row["tier"]}).encode())
    assert not records.is_right(json.dumps(event | {"tier": None}).encode())
    assert not records.is_right(json.dumps(event).encode())
    assert not records.is_right(None)


@pytest.mark.parametrize("size", [100, 500, 2_000])
def test_a_row_has_the_size_that_is_asked_for(size: int) -> None:
    assert abs(len(records.row(7, size, 0).value or b"") - size) <= 2


def test_a_variation_changes_one_thing_of_the_base() -> None:
    base = Plan(BASE, seconds=30.0)
    plans = {variation.name: variation.plan(base) for variation in VARIATIONS}
    assert plans["base"] == base
    assert plans["rows-5m"] == replace(base, size=replace(BASE, rows=5_000_000))
    assert plans["parallelism-2"] == replace(base, parallelism=2)
    assert plans["hashmap"] == replace(base, options={"state": "hashmap"})
    assert len({repr(plan) for plan in plans.values()}) == len(VARIATIONS)


def test_the_growth_page_has_a_part_for_each_variation_that_ran_and_the_ratio_to_its_scan() -> None:
    told = {
        "command": "python -m bench.growth",
        "date": "2026-11-30",
        "cores": 2,
        "load_average": 0.1,
        "versions": {"kafka": "4.1.1"},
        "plan": {"seconds": 30.0, "latency_seconds": 10.0, "delta_rows": 100_000, "runs": 1},
        "found": {
            "rows-2m": {
                "runs": [replace(RUN, open_s=36.0).shown()],
                "scans_s": [12.0],
                "failed": {"quix": "too slow"},
            },
        },
    }
    text = growth_model.markdown(told)
    assert "## 2,000,000 rows" in text
    assert "## rows of 100 bytes" not in text
    (line,) = [line for line in text.splitlines() if line.startswith("| `kafka-streams-ktable`")]
    assert line.endswith("| 3.00 |")
    assert "not measured: `quix`: too slow" in text


def test_pads_are_no_text_that_packs_away() -> None:
    pads = b"".join(records.row(n, 500, 0).value or b"" for n in range(40))
    assert len(zlib.compress(pads)) > 0.7 * len(pads)


def test_a_pad_longer_than_there_is_noise_is_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        records.row(1, 60_000, 0)


def test_the_page_has_a_line_for_each_system_and_says_what_failed() -> None:
    plan = {
        "rows": 200_000,
        "row_bytes": 500,
        "partitions": 4,
        "parallelism": 1,
        "seconds": 60.0,
        "latency_seconds": 20.0,
        "cold_events": 0,
        "delta_rows": 0,
        "runs": 2,
    }
    page = markdown(
        {
            "title": "Sides",
            "command": "python -m bench.versus",
            "date": "2026-11-30",
            "cores": 2,
            "load_average": 0.1,
            "versions": {"kafka": "4.1.1"},
            "plan": plan,
            "about": {"kafka-streams-ktable": "a KTable"},
            "runs": [
                RUN.shown(),
                replace(RUN, open_s=11.0).shown(),
                replace(RUN, system="tablegate-sql", open_s=12.0).shown(),
            ],
            "scans_s": [8.0, 9.0, 7.0],
            "failed": {"quix": "it did not install"},
        }
    )
    assert "| `kafka-streams-ktable` | 1.00 | 40,000 |" in page
    assert "10 (9 - 11)" in page
    assert "`quix`: it did not install" in page
    assert "in 8 (7 - 9) s" in page
    assert "`tablegate-sql` 1.50" in page
