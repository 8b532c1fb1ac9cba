"""What the measurement of the SQL variant's latency makes of its samples."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.sql_latency_model import ALLOWANCE_MS, Figures, markdown, quantile, wrong

RUN = Figures(100, 2_820, 91.2, 180.0, 2 * 100 + ALLOWANCE_MS, 12.34, 3.0, 9_876.5, 1.1)


def test_a_quantile_is_one_of_the_latencies() -> None:
    latencies = [float(n) for n in range(100, 0, -1)]
    assert [quantile(latencies, share) for share in (0, 0.5, 0.99, 1)] == [1, 50, 99, 100]
    assert quantile([7.0], 0.5) == 7
    with pytest.raises(ValueError, match="no event came out"):
        quantile([], 0.5)


def test_two_ticks_and_the_allowance_are_kept_or_told() -> None:
    assert wrong([RUN], 2_820) == []
    late = replace(RUN, max_ms=RUN.max_ms + 1)
    assert wrong([late], 2_820) == [
        f"tick 100 ms: an event took {late.max_ms:.0f} ms, more than 700 ms"
    ]


def test_an_event_that_did_not_come_out_is_told() -> None:
    assert wrong([RUN], 2_821) == ["tick 100 ms: 2820 events came out of 2821"]


def test_the_page_has_a_line_for_each_interval_and_says_what_was_not_kept() -> None:
    told = {
        "date": "today",
        "cores": 2,
        "versions": {"flink": "2.3.0"},
        "options": {"rows": 1, "rate": 47.0, "seconds": 60.0, "idle_seconds": 60.0, "backlog": 10},
        "runs": [RUN.shown(), replace(RUN, tick_ms=1_000).shown()],
        "wrong": [],
    }
    page = markdown(told)
    assert "| 100 | 2,820 | 91 | 180 | 700 | 700 | 12.3 | 3.0 | 9,876 | 1.1 |" in page
    assert "| 1,000 |" in page
    assert "Not kept" not in page
    assert "**Not kept:** x." in markdown(told | {"wrong": ["x"]})
