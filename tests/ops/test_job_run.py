"""`tablegate job run`: which job is submitted, and with what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops import flink_run
from ops.cli import app
from ops.paths import ROOT


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    found: dict[str, Any] = {}
    monkeypatch.setattr("ops.cli.Stack.addresses", lambda _: None)
    monkeypatch.setattr("ops.stack.flink.FlinkCluster.rest_url", "http://nowhere")
    monkeypatch.setattr("ops.flink_run.submit", lambda _, **what: found.update(what) or "0" * 32)
    monkeypatch.setattr("ops.flink_run.wait_running", lambda *_: None)
    return found


def _run(*arguments: str) -> None:
    config = ["--config", str(ROOT / "conf" / "orders.toml")]
    done = CliRunner().invoke(app, ["job", "run", *config, *arguments])
    assert done.exit_code == 0, done.output


def test_a_folder_of_sql_files_makes_it_the_sql_variant(
    submitted: dict[str, Any], tmp_path: Path
) -> None:
    _run("--sql", str(tmp_path))
    assert submitted["entry"] == flink_run.ENRICH_SQL
    assert submitted["job_arguments"] == ["--sql", str(tmp_path)]


def test_without_it_is_the_join_of_the_settings(submitted: dict[str, Any]) -> None:
    _run()
    assert submitted["entry"] == flink_run.ENRICH
    assert submitted["job_arguments"] == []
