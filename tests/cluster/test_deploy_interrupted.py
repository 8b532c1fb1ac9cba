"""Commands killed in the middle, and a JobManager that is: one job, and each event once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from ops import flink_run
from ops.cli import app
from ops.paths import VENV_PYTHON
from ops.stack.flink import FlinkCluster
from tests.support.deploys import Deploys
from tests.support.join_job import JoinJob, order, product
from tests.support.kafka import Kafka

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

_N = 100


@pytest.fixture
def deploys(kafka: Kafka, flink: FlinkCluster, tmp_path: Path) -> Iterator[Deploys]:
    made = Deploys(JoinJob(kafka, flink, tmp_path), tmp_path)
    job = made.job
    kafka.produce(job.products, [product(f"p{n}", f"row-{n}") for n in range(_N)])
    kafka.produce(job.orders, [order(n, f"p{n}") for n in range(_N)])
    made.adopt()
    job.wait_for(_N)
    yield made
    made.track()
    job.cancel()


def _line(deploys: Deploys) -> list[str]:
    job = deploys.job
    line = ["upgrade", "--job", job.orders, "--journal", str(deploys.folder)]
    return [*line, "--rest-url", job.flink.rest_url, "--flink-home", str(job.flink.home)]


def _started(line: Sequence[str], says: str) -> subprocess.Popen[str]:
    """The command, running, at the moment when it has said that."""
    command = subprocess.Popen(
        [str(VENV_PYTHON.with_name("tablegate")), *line],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert command.stdout is not None
    heard = []
    for text in command.stdout:
        heard.append(text)
        if text.startswith(says):
            return command
    raise AssertionError(f"it ended without {says!r}: {heard}")


def _jobs(deploys: Deploys) -> list[str]:
    listed = flink_run.jobs(deploys.job.flink)
    alive = [job for job in listed if job["state"] in {"CREATED", "RUNNING", "RESTARTING"}]
    return [job["jid"] for job in alive if job["name"] == deploys.job.orders]


def _each_new_event_comes_out_once(deploys: Deploys) -> None:
    job = deploys.job
    job.kafka.produce(job.orders, [order(n + _N, f"p{n}") for n in range(_N)])
    job.wait_for(2 * _N)
    # Behind its barrier is nothing that was read before: what may come twice has come twice.
    job.checkpoint()
    keys = sorted(str(record.key) for record in job.read("enriched"))
    assert keys == sorted(str(f"o{n}".encode()) for n in range(2 * _N))
    assert job.read("retry") == job.read("dead") == []


def test_a_command_that_is_killed_while_it_submits_leaves_one_job(deploys: Deploys) -> None:
    killed = _started(_line(deploys), "Starting version")
    deploys.job.wait_until(lambda: bool(psutil.Process(killed.pid).children()), "flink run")
    killed.kill()
    killed.communicate()
    done = CliRunner().invoke(app, _line(deploys))
    # `flink run` lives on, and holds the lock until it is done.
    assert done.exit_code == 2, done.output
    assert "Another tablegate command" in done.output + (done.stderr or "")

    def free() -> bool:
        nonlocal done
        done = CliRunner().invoke(app, _line(deploys))
        return done.exit_code != 2

    deploys.job.wait_until(free, "the lock")
    assert done.exit_code == 0, done.output
    deploys.track()
    assert len(_jobs(deploys)) == 1
    assert deploys.results() == ["replaced", "replaced", "running"]
    _each_new_event_comes_out_once(deploys)


def test_a_command_that_is_killed_while_it_waits_leaves_its_version_in_charge(
    deploys: Deploys,
) -> None:
    killed = _started(_line(deploys), "  ")
    killed.kill()
    killed.communicate()
    back = deploys.rollback()
    assert back.copy_of == 1
    assert back.started_from == deploys.journal.versions()[0].stopped_with
    assert deploys.results() == ["replaced", "replaced", "running"]
    assert _jobs(deploys) == [back.job_id]
    _each_new_event_comes_out_once(deploys)


def test_a_jobmanager_that_dies_during_an_upgrade_leaves_one_job(deploys: Deploys) -> None:
    command = _started(_line(deploys), "  ")
    deploys.job.flink.kill_jobmanager()
    deploys.job.flink.start_jobmanager()
    output, _ = command.communicate()
    assert command.returncode in {0, 3}, output
    deploys.track()
    assert len(_jobs(deploys)) == 1, output
    _each_new_event_comes_out_once(deploys)
