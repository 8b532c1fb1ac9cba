"""`tablegate status` as a probe sees it: exit codes and JSON, from a JobManager of few answers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from ops import cli
from ops.cluster import choose
from ops.deploy import journal
from ops.deploy.journal import Journal, Result, Version
from ops.paths import ROOT
from ops.stack.local import Stack
from ops.status.cli import _settings
from ops.status.model import Exit
from tests.ops.test_deploy_actions import CONFIG

ID = "0" * 31
# No broker answers there.
_CONFIG = CONFIG.replace("localhost:9092", "127.0.0.1:1")


@dataclass
class JobManager:
    """Answers what it was told to, on a port of its own."""

    jobs: list[dict[str, Any]] = field(default_factory=list)
    body: bytes = b""
    restarts: int = 0
    trace: str = ""
    """What the job was restarted for last."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, number: int, state: str, name: str = "orders") -> str:
        job_id = f"{ID}{number}"
        self.jobs.append({"jid": job_id, "name": name, "state": state, "start-time": number})
        return job_id

    def answer(self, path: str) -> Any:
        *_, last = path.partition("?")[0].split("/")
        # A job with no task yet: enough to be judged from Flink alone.
        details: dict[str, Any] = {
            "state": self.jobs[-1]["state"] if self.jobs else "",
            "now": 0,
            "vertices": [],
        }
        known: dict[str, Any] = {
            "/overview": {"taskmanagers": 2, "slots-total": 3},
            "/jobs/overview": {"jobs": self.jobs},
            "exceptions": {
                "exceptionHistory": {"entries": [{"stacktrace": self.trace}] if self.trace else []}
            },
            "checkpoints": {"latest": {"restored": None}},
            "metrics": [{"value": str(self.restarts)}] if self.restarts else [],
            "config": [],
        }
        return known.get(path, known.get(last, details))


@pytest.fixture
def jobmanager() -> Iterator[JobManager]:
    found = JobManager()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = found.body or json.dumps(found.answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield found
        server.shutdown()
        thread.join()


@dataclass
class Local:
    """The files of a local stack; this test's own process stands in for those that live."""

    folder: Path

    def started(self, port: int, *, alive: bool = True, broker: bool = True) -> None:
        me = {"pid": os.getpid(), "started": psutil.Process().create_time()}
        gone = {"pid": os.getpid(), "started": 1.0}
        flink, other = me if alive else gone, me if broker else gone
        parts = {
            "flink": {"jobmanager": flink, "zookeeper": me},
            "broker": {"broker": other},
        }
        for part, processes in parts.items():
            (self.folder / part).mkdir(parents=True)
            listed = [{"name": name, **record} for name, record in processes.items()]
            (self.folder / part / "processes.json").write_text(json.dumps(listed))
            (self.folder / part / "ports.json").write_text(json.dumps([port, 1]))


@pytest.fixture(autouse=True)
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Local:
    """No journal and no stack but this test's."""
    folder = tmp_path / "stack"
    here = Stack(folder)
    monkeypatch.setattr(journal, "FOLDER", tmp_path / "deployments")
    monkeypatch.setattr(cli, "Stack", lambda: here)
    monkeypatch.setattr(
        "ops.status.cli.choose", lambda url, home: choose(url, home, {}) if url else here.flink
    )
    return Local(folder)


def status(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and the one object of `--json`; the plain command has to exit with the same."""
    plain = CliRunner().invoke(cli.app, ["status", *arguments])
    done = CliRunner().invoke(cli.app, ["status", "--json", *arguments])
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert plain.exit_code == done.exit_code
    (line,) = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    assert found["ready"] is (done.exit_code == Exit.READY)
    return done.exit_code, found


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def journalled(job: str, result: Result = Result.RUNNING, name: str = "orders") -> None:
    config = _CONFIG.replace('name = "orders"', f'name = "{name}"')
    Journal(job).write(Version(1, job, "deploy", 7, config, job_id="x").ended(result))


def test_why_a_job_is_being_restarted_is_said_while_it_is(jobmanager: JobManager) -> None:
    jobmanager.add(1, "RESTARTING")
    jobmanager.trace = (
        "Could not restore keyed state backend\nCaused by: FileNotFoundException: /sp/8"
    )
    # Of a failure before this start nothing is said.
    assert status("--rest-url", jobmanager.url, "--job", "orders")[1]["cause"] == ""
    jobmanager.restarts = 2
    code, found = status("--rest-url", jobmanager.url, "--job", "orders")
    assert (code, found["phase"]) == (Exit.NOT_READY, "restarting")
    assert "the state file /sp/8 is missing" in found["cause"]


# --------------------------------------------------------------------------------- no job named


@pytest.mark.parametrize("alive", [[], ["--alive"]])
@pytest.mark.parametrize(
    ("state", "phase"), [("FAILED", "failed"), ("FINISHED", "stopped"), ("CANCELED", "stopped")]
)
def test_a_probe_that_names_no_job_is_red_when_the_only_one_ended(
    alive: list[str], state: str, phase: str, jobmanager: JobManager, local: Local
) -> None:
    job_id = jobmanager.add(1, state)
    local.started(jobmanager.port)
    for where in ([], ["--rest-url", jobmanager.url]):
        code, found = status(*alive, *where)
        assert (code, found["phase"], found["job"]["id"]) == (Exit.DEAD, phase, job_id)


@pytest.mark.parametrize("alive", [[], ["--alive"]])
def test_the_only_job_with_a_journal_is_the_one_that_is_meant(
    alive: list[str], jobmanager: JobManager, local: Local
) -> None:
    journalled("orders")
    local.started(jobmanager.port)
    code, found = status(*alive)
    assert (code, found["phase"], found["job"]["name"]) == (Exit.DEAD, "absent", "orders")
    # Flink may remember the run that loaded its table, alone or beside it.
    jobmanager.add(1, "FINISHED", "orders.table-load")
    code, found = status(*alive)
    assert (code, found["phase"], found["job"]["name"]) == (Exit.DEAD, "absent", "orders")
    jobmanager.add(2, "FAILED")
    code, found = status(*alive)
    assert (code, found["phase"], found["job"]["name"]) == (Exit.DEAD, "failed", "orders")


def test_a_journal_that_cannot_be_read_is_still_one(
    jobmanager: JobManager, local: Local, tmp_path: Path
) -> None:
    folder = tmp_path / "deployments" / "orders"
    folder.mkdir(parents=True)
    (folder / "0001.json").write_text("{}")
    local.started(jobmanager.port)
    code, found = status()
    assert (code, found["phase"], found["job"]["name"]) == (Exit.DEAD, "absent", "orders")


def test_of_several_one_has_to_be_named(jobmanager: JobManager, local: Local) -> None:
    local.started(jobmanager.port)
    jobmanager.add(1, "FAILED")
    jobmanager.add(2, "FAILED", "returns")
    code, found = status()
    assert (code, found["phase"]) == (Exit.ERROR, "unknown")
    assert "No job runs, and 2 are known: orders, returns. Choose one" in found["error"]
    # One of them has a journal, so it is no longer one among others.
    journalled("returns")
    assert status()[1]["job"]["name"] == "returns"
    jobmanager.add(3, "RUNNING")
    code, found = status()
    assert (code, found["job"]["id"]) == (Exit.NOT_READY, f"{ID}3")
    jobmanager.add(4, "RUNNING", "returns")
    assert "2 jobs run: orders, returns." in status()[1]["error"]


@pytest.mark.parametrize("alive", [[], ["--alive"]])
@pytest.mark.parametrize("broker", [True, False])
def test_where_there_never_was_a_job_the_addresses_are_shown_and_nothing_is_ready(
    alive: list[str], broker: bool, jobmanager: JobManager, local: Local
) -> None:
    local.started(jobmanager.port, broker=broker)
    code, found = status(*alive)
    assert (code, found["phase"]) == (Exit.DEAD, "absent")
    assert (found["rest_url"], found["slots"], found["jobs"]) == (jobmanager.url, 3, [])
    assert bool(found["notes"]) is not broker
    shown = CliRunner().invoke(cli.app, ["status", *alive]).stdout
    assert jobmanager.url in shown
    assert ("The broker does not run" in shown) is not broker


def test_a_cluster_elsewhere_without_a_job_is_not_answered_for_by_the_local_stack(
    jobmanager: JobManager, local: Local
) -> None:
    code, found = status("--rest-url", jobmanager.url)
    assert (code, found["phase"], found["rest_url"]) == (Exit.DEAD, "absent", jobmanager.url)


# --------------------------------------------------------------------------------- no answer


@pytest.mark.parametrize("named", [[], ["--job", "orders"]])
def test_a_dead_jobmanager_is_not_known_and_no_stack_is_an_error(
    named: list[str], jobmanager: JobManager, local: Local
) -> None:
    code, found = status(*named)
    assert (code, found["phase"]) == (Exit.ERROR, "unknown")
    assert found["error"] == f"No stack is up in {local.folder}. Run `tablegate up`."

    # Somebody else answers on its port: not asked.
    local.started(jobmanager.port, alive=False)
    code, found = status(*named)
    assert (code, found["phase"]) == (Exit.UNKNOWN, "unknown")
    assert "does not run. Run `tablegate up`." in found["error"]
    assert status("--alive", *named)[0] == Exit.UNKNOWN


@pytest.mark.parametrize("named", [[], ["--job", "orders"]])
def test_an_address_where_no_jobmanager_answers(named: list[str], jobmanager: JobManager) -> None:
    dead = f"http://127.0.0.1:{closed_port()}"
    code, found = status("--rest-url", dead, *named)
    assert (code, found["phase"]) == (Exit.UNKNOWN, "unknown")
    assert dead in found["error"]
    jobmanager.body = b"<html>It works!</html>"
    assert status("--rest-url", jobmanager.url, *named)[0] == Exit.UNKNOWN


def test_with_a_dead_broker_the_job_is_judged_from_flink_alone(
    jobmanager: JobManager, local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ops.status.reader._PATIENCE_S", 0.2)
    journalled("orders")
    jobmanager.add(1, "RUNNING")
    local.started(jobmanager.port, broker=False)
    code, found = status()
    assert (code, found["phase"], found["alive"]) == (Exit.NOT_READY, "starting", True)
    assert found["notes"][0].startswith("brokers: ")


def test_a_config_that_is_wrong_is_told_as_json_too(jobmanager: JobManager) -> None:
    jobmanager.add(1, "RUNNING")
    code, found = status("--rest-url", jobmanager.url, "--config", "none.toml")
    assert (code, found["phase"]) == (Exit.ERROR, "unknown")
    assert "none.toml" in found["error"]


# --------------------------------------------------------------------------------- the journal


# Of these two, one puts the id first in a set of both, the other the name.
@pytest.mark.parametrize("seed", ["3", "4"])
def test_the_journal_of_the_name_is_found_by_the_id(
    seed: str, jobmanager: JobManager, tmp_path: Path
) -> None:
    # In an interpreter of its own: the order of a set of texts is one of the interpreter's.
    job_id = jobmanager.add(1, "RUNNING")
    journalled("orders")
    journalled(job_id, name="of-a-job-that-is-called-like-an-id")
    program = (
        "import sys; from ops.cluster import choose; from ops.status.cli import _settings;"
        "print(_settings(choose(sys.argv[1]), sys.argv[2], None, None).job.name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, jobmanager.url, job_id],
        env={
            **os.environ,
            "PYTHONHASHSEED": seed,
            "TABLEGATE_DEPLOYMENTS": str(tmp_path / "deployments"),
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "orders\n", done.stderr


def test_a_name_without_a_version_that_lives_leaves_it_to_the_next(
    jobmanager: JobManager,
) -> None:
    cluster = choose(jobmanager.url)
    job_id = jobmanager.add(1, "RUNNING")
    assert _settings(cluster, job_id, None, None) is None
    journalled("orders", Result.FAILED)
    assert _settings(cluster, job_id, None, None) is None
    journalled(job_id)
    found = _settings(cluster, job_id, None, None)
    assert found is not None
