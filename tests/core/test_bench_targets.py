"""Each target is held against the systems that it names, and only against measured ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.results_files import write
from bench.tuning_model import markdown as tuned
from bench.tuning_model import ratios
from bench.versus.model import Figures, Spread
from bench.versus.targets import Judged, markdown, of_two_million_rows, of_versus


def _found(**rates: float) -> dict[str, dict[str, Spread]]:
    return {
        name.replace("_", "-"): {"events_per_s": Spread(rate, rate, rate)}
        for name, rate in rates.items()
    }


def _by_target(judged: list[Judged]) -> dict[str, Judged]:
    return {one.target: one for one in judged}


def test_a_target_is_met_at_its_limit_and_not_below() -> None:
    name = "DataStream to Kafka Streams' KTable, events/s"
    at = of_versus(_found(tablegate_datastream=60.0, kafka_streams_ktable=100.0), None)
    below = of_versus(_found(tablegate_datastream=59.0, kafka_streams_ktable=100.0), None)
    assert _by_target(at)[name].met
    assert not _by_target(below)[name].met
    assert _by_target(below)[name].found == pytest.approx(0.59)


def test_of_the_naive_jobs_the_faster_one_counts() -> None:
    found = _found(tablegate_datastream=50.0, pyflink_naive_thread=11.0, pyflink_naive_process=4.0)
    (judged,) = of_versus(found, None)
    assert not judged.met
    assert judged.found == pytest.approx(50 / 11)


def test_the_gate_may_cost_three_percent() -> None:
    for gated, met in ((97.0, True), (96.0, False)):
        found = _found(tablegate_sql=gated, tablegate_sql_no_gate=100.0)
        (judged,) = of_versus(found, None)
        assert judged.met is met


def test_seconds_are_met_from_below() -> None:
    found = {
        "tablegate-datastream": {"open_s": Spread(60.0, 50.0, 70.0)},
        "tablegate-sql": {"open_s": Spread(31.0, 30.0, 32.0)},
    }
    judged = of_two_million_rows(found, Spread(20.0, 20.0, 20.0))
    assert [(one.found, one.met) for one in judged] == [(60.0, True), (31.0, False), (1.55, False)]


def test_what_did_not_run_is_not_judged() -> None:
    assert of_versus({}, None) == []
    assert markdown([]) == ""


def test_an_option_is_held_against_the_run_beside_it() -> None:
    assert ratios([_run(100.0), _run(50.0)], [_run(110.0), _run(60.0)], "events_per_s") == [
        1.1,
        1.2,
    ]
    with pytest.raises(ValueError, match="shorter"):
        ratios([_run(100.0), _run(50.0)], [_run(110.0)], "events_per_s")


def test_the_tuning_page_shows_all_ratios_and_their_median() -> None:
    told = {
        "command": "python -m bench.tuning",
        "date": "2026-11-30",
        "cores": 2,
        "load_average": 0.1,
        "versions": {"flink": "2.3.0"},
        "system": "tablegate-datastream",
        "plan": {"rows": 1_000, "row_bytes": 500, "seconds": 20.0, "runs": 2},
        "trials": [
            {
                "name": "flash",
                "why": "disks",
                "options": {"flink.a": "b"},
                "base": [_run(100.0).shown(), _run(50.0).shown()],
                "tried": [_run(110.0).shown(), _run(60.0).shown()],
                "failed": "",
            },
            {
                "name": "no",
                "why": "",
                "options": {},
                "base": [],
                "tried": [],
                "failed": "it did not start",
            },
        ],
    }
    text = tuned(told)
    assert "| flash `flink.a=b` | disks | **1.15** (1.10, 1.20) | **1.15** (1.10, 1.20) |" in text
    assert "not measured: `no`: it did not start" in text


def _run(rate: float) -> Figures:
    return Figures(
        system="tablegate-datastream",
        open_s=9.0,
        events_per_s=rate,
        seconds=20.0,
        cores=1.0,
        p50_ms=20.0,
        p99_ms=90.0,
        peak_memory_mb=900.0,
        state_mb=None,
        wrong_warm=0,
    )


def test_results_are_a_json_file_a_page_and_a_picture_of_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "results" / "name"
    write(place, {"n": 7}, lambda told: f"page {told['n']}\n", _picture)
    assert json.loads(place.with_suffix(".json").read_text()) == {"n": 7}
    assert place.with_suffix(".md").read_text() == "page 7\n"
    assert place.with_suffix(".png").read_text() == "7"
    assert "page 7" in capsys.readouterr().out
    write(tmp_path / "plain", {"n": 8}, lambda told: f"page {told['n']}\n")
    assert not (tmp_path / "plain.png").exists()


def _picture(told: Mapping[str, Any], path: Path) -> None:
    path.write_text(str(told["n"]))


def test_a_missed_target_stands_out() -> None:
    text = markdown([Judged("a", 1.0, 2.0, met=False), Judged("b", 2.0, 2.0, met=True)])
    assert "| a | 1.00 | 2 | **not met** |" in text
    assert "| b | 2.00 | 2 | met |" in text
