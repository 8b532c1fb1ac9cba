"""The commands' exit codes, as a script sees them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ops import cli
from ops.deploy.errors import Exit
from ops.deploy.journal import Journal, Version


def exit_code(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["tablegate", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return caught.value.code


@pytest.mark.parametrize(
    "command", [["upgrade"], ["rollback"], ["rescale", "--parallelism", "2"], ["deployments"]]
)
@pytest.mark.parametrize("jobs", [[], ["orders", "returns"]])
def test_a_job_that_is_not_known_is_a_refusal(
    jobs: list[str],
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for job in jobs:
        Journal(job, tmp_path).write(Version(1, job, "deploy", 7, ""))
    code = exit_code(monkeypatch, *command, "--journal", str(tmp_path))
    assert code == Exit.REFUSED
    names = ", ".join(jobs) or "none"
    assert f"Which job? Journals in {tmp_path}: {names}." in capsys.readouterr().err


def test_an_error_without_a_code_of_its_own_is_a_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exit_code(monkeypatch, "deploy", "--config", str(tmp_path / "none.toml")) == Exit.ERROR
    # A journal that cannot be read is an error, and no refusal.
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "0001.json").write_text("{}")
    assert exit_code(monkeypatch, "upgrade", "--journal", str(tmp_path)) == Exit.ERROR
