"""Where the tests' Prometheus comes from, and what they say where there is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ops import prometheus
from tests.support.prometheus import program


def test_a_system_without_apt_says_so_to_whoever_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert not prometheus.fetch(tmp_path / "prometheus")
    with pytest.raises(prometheus.UnavailableError, match=r"no promtool: .*no apt-get"):
        prometheus.program("promtool", tmp_path / "prometheus")


def test_lists_of_packages_of_our_own_are_fetched_where_the_system_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], cwd: Path, **_: object) -> subprocess.CompletedProcess[str]:
        asked.append([str(part) for part in command])
        if "update" not in asked[-1] and "-o" not in asked[-1] and command[0] == "apt-get":
            return subprocess.CompletedProcess(command, 100, "", "E: Unable to locate package")
        if "download" in asked[-1]:
            (cwd / "prometheus_2_amd64.deb").touch()
        if command[0] == "dpkg":
            programs = Path(command[-1]) / "usr" / "bin"
            programs.mkdir(parents=True)
            for name in ("prometheus", "promtool"):
                (programs / name).touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", run)
    folder = tmp_path / "prometheus"
    assert prometheus.fetch(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["prometheus", "promtool"]
    assert [command[0] for command in asked] == ["apt-get", "apt-get", "apt-get", "dpkg"]
    assert not any("install" in command for command in asked)


def test_a_download_that_fails_is_told_with_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = subprocess.CompletedProcess([], 100, "", "warning\nE: no network\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    monkeypatch.setattr("shutil.which", lambda name: None if name == "promtool" else name)
    assert not prometheus.fetch(tmp_path)
    with pytest.raises(prometheus.UnavailableError, match=r"exited with 100: E: no network\. Put"):
        prometheus.program("promtool", tmp_path)


def test_one_on_the_path_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/opt/{name}")
    assert prometheus.program("promtool", tmp_path) == Path("/opt/promtool")
    (tmp_path / "promtool").touch()
    assert prometheus.program("promtool", tmp_path) == tmp_path / "promtool"


@pytest.mark.parametrize(("ci", "outcome"), [("", "Skipped"), ("true", "Failed")])
def test_where_there_is_none_a_test_is_skipped_but_not_in_ci(
    ci: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(name: str) -> Path:
        raise prometheus.UnavailableError(f"There is no {name}.")

    monkeypatch.setattr(prometheus, "program", unavailable)
    monkeypatch.setenv("CI", ci)
    with pytest.raises(BaseException, match="There is no promtool") as caught:
        program("promtool")
    assert caught.typename == outcome
