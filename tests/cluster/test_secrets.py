"""A broker that asks for a password: the job logs in, and nobody else learns the password."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from ops import flink_run
from ops.stack.flink import FlinkCluster
from tests.support.join_job import JoinJob, names, order, product
from tests.support.letters import Letters
from tests.support.secured import PASSWORD, USER, SecuredKafka, secured_kafka
from udfs.core.errors import StackError

_VARIABLE = "TABLEGATE_TEST_PASSWORD"
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, stack_folder: Path) -> Iterator[SecuredKafka]:
    assert stack_folder
    with secured_kafka(tmp_path_factory.mktemp("secured")) as running:
        yield running


def test_a_job_logs_in_on_both_clients_and_its_password_is_written_nowhere(
    secured: SecuredKafka, flink: FlinkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(_VARIABLE, PASSWORD)
    job = _job(secured, flink, tmp_path)
    secured.plain.produce(job.products, [product("p1", "mug")])
    secured.plain.produce(job.orders, [order(1, "p1")])
    job.start(by_command_line=True)
    try:
        job.wait_for(1)
        assert names(job.read("enriched")) == {b"o1": "mug"}
        told = "\n".join(_everything_the_cluster_tells(flink, job.job_id))
    finally:
        job.cancel()
    assert "gated join" in told
    assert f"gate of {job.products}: open" in told
    _assert_no_password(told)


def test_a_refused_submission_does_not_print_the_password_either(
    secured: SecuredKafka, flink: FlinkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(_VARIABLE, "another-" + "password-9f3")
    job = _job(secured, flink, tmp_path)
    with pytest.raises(StackError, match="Authentication failed") as refused:
        job.start(by_command_line=True)
    assert "another-" + "password-9f3" not in str(refused.value) + flink.logs()


def test_retry_logs_in_too_and_prints_no_password(
    secured: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(_VARIABLE, PASSWORD)
    letters = Letters(secured.plain, tmp_path, brokers=secured.sasl)
    _log_in(letters.config)
    letters.write(letters.letter(0))
    assert letters.listed()["found"] == 1
    assert "1 dead letter " in letters.replay()
    assert len(letters.read("retry")) == 1
    monkeypatch.setenv(_VARIABLE, "another-" + "password-9f3")
    code, out, told = letters.run("replay", "--yes")
    assert code == 1
    assert "refuse the connection" in told
    assert "another-" + "password-9f3" not in out + told


def _job(secured: SecuredKafka, flink: FlinkCluster, folder: Path) -> JoinJob:
    job = JoinJob(secured.plain, flink, folder, brokers=secured.sasl)
    _log_in(job.config)
    return job


def _log_in(config: Path) -> None:
    login = f'{_LOGIN} required username="{USER}" password="${{env:{_VARIABLE}}}";'
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": login,
    }
    lines = (f"{json.dumps(name)} = {json.dumps(value)}" for name, value in properties.items())
    with config.open("a") as file:
        file.write("\n[kafka.properties]\n" + "\n".join(lines) + "\n")


def _everything_the_cluster_tells(flink: FlinkCluster, job_id: str) -> Iterator[str]:
    yield flink.logs()
    for log in flink.folder.rglob("*"):
        if log.is_file() and log.suffix in {".log", ".out", ".yaml", ".txt"}:
            yield log.read_text(errors="replace")
    job = _get(flink, f"/jobs/{job_id}")
    yield json.dumps(job)
    for path in ("config", "plan", "exceptions", "checkpoints", "checkpoints/config"):
        yield json.dumps(_get(flink, f"/jobs/{job_id}/{path}"))
    for vertex in job["vertices"]:
        yield json.dumps(_get(flink, f"/jobs/{job_id}/vertices/{vertex['id']}"))
    yield json.dumps(_get(flink, "/jobmanager/config"))
    yield json.dumps(flink_run.jobs(flink))


def _get(flink: FlinkCluster, path: str) -> Any:
    answer = requests.get(flink.rest_url + path, timeout=10)
    answer.raise_for_status()
    return answer.json()


def _assert_no_password(told: str) -> None:
    # As it is, and as JAAS, JSON and both together write it.
    once = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    for written in (PASSWORD, once, json.dumps(PASSWORD)[1:-1], json.dumps(once)[1:-1]):
        assert written not in told
