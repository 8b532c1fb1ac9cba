"""What the real engine hands on of what others say."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from ops import flink_run
from ops.cluster import RemoteCluster, UnreachableError, ask
from ops.deploy.engine import FlinkEngine, Workers, newest_state
from ops.deploy.errors import DeployError
from ops.deploy.journal import Journal, Version
from ops.status.model import Status, judge
from tests.ops.test_deploy_actions import CONFIG
from tests.ops.test_status_model import RUNNING
from udfs.core.errors import StackError


class Refusing(RemoteCluster):
    """A cluster whose `flink run` prints what it was told, secrets too, and fails."""

    def flink(
        self, *arguments: str, timeout_s: float = 180, keep_open: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(arguments, 1, "login with hunter2 failed\n", "")


def _engine(cluster: RemoteCluster, journal: Journal) -> FlinkEngine:
    def each(_status: Status) -> None:
        pass

    return FlinkEngine(cluster, journal, Workers(), savepoint_timeout_s=1, say=print, each=each)


def test_what_the_client_prints_is_scrubbed_before_anybody_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", "hunter2")
    journal = Journal("orders", tmp_path)
    version = Version(1, "orders", "deploy", 1, 'x = "${env:PW}"', package="p.zip")
    folder = journal.files(version)
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "p.zip", "w") as zipped:
        zipped.writestr("jobs/enrich.py", "")

    engine = _engine(Refusing("http://localhost:1", home=tmp_path), journal)
    with pytest.raises(DeployError, match=r"login with \*\*\* failed") as caught:
        engine.submit(version, "", table_only=False)
    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in str(error)
        error = error.__cause__ or error.__context__
    assert "hunter2" not in "".join(p.read_text() for p in folder.iterdir() if p.suffix != ".zip")


# -------------------------------------------------------------------------- a JobManager's answers


class _JobManager(BaseHTTPRequestHandler):
    """Answers each question with the next of ``answers``, the last one for ever."""

    answers: ClassVar[list[tuple[int, object]]] = []
    asked: ClassVar[list[str]] = []

    def _answer(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        code, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    do_GET = _answer  # noqa: N815  (http.server's name)
    do_PATCH = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def jobmanager(tmp_path: Path) -> Iterator[RemoteCluster]:
    _JobManager.asked.clear()
    server = HTTPServer(("127.0.0.1", 0), _JobManager)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield RemoteCluster(f"http://127.0.0.1:{server.server_port}", home=tmp_path)
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_jobmanager_that_does_not_lead_yet_has_not_answered(jobmanager: RemoteCluster) -> None:
    _JobManager.answers = [(503, {"errors": ["Service temporarily unavailable"]})]
    with pytest.raises(UnreachableError):
        ask(jobmanager, "GET", "/jobs/overview")


def test_a_cancel_outlasts_the_change_of_jobmanagers(
    jobmanager: RemoteCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ops.deploy.engine._POLL_S", 0.01)
    away = (503, {"errors": ["leader election"]})
    job = {"jid": "a" * 32, "name": "orders", "state": "RUNNING", "start-time": 1}
    _JobManager.answers = [
        away,
        away,
        (200, {"jobs": [job]}),
        (200, {"state": "RUNNING"}),
        (202, {}),
        (200, {"state": "CANCELED"}),
    ]
    _engine(jobmanager, Journal("orders", tmp_path)).cancel("a" * 32)
    assert f"PATCH /jobs/{'a' * 32}?mode=cancel" in _JobManager.asked


def test_a_cancel_gives_up_after_a_while_and_says_so(
    jobmanager: RemoteCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ops.deploy.engine._JOBMANAGER_S", 0.05)
    monkeypatch.setattr("ops.deploy.engine._POLL_S", 0.01)
    _JobManager.answers = [(503, {"errors": ["leader election"]})]
    with pytest.raises(UnreachableError):
        _engine(jobmanager, Journal("orders", tmp_path)).cancel("a" * 32)


def test_a_job_that_ends_by_itself_while_it_is_cancelled_has_ended(
    jobmanager: RemoteCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, finished = (200, {"state": "RUNNING"}), (200, {"state": "FINISHED"})
    ended = (409, {"errors": ["already reached another terminal state (FINISHED)"]})
    # What REST says of a job is some seconds old.
    _JobManager.answers = [running, ended, running, finished]
    flink_run.cancel(jobmanager, "a" * 32)
    monkeypatch.setattr("ops.flink_run._REFRESHED_S", 0.0)
    _JobManager.answers = [running, ended, running]
    with pytest.raises(StackError, match="409"):
        flink_run.cancel(jobmanager, "a" * 32)


def test_a_vertex_of_which_one_subtask_runs_is_not_running_yet(jobmanager: RemoteCluster) -> None:
    tasks = {"DEPLOYING": 1, "RUNNING": 1, "FINISHED": 0}
    job = {"state": "RUNNING", "vertices": [{"status": "RUNNING", "tasks": tasks}]}
    _JobManager.answers = [(200, job)]
    assert not flink_run.runs(jobmanager, "a" * 32)
    _JobManager.answers = [(200, {**job, "vertices": [{"tasks": {"RUNNING": 2}}]})]
    assert flink_run.runs(jobmanager, "a" * 32)


def test_after_a_stop_the_savepoint_is_the_newest_state_and_the_checkpoints_are_gone() -> None:
    checkpoint = {"id": 7, "external_path": "chk-7", "discarded": False}
    savepoint = {"id": 8, "external_path": "savepoint-8", "discarded": False}
    assert newest_state({"completed": checkpoint, "savepoint": savepoint}) == "savepoint-8"
    assert newest_state({"completed": {**checkpoint, "id": 9}, "savepoint": savepoint}) == "chk-7"
    gone = {**checkpoint, "id": 9, "discarded": True}
    assert newest_state({"completed": gone, "savepoint": savepoint}) == "savepoint-8"
    assert newest_state({"completed": gone, "savepoint": None}) == ""


@pytest.mark.parametrize(
    ("state", "told"), [("CANCELED", "no failure is recorded"), ("FAILED", "before it had tasks")]
)
def test_a_job_that_somebody_cancelled_has_not_failed(
    jobmanager: RemoteCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    told: str,
) -> None:
    class Ended:
        def __init__(self, *_: object, **__: object) -> None: ...

        def until(self, *_: object, **__: object) -> tuple[Status, bool]:
            return judge(replace(RUNNING, state=state)), True

        def close(self) -> None: ...

    monkeypatch.setattr("ops.deploy.engine.Watch", Ended)
    _JobManager.answers = [(200, {"exceptionHistory": {"entries": []}})]
    version = Version(1, "orders", "deploy", 1, CONFIG)
    engine = _engine(jobmanager, Journal("orders", tmp_path))
    outcome = engine.wait_loaded(version, "a" * 32, 1)
    assert (outcome.ready, outcome.alive) == (False, False)
    assert told in outcome.reason
