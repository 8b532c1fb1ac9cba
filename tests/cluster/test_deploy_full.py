"""Deploys that are too slow for CI: rescaling, the way back by hand, new code on the workers."""

from __future__ import annotations

import shlex
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ops.cli import app
from ops.deploy import packages
from ops.deploy.errors import DeployError
from ops.stack.flink import FlinkCluster
from tests.support.deploys import Deploys
from tests.support.join_job import JoinJob, names, order, product
from tests.support.kafka import Kafka

pytestmark = pytest.mark.full


@pytest.fixture
def deploys(kafka: Kafka, flink: FlinkCluster, tmp_path: Path) -> Iterator[Deploys]:
    made = Deploys(JoinJob(kafka, flink, tmp_path), tmp_path)
    yield made
    made.track()
    made.job.cancel()


def test_rescaled_and_rolled_back_by_hand_each_event_is_joined(deploys: Deploys) -> None:
    job, kafka = deploys.job, deploys.job.kafka
    kafka.produce(job.products, [product(f"p{n}", f"row-{n}") for n in range(100)])
    kafka.produce(job.orders, [order(n, f"p{n}") for n in range(100)])
    deploys.adopt()
    job.wait_for(100)
    deploys.rescale(2)
    kafka.produce(job.orders, [order(n + 100, f"p{n}") for n in range(100)])
    job.wait_for(200)
    assert len(job.read("enriched")) == 200
    back = deploys.rollback()
    assert (back.copy_of, back.settings().job.parallelism) == (1, 1)
    # It goes back to its own savepoint, so what came later is joined again.
    job.wait_for(300)
    assert names(job.read("enriched")) == {f"o{n}".encode(): f"row-{n % 100}" for n in range(200)}
    assert deploys.results() == ["replaced", "replaced", "running"]
    assert job.read("retry") == job.read("dead") == []


@pytest.fixture
def other_code(flink: FlinkCluster) -> Iterator[None]:
    """For a test that leaves other code in the workers: the next test gets workers without it."""
    yield
    for number in flink.taskmanagers():
        flink.kill_taskmanager(number)
        flink.start_taskmanager(wait=False)
    flink.wait_for_taskmanagers()


@pytest.mark.usefixtures("other_code")
def test_new_code_gets_new_workers_and_keeps_the_state(deploys: Deploys) -> None:
    job, kafka = deploys.job, deploys.job.kafka
    kafka.produce(job.products, [product(f"p{n}", f"row-{n}") for n in range(100)])
    kafka.produce(job.orders, [order(n, f"p{n}") for n in range(100)])
    deploys.adopt()
    job.wait_for(100)
    before = job.flink.taskmanagers()
    new = deploys.version()
    folder = deploys.journal.files(new)
    with zipfile.ZipFile(folder / new.package, "a") as zipped:
        zipped.writestr("udfs/brand_new.py", "X = 1\n")
    new = replace(new, code=packages.code(folder, new.package, ()))
    started = deploys.session().upgrade(new, "", reload_table=False)
    assert started is not None
    deploys.track()
    kafka.produce(job.orders, [order(n + 100, f"p{n}") for n in range(100)])
    job.wait_for(200)
    assert set(before.values()).isdisjoint(job.flink.taskmanagers().values())
    assert len(job.read("enriched")) == 200
    assert job.read("retry") == job.read("dead") == []


_RESTART = """
from pathlib import Path
from ops.stack.flink import FlinkCluster
cluster = FlinkCluster(Path({folder!r}))
for number in cluster.taskmanagers():
    cluster.kill_taskmanager(number)
    cluster.start_taskmanager(wait=False)
"""


def test_workers_of_a_foreign_cluster_are_restarted_by_the_given_command(deploys: Deploys) -> None:
    job, kafka = deploys.job, deploys.job.kafka
    kafka.produce(job.products, [product(f"p{n}", f"row-{n}") for n in range(100)])
    kafka.produce(job.orders, [order(n, f"p{n}") for n in range(100)])
    old = deploys.adopt()
    deploys.journal.write(replace(old, code="what ran before"))
    job.wait_for(100)
    before = job.flink.taskmanagers()
    command = [sys.executable, "-c", _RESTART.format(folder=str(job.flink.folder))]
    line = ["upgrade", "--job", job.orders, "--journal", str(deploys.folder)]
    line += ["--rest-url", job.flink.rest_url, "--flink-home", str(job.flink.home)]
    refused = CliRunner().invoke(app, line)
    assert refused.exit_code == 2, refused.output
    assert before == job.flink.taskmanagers()
    done = CliRunner().invoke(app, [*line, "--restart-workers", shlex.join(command)])
    deploys.track()
    assert done.exit_code == 0, done.output
    assert set(before.values()).isdisjoint(job.flink.taskmanagers().values())
    kafka.produce(job.orders, [order(n + 100, f"p{n}") for n in range(100)])
    job.wait_for(200)
    assert len(job.read("enriched")) == 200
    assert deploys.results() == ["replaced", "running"]
    assert job.read("retry") == job.read("dead") == []


def test_rescaled_in_place_the_job_keeps_its_id_and_its_next_version_the_parallelism(
    deploys: Deploys,
) -> None:
    job, kafka = deploys.job, deploys.job.kafka
    kafka.produce(job.products, [product(f"p{n}", f"row-{n}") for n in range(100)])
    kafka.produce(job.orders, [order(n, f"p{n}") for n in range(100)])
    old = deploys.adopt()
    job.wait_for(100)
    with pytest.raises(DeployError, match=r"job\.max_parallelism = 128"):
        deploys.session().rescale_in_place(129)
    wide = deploys.session().rescale_in_place(2)
    assert wide is not None
    assert (wide.job_id, wide.settings().job.parallelism) == (old.job_id, 2)
    kafka.produce(job.orders, [order(n + 100, f"p{n}") for n in range(100)])
    job.wait_for(200)
    upgraded = deploys.upgrade(["table.fields.brand=brand"])
    assert upgraded.settings().job.parallelism == 1, "a config file says what it says"
    kafka.produce(job.orders, [order(n + 200, f"p{n}") for n in range(100)])
    job.wait_for(300)
    assert names(job.read("enriched")) == {f"o{n}".encode(): f"row-{n % 100}" for n in range(300)}
    assert deploys.results() == ["replaced", "replaced", "running"]
    assert job.read("retry") == job.read("dead") == []
