"""What a command refuses before it touches anything."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.settings import from_mapping
from ops.cluster import RemoteCluster
from ops.deploy import checks
from ops.deploy.checks import Check, Verdict
from ops.deploy.errors import DeployError, Exit
from ops.deploy.journal import Journal, Result, Version
from ops.deploy.port import Budget
from ops.deploy.preflight import Printer
from ops.deploy.session import Options, Session
from tests.ops.test_deploy_actions import CONFIG

OLD = Version(1, "orders", "deploy", 1, CONFIG, package="p.zip", job_id="job-1")


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setattr("ops.deploy.session.checks.config_of", lambda _cluster: {})
    journal = Journal("orders", tmp_path)
    journal.write(OLD.ended(Result.RUNNING))
    journal.files(OLD).mkdir()
    options = Options(budget=Budget(1, 1, 1), savepoint_timeout_s=1)
    made = Session(RemoteCluster("http://127.0.0.1:1", home=tmp_path), journal, options, Printer())
    engine = made._engine
    monkeypatch.setattr(engine, "running", lambda _name: [])
    monkeypatch.setattr(engine, "latest_checkpoint", lambda _job: "")
    return made


def test_another_name_for_the_job_is_refused(session: Session) -> None:
    with pytest.raises(DeployError, match="both would run") as caught:
        session.version("upgrade", CONFIG, ["job.name=orders-two"], [])
    assert caught.value.code is Exit.REFUSED


def test_without_any_state_to_go_on_from_nothing_is_stopped_or_started(session: Session) -> None:
    with pytest.raises(DeployError, match="no savepoint or checkpoint of it") as caught:
        session.upgrade(replace(OLD, number=2), "", reload_table=False)
    assert caught.value.code is Exit.REFUSED
    assert [v.result for v in session._journal.versions()] == [Result.RUNNING]


def test_settings_of_the_current_version_that_cannot_be_read_are_named(session: Session) -> None:
    config = CONFIG.replace("localhost:9092", "${env:NOT_SET_HERE}:9092")
    session._journal.write(replace(OLD, config=config).ended(Result.RUNNING))
    with pytest.raises(DeployError, match=r"version 1, the current one.*NOT_SET_HERE") as caught:
        session.upgrade(replace(OLD, number=2), "", reload_table=False)
    assert caught.value.code is Exit.REFUSED


# ------------------------------------------------------------------------------------ in place


@pytest.fixture
def asked(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The parallelisms that the cluster was asked for; job-1 runs on an adaptive one with a slot
    to spare."""
    asked: list[int] = []

    def rescale(_cluster: object, _job: str, parallelism: int, **_: object) -> None:
        asked.append(parallelism)

    def room(_cluster: object, needed: int, *, given_back: int, beside: bool) -> Check:
        return checks.slots(1 + given_back, needed, beside=beside)

    monkeypatch.setattr("ops.deploy.session.rescale_in_place", rescale)
    monkeypatch.setattr("ops.deploy.session.checks.room", room)
    _scheduler(monkeypatch, "adaptive")
    monkeypatch.setattr(session._engine, "running", lambda _name, **_: ["job-1"])
    return asked


def _scheduler(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    config = {"jobmanager.scheduler": name}
    monkeypatch.setattr("ops.deploy.session.checks.config_of", lambda _cluster: config)


def test_in_place_the_job_stays_and_its_version_is_another(
    session: Session, asked: list[int]
) -> None:
    new = session.rescale_in_place(2)
    assert new is not None
    assert (asked, new.number, new.job_id, new.settings().job.parallelism) == ([2], 2, "job-1", 2)
    results = [(v.number, v.result) for v in session._journal.versions()]
    assert results == [(1, Result.REPLACED), (2, Result.RUNNING)]


def test_a_check_in_place_changes_nothing(
    session: Session, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    only = replace(session._options, check_only=True)
    monkeypatch.setattr(session, "_options", only)
    assert session.rescale_in_place(2) is None
    assert asked == []
    assert [v.number for v in session._journal.versions()] == [1]


@pytest.mark.parametrize(
    ("parallelism", "scheduler", "told"),
    [
        (129, "adaptive", r"job\.max_parallelism = 128"),
        (3, "adaptive", "slots"),
        (2, "default", "Only the adaptive scheduler"),
    ],
)
def test_what_cannot_be_done_in_place_is_refused_before_the_cluster_is_asked(
    session: Session,
    asked: list[int],
    monkeypatch: pytest.MonkeyPatch,
    parallelism: int,
    scheduler: str,
    told: str,
) -> None:
    _scheduler(monkeypatch, scheduler)
    with pytest.raises(DeployError, match=told) as caught:
        session.rescale_in_place(parallelism)
    assert caught.value.code is Exit.REFUSED
    assert asked == []


# ------------------------------------------------------------------------------- the state


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"stream": {"topic": "others"}}, "stream.topic"),
        ({"stream": {"key": {"from": "value", "path": "id"}}}, "stream.key"),
        ({"table": {"topic": "others"}}, "table.topic"),
        ({"table": {"format": "debezium-json"}}, "table.format"),
        ({"table": {"isolation_level": "read_uncommitted"}}, "table.isolation_level"),
        ({"table": {"key": {"from": "key", "format": "json", "path": "id"}}}, "table.key"),
    ],
)
def test_a_change_that_its_state_does_not_survive_is_refused(
    change: dict[str, dict[str, Any]], named: str
) -> None:
    base = tomllib.loads(CONFIG)
    changed = {name: {**table, **change.get(name, {})} for name, table in base.items()}
    found = checks.same_state(from_mapping(base), from_mapping(changed))
    assert found.verdict is Verdict.REFUSED
    assert found.found.startswith(f"{named} differ")
    other_fields = {**base, "table": {**base["table"], "fields": {"name": "name"}}}
    other_fields["job"] = {"name": "orders", "parallelism": 2}
    assert checks.same_state(from_mapping(base), from_mapping(other_fields)).verdict is Verdict.OK
