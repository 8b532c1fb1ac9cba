"""Deploys that are too slow for CI: rescaling, the way back by hand, new code on the workers."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ops.deploy import packages
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
