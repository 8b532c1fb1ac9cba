"""A savepoint whose files are damaged: what the person on call is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ops import flink_run
from ops.deploy import savepoints
from tests.cluster.conftest import NewJob
from tests.support.deploys import status
from tests.support.join_job import order, product

pytestmark = pytest.mark.full


def test_status_names_the_damaged_file_and_the_way_out(new_job: NewJob) -> None:
    job = new_job()
    # So large that its state is files of its own, and not a part of the savepoint's metadata.
    job.kafka.produce(job.products, [product(f"p{n}", "x" * 3_000) for n in range(200)])
    job.kafka.produce(job.orders, [order(n, f"p{n}") for n in range(20)])
    job.start()
    job.wait_for(20)
    savepoint = Path(savepoints.local_path(job.stop()))

    holed = savepoint.with_name("holed")
    shutil.copytree(savepoint, holed)
    files = [file for file in holed.iterdir() if file.name != "_metadata"]
    assert files
    for file in files:
        file.unlink()
    job.start(from_savepoint=str(holed), wait=False)
    job.wait_until(lambda: bool(job.failure()), "a failed attempt")
    job.wait_until(lambda: "is missing" in status(job)[1]["cause"], "the cause")
    code, told = status(job)
    assert (code, told["phase"]) == (3, "restarting")
    assert f"the state file {holed}" in told["cause"].replace("file:", "")
    assert "Start from an older savepoint" in told["cause"]
    job.cancel()

    cut = savepoint.with_name("cut")
    shutil.copytree(savepoint, cut)
    (cut / "_metadata").write_bytes((cut / "_metadata").read_bytes()[:50])
    job.start(from_savepoint=str(cut), wait=False)
    job.wait_until(lambda: flink_run.job_state(job.flink, job.job_id) == "FAILED", "the end")
    code, told = status(job)
    assert (code, told["phase"]) == (4, "failed")
    assert "The JobManager's log names the file" in told["cause"]
    assert job.written() == 20
