"""What k8s/job.yaml submits, on a JobManager of the same kind without Kubernetes.

The operator makes a command line of the manifest's entry class and arguments; whether these start
the job can be seen without it.
"""

from __future__ import annotations

from pathlib import Path

import requests
import yaml

from ops.paths import ROOT
from ops.stack.flink import FlinkCluster
from tests.support.join_job import JoinJob, names, order, product
from tests.support.kafka import Kafka

_IN_IMAGE = "/opt/tablegate"


class ApplicationCluster(FlinkCluster):
    """A cluster whose JobManager runs one job's program itself."""

    def __init__(self, folder: Path, program: list[str]) -> None:
        super().__init__(folder)
        self._program = program

    def _spawn(self, name: str, script: str, *arguments: str) -> None:
        if script == "jobmanager.sh":
            script, arguments = "standalone-job.sh", (*arguments, *self._program)
        super()._spawn(name, script, *arguments)


def test_the_manifests_program_runs_the_job_in_application_mode(
    kafka: Kafka, tmp_path: Path, stack_folder: Path
) -> None:
    place = stack_folder / "application"
    job = JoinJob(kafka, FlinkCluster(place), tmp_path)
    kafka.produce(job.products, [product("p1", "mug")])
    kafka.produce(job.orders, [order(1, "p1")])
    submitted = yaml.safe_load((ROOT / "k8s" / "job.yaml").read_text())["spec"]["job"]
    mounted = submitted["args"][submitted["args"].index("--config") + 1]
    arguments = [
        str(job.config) if part == mounted else part.replace(_IN_IMAGE, str(ROOT), 1)
        for part in submitted["args"]
    ]
    program = ["--job-classname", submitted["entryClass"], *arguments]
    with ApplicationCluster(place, program) as cluster:
        job.flink = cluster
        job.wait_until(lambda: job.written() >= 1, "the order, enriched")
        assert names(job.read("enriched")) == {b"o1": "mug"}
        (running,) = requests.get(f"{cluster.rest_url}/jobs/overview", timeout=10).json()["jobs"]
        assert (running["name"], running["state"]) == (job.orders, "RUNNING")
