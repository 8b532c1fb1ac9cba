"""The faster clock of the tests on a real Prometheus changes times, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.prometheus import (
    CONFIG,
    RULES,
    faster_config,
    faster_promql,
    faster_rules,
    shorter,
)


@pytest.mark.parametrize(
    ("duration", "factor", "expected"),
    [
        ("10m", 30, "20s"),
        ("30s", 30, "1s"),
        ("15s", 30, "500ms"),
        ("1d", 30, "2880s"),
        ("1h", 7, "514286ms"),
        ("2w", 1, "1209600s"),
        ("1500ms", 1, "1500ms"),
    ],
)
def test_a_duration_becomes_shorter(duration: str, factor: float, expected: str) -> None:
    assert shorter(duration, factor) == expected


@pytest.mark.parametrize("duration", ["10", "1h30m", "m", "1ms"])
def test_what_is_no_single_duration_or_would_vanish_is_refused(duration: str) -> None:
    with pytest.raises(ValueError, match=duration):
        shorter(duration, 30)


def test_promql_changes_in_its_ranges_and_offsets_only() -> None:
    expr = 'max_over_time(a:ratio10m{b="5m"}[5m] offset 1d) > 120 + increase(c_30s[30m:1m]) * 10'
    assert faster_promql(expr, 30) == (
        'max_over_time(a:ratio10m{b="5m"}[10s] offset 2880s) > 120 + increase(c_30s[60s:1m]) * 10'
    )


def test_rules_on_the_clock_as_it_is_are_the_rules() -> None:
    assert yaml.safe_load(faster_rules(RULES.read_text(), 1)) == _in_seconds(RULES.read_text())


def test_every_alert_is_as_much_faster_as_every_window() -> None:
    groups = yaml.safe_load(faster_rules(RULES.read_text(), 30))["groups"]
    found = {
        rule.get("alert", rule.get("record")): rule for group in groups for rule in group["rules"]
    }
    assert found["TablegateHitRateFell"]["for"] == "20s"
    assert found["TablegateGateShut"]["expr"] == "max_over_time(tablegate:gate:open[10s]) == 0"
    assert "[10s] offset 20s" in found["tablegate:decided:delta10m"]["expr"]
    assert {group["interval"] for group in groups} == {"1s"}


@pytest.mark.parametrize(("factor", "interval"), [(3, "5s"), (15, "1s"), (30, "1s")])
def test_the_scrapes_are_faster_too_up_to_one_a_second_and_keep_their_relabelling(
    tmp_path: Path, factor: int, interval: str
) -> None:
    before = yaml.safe_load(CONFIG.read_text())
    text = faster_config(CONFIG.read_text(), factor, rules=tmp_path / "r", targets=tmp_path / "t")
    after = yaml.safe_load(text)
    assert after["global"] == {"scrape_interval": interval, "scrape_timeout": interval}
    (was,), (job,) = before["scrape_configs"], after["scrape_configs"]
    assert job["metric_relabel_configs"] == was["metric_relabel_configs"]
    assert job["file_sd_configs"] == [{"files": [str(tmp_path / "t")]}]


def _in_seconds(text: str) -> object:
    """With every duration written as `faster_rules` writes it, by another way than its own."""
    for long, short in (
        ("30s", "30s"),
        ("1m", "60s"),
        ("2m", "120s"),
        ("5m", "300s"),
        ("10m", "600s"),
        ("15m", "900s"),
        ("20m", "1200s"),
        ("30m", "1800s"),
        ("1h", "3600s"),
        ("1d", "86400s"),
        ("7d", "604800s"),
    ):
        for before, after in (("[", "]"), ("offset ", ""), ("for: ", "\n"), ("interval: ", "\n")):
            text = text.replace(f"{before}{long}{after}", f"{before}{short}{after}")
    return yaml.safe_load(text)
