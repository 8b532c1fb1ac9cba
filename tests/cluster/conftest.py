"""Fixtures of the tests on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from ops.stack.flink import FlinkCluster
from ops.stack.gateway import SqlGateway
from tests.support.join_job import JoinJob
from tests.support.kafka import Kafka
from tests.support.letters import Letters


class NewJob(Protocol):
    """Makes a JoinJob, with JoinJob's own keyword arguments."""

    def __call__(self, **options: Any) -> JoinJob: ...


@pytest.fixture
def letters(kafka: Kafka, tmp_path: Path) -> Letters:
    """Topics of a job that does not run, for dead letters."""
    return Letters(kafka, tmp_path)


@pytest.fixture
def new_job(kafka: Kafka, flink: FlinkCluster, tmp_path: Path) -> Iterator[NewJob]:
    """Makes jobs on the session's Kafka and Flink, and cancels them after the test."""
    made: list[JoinJob] = []

    def make(**options: Any) -> JoinJob:
        made.append(JoinJob(kafka, flink, tmp_path, **options))
        return made[-1]

    yield make
    for job in made:
        job.cancel()


@pytest.fixture(scope="session")
def sql_gateway(flink: FlinkCluster, stack_folder: Path) -> Iterator[SqlGateway]:
    """Flink's SQL gateway for the session's cluster."""
    with SqlGateway(stack_folder / "sql-gateway", flink) as running:
        yield running
