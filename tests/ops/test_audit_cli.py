"""`tablegate audit`: what it says, its exit codes, and that no job of it stays."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from jobs.settings import load, topics
from jobs.sql.findings import Finding
from ops.cli import app
from ops.paths import ROOT
from udfs.core.errors import StackError

_CONFIG = ROOT / "conf" / "orders.toml"
_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="u" password="s3cret";'
)
_CLEAN = Finding("duplicates", "Duplicates: twice.", 0)
_DIRTY = Finding("wrong_nulls", "Wrong nulls: a miss.", 1_200, (("retry[0]@7", "had a row"),))

_TOPICS = topics(load(_CONFIG, [])).values()


class _Cluster:
    """A cluster whose `flink run` prints these lines, or is not done in time."""

    rest_url = "http://nowhere"
    logs_hint = "Look."

    def __init__(
        self, found: list[Finding], error: StackError | None = None, code: int = 0
    ) -> None:
        self.output = "".join(f"{one.line()}\n" for one in found)
        self.error, self.code = error, code
        self.free_slots = 1
        self.ran: list[tuple[str, ...]] = []

    def overview(self) -> dict[str, Any]:
        return {"slots-available": self.free_slots}

    def flink(self, *arguments: str, **_: Any) -> subprocess.CompletedProcess[str]:
        self.ran.append(arguments)
        if self.error:
            raise self.error
        return subprocess.CompletedProcess(arguments, self.code, self.output, f"it said {_JAAS}")


@pytest.fixture(autouse=True)
def _packaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.flink_run.package", lambda: None)
    monkeypatch.setattr("jobs.sql.topics._there", lambda _: set(_TOPICS))


def _run(monkeypatch: pytest.MonkeyPatch, cluster: _Cluster, *arguments: str) -> Any:
    monkeypatch.setattr("ops.audit.cli.choose", lambda *_: cluster)
    return CliRunner().invoke(app, ["audit", "--config", str(_CONFIG), *arguments])


def test_nothing_found_is_success(monkeypatch: pytest.MonkeyPatch) -> None:
    done = _run(monkeypatch, _Cluster([_CLEAN]))
    assert done.exit_code == 0
    assert done.stdout.split() == ["duplicates", "ok"]


def test_what_was_found_is_told_with_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    done = _run(monkeypatch, _Cluster([_DIRTY, _CLEAN]))
    assert done.exit_code == 1
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines == [
        "wrong_nulls  1,200 rows",
        "Wrong nulls: a miss.",
        "retry[0]@7: had a row",
        "and 1,199 more",
        "duplicates   ok",
    ]


def test_a_program_gets_json(monkeypatch: pytest.MonkeyPatch) -> None:
    done = _run(monkeypatch, _Cluster([_DIRTY]), "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout) == {
        "clean": False,
        "audits": [
            {
                "name": "wrong_nulls",
                "rows": 1_200,
                "first": [{"source": "retry[0]@7", "problem": "had a row"}],
            }
        ],
    }


def test_it_runs_attached_over_these_topics_and_no_other_audit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = _Cluster([_CLEAN])
    _run(
        monkeypatch, cluster, "--sql", str(tmp_path), "--only", "duplicates", "--set", "job.name=x"
    )
    ((verb, *rest),) = cluster.ran
    assert (verb, "-d" in rest) == ("run", False)
    assert rest[rest.index("-py") + 1].endswith("jobs/audit_sql.py")
    assert rest[rest.index("--set") + 1] == "job.name=x"
    assert rest[rest.index("--sql") + 1] == str(tmp_path)
    assert rest[rest.index("--only") + 1] == "duplicates"
    assert rest[rest.index("--name") + 1].startswith("audit of x ")


def test_a_client_that_is_not_done_in_time_leaves_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _Cluster([], StackError("not done after 1 s.", "Look."))
    cancelled: list[str] = []

    def jobs(_: object) -> list[dict[str, str]]:
        name = cluster.ran[0][cluster.ran[0].index("--name") + 1]
        return [
            {"jid": "ours", "name": name, "state": "RUNNING"},
            {"jid": "over", "name": name, "state": "FAILED"},
            {"jid": "other", "name": "orders-enrich", "state": "RUNNING"},
        ]

    monkeypatch.setattr("ops.flink_run.jobs", jobs)
    monkeypatch.setattr("ops.flink_run.cancel", lambda _, job_id: cancelled.append(job_id))
    done = _run(monkeypatch, cluster)
    assert done.exit_code == 2
    assert "not done after 1 s" in done.stderr
    assert cancelled == ["ours"]


def test_a_password_is_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.flink_run.jobs", lambda _: [])
    done = _run(
        monkeypatch,
        _Cluster([], code=1),
        *("--set", "kafka.properties.security.protocol=SASL_PLAINTEXT"),
        *("--set", "kafka.properties.sasl.mechanism=PLAIN"),
        *("--set", f"kafka.properties.sasl.jaas.config={_JAAS}"),
    )
    assert done.exit_code == 2
    assert "exited with 1" in done.stderr
    assert "s3cret" not in done.output


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("output.retry=a1.retyr", "output.retry: topic a1.retyr: not there at "),
        ("output.also.board=emit_null", "output.also.board: topic board: not there at "),
    ],
)
def test_a_topic_that_is_not_there_is_named_before_anything_is_run(
    monkeypatch: pytest.MonkeyPatch, setting: str, said: str
) -> None:
    cluster = _Cluster([_CLEAN])
    done = _run(monkeypatch, cluster, "--set", setting)
    assert done.exit_code == 2
    assert said in done.stderr
    assert cluster.ran == []


def test_that_no_slot_is_free_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _Cluster([_CLEAN])
    cluster.free_slots = 0
    done = _run(monkeypatch, cluster, "--timeout", "60")
    assert done.exit_code == 0
    assert "No slot is free at http://nowhere" in done.stderr
    assert "for 60 s at most" in done.stderr
    assert done.stdout.split() == ["duplicates", "ok"]
