"""monitoring/: the rules by promtool's own unit tests, and what they say of the rest."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from ops.paths import FLINK_CONF, MONITORING, ROOT
from tests.support.dashboard import DASHBOARD
from tests.support.prometheus import CONFIG, RULES, faster_rules, promtool

RULE_TESTS = sorted((MONITORING / "tests").glob("*.yml"))
DECLINE = Path(__file__).with_name("decline.yml")
PAGE = ROOT / "docs" / "monitoring.md"
_RECORDED = re.compile(r"\btablegate:[a-z0-9_:]+")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}


def test_prometheus_takes_the_scrape_configuration_and_the_rules() -> None:
    assert "SUCCESS" in promtool("check", "config", CONFIG)
    assert "SUCCESS" in promtool("check", "rules", RULES)


@pytest.mark.parametrize("file", RULE_TESTS, ids=lambda file: file.stem)
def test_each_alert_fires_when_it_should_and_not_else(file: Path) -> None:
    assert "SUCCESS" in promtool("test", "rules", file)


def test_what_takes_days_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "ten-times-faster.yml").write_text(faster_rules(RULES.read_text(), 10))
    copied = shutil.copy(DECLINE, tmp_path)
    assert "SUCCESS" in promtool("test", "rules", copied)


def test_no_alert_is_without_a_test_in_which_it_fires() -> None:
    asserted = "".join(
        f"{expected}"
        for file in (*RULE_TESTS, DECLINE)
        for case in yaml.safe_load(file.read_text())["tests"]
        for expected in (*case.get("promql_expr_test", ()), *case.get("alert_rule_test", ()))
    )
    assert [
        name for name in alerts() if f'alertname="{name}", alertstate="firing"' not in asserted
    ] == []


def test_every_alert_says_what_to_do_and_where_that_is_written() -> None:
    for name, rule in alerts().items():
        assert rule["labels"]["severity"] in {"critical", "warning"}, name
        notes = rule["annotations"]
        assert set(notes) == {"summary", "description", "runbook"}, name
        assert "{{ $labels.job_name }}" in notes["summary"], name
        page, _, anchor = notes["runbook"].partition("#")
        assert anchor in anchors(ROOT / page), name


def test_alerts_of_two_jobs_are_never_added_up() -> None:
    for rule in rules():
        expr = rule["expr"]
        by = re.findall(r"\b(?:sum|max|min) (?:by \(([^)]*)\))?", expr)
        assert all("job_name" in labels for labels in by), expr


def test_totals_are_never_taken_for_counters() -> None:
    for rule in rules():
        for inner in re.findall(r"\b(?:rate|increase|irate)\(([^)]*)", rule["expr"]):
            assert "verdict_decided" not in inner
            assert "tablegate:" not in inner


def test_what_is_used_of_the_recorded_series_is_recorded() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    files = (RULES, DASHBOARD, PAGE, *RULE_TESTS)
    used = {name for file in files for name in _RECORDED.findall(file.read_text())}
    assert used == recorded


def test_both_configurations_of_flink_report_the_true_name_of_a_job() -> None:
    for name in ("local", "cluster"):
        config = yaml.safe_load((FLINK_CONF / name / "config.yaml").read_text())
        assert config["metrics.reporters"] == "prom"
        assert config["metrics.reporter.prom.filterLabelValueCharacters"] is False


def test_the_page_explains_each_alert_and_only_these() -> None:
    named = set(re.findall(r"\bTablegate[A-Z]\w+", PAGE.read_text()))
    assert named == set(alerts())


def test_the_pages_scrape_configurations_are_valid(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(scrape_configs:.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    for number, block in enumerate(blocks):
        config = yaml.safe_load(block)
        (job,) = config["scrape_configs"]
        # Debian builds its Prometheus without this one.
        pods = job.pop("kubernetes_sd_configs", [{"role": "pod"}])
        assert pods == [{"role": "pod"}]
        file = tmp_path / f"{number}.yml"
        file.write_text(yaml.safe_dump(config))
        assert "SUCCESS" in promtool("check", "config", file)


def test_the_pages_names_are_those_of_the_manifest() -> None:
    job = yaml.safe_load((ROOT / "k8s" / "job.yaml").read_text())
    (container,) = job["spec"]["podTemplate"]["spec"]["containers"]
    (port,) = container["ports"]
    assert f"regex: {job['metadata']['name']};{port['name']}\n" in PAGE.read_text()
    first = job["spec"]["flinkConfiguration"]["metrics.reporter.prom.port"].partition("-")[0]
    assert port["containerPort"] == int(first)
    assert f"port: {first}\n" in PAGE.read_text()
