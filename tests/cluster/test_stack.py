"""The embedded broker and cluster, for real: they start, answer, die and come back."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import requests
from confluent_kafka import KafkaException

from ops import flink_run
from ops.cluster import ask
from ops.deploy.in_place import rescale_in_place
from ops.paths import FLINK_CONF, ROOT
from ops.stack.broker import Broker
from ops.stack.flink import FlinkCluster
from ops.stack.local import Stack
from ops.stack.processes import ours, wait_until
from tests.support.kafka import Kafka, Message
from udfs.core.errors import StackError

SMOKE_JOB = Path(__file__).with_name("smoke_job.py")


@pytest.fixture(scope="session")
def smoke_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smoke job's functions as a folder for `python.files`, which workers import from."""
    package = tmp_path_factory.mktemp("smoke") / "files" / "tests"
    (package / "cluster").mkdir(parents=True)
    for name in ("__init__.py", "cluster/__init__.py"):
        (package / name).touch()
    source = SMOKE_JOB.with_name("smoke_functions.py").read_text()
    (package / "cluster" / "smoke_functions.py").write_text(source)
    return package.parent


def submit_smoke(cluster: FlinkCluster, files: Path, from_savepoint: str | None = None) -> str:
    return flink_run.submit(
        cluster, entry=SMOKE_JOB, extra_python_files=[files], from_savepoint=from_savepoint
    )


@pytest.fixture
def broker(tmp_path: Path, stack_folder: Path) -> Iterator[Broker]:
    assert stack_folder  # its finaliser looks for what this one might leave
    with Broker(tmp_path / "broker", heap="512m") as running:
        yield running


def left(folder: Path) -> list[psutil.Process]:
    """Our processes below `folder` that live on; one that was killed may take a moment to end."""
    _, alive = psutil.wait_procs(ours(folder), timeout=10)
    return alive


def until(ready: Callable[[], bool], what: str) -> None:
    wait_until(ready, deadline_s=120, what=what, give_up=lambda: None)


def wait_for_checkpoint(cluster: FlinkCluster, job_id: str) -> None:
    def completed() -> bool:
        counts = ask(cluster, "GET", f"/jobs/{job_id}/checkpoints")["counts"]
        return bool(counts["completed"])

    until(completed, "a checkpoint")


# ------------------------------------------------------------------------------- broker


def test_a_killed_broker_comes_back_on_its_port_with_its_data(broker: Broker) -> None:
    kafka = Kafka(broker.bootstrap_servers)
    topic = kafka.create_topic("kept", 2, {"cleanup.policy": "compact"})
    kafka.produce(topic, [Message(b"k", b"v", [("h", b"1")], 1_000, 1)])
    before = broker.bootstrap_servers, broker.pid

    broker.kill()
    assert not broker.running
    broker.start()

    assert broker.bootstrap_servers == before[0]
    assert broker.pid != before[1]
    (record,) = Kafka(broker.bootstrap_servers).consume_all(topic)
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("h", b"1"),))
    assert (record.timestamp, record.source) == (1_000, f"{topic}[1]@0")


def test_starting_a_running_broker_changes_nothing(broker: Broker) -> None:
    pid = broker.pid
    broker.start()
    assert broker.pid == pid


def test_a_broker_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    broken = Broker(tmp_path / "broken", properties={"log.dirs": "/proc/nowhere"})
    with pytest.raises(StackError, match="/proc/nowhere"):
        broken.start()
    late = Broker(tmp_path / "late")
    with pytest.raises(StackError, match=r"not after 0\.1 s"):
        late.start(deadline_s=0.1)
    assert not broken.running
    assert not late.running
    assert left(tmp_path) == []


# ------------------------------------------------------------------------------- what tests see


def test_only_committed_records_are_read_unless_asked_for_all(kafka: Kafka) -> None:
    topic = kafka.create_topic("transactions")
    kafka.produce(topic, [(b"k", b"committed")], transactional=True)
    kafka.produce(topic, [(b"k", b"aborted")], transactional=True, abort=True)

    assert [record.value for record in kafka.consume_all(topic)] == [b"committed"]
    everything = kafka.consume_all(topic, "read_uncommitted")
    assert [record.value for record in everything] == [b"committed", b"aborted"]
    # Two records and two markers, which no consumer ever sees.
    assert kafka.end_offsets(topic) == {0: 4}


def test_a_topic_that_nobody_created_is_an_error(kafka: Kafka) -> None:
    with pytest.raises(KafkaException, match="Unknown topic"):
        kafka.consume_all("nobody-created-this")


# ------------------------------------------------------------------------------- Flink


def test_a_job_survives_a_killed_taskmanager_and_a_stop_with_savepoint(
    flink: FlinkCluster, smoke_files: Path
) -> None:
    job_id = submit_smoke(flink, smoke_files)
    flink_run.wait_running(flink, job_id)
    assert flink_run.restarts(flink, job_id) == 0
    assert flink_run.busy_taskmanagers(flink) == [0, 1]
    kept = flink.taskmanagers()[1]

    killed = flink.kill_taskmanager(0)
    assert flink.start_taskmanager() == 0
    assert flink.taskmanagers()[0] != killed
    flink_run.wait_restarted(flink, job_id)

    savepoint = flink_run.stop_with_savepoint(flink, job_id)
    assert Path(savepoint.removeprefix("file:")).is_relative_to(flink.savepoint_dir)

    # The second job's Python threads in the TaskManager that stayed: with flink-python in the job's
    # own class loader they died here.
    again = submit_smoke(flink, smoke_files, from_savepoint=savepoint)
    flink_run.wait_running(flink, again)
    assert flink.taskmanagers()[1] == kept
    flink_run.cancel(flink, again)
    flink_run.cancel(flink, again)
    assert flink_run.job_state(flink, again) == "CANCELED"


# test_restarts.py kills one every day, with our job on it.
@pytest.mark.full
def test_a_job_survives_a_killed_jobmanager(flink: FlinkCluster, smoke_files: Path) -> None:
    job_id = submit_smoke(flink, smoke_files)
    flink_run.wait_running(flink, job_id)
    wait_for_checkpoint(flink, job_id)
    taskmanagers = flink.taskmanagers()

    flink.kill_jobmanager()
    assert not flink.running
    with pytest.raises(StackError, match="No JobManager runs"):
        flink.kill_jobmanager()
    flink.start_jobmanager()
    until(lambda: flink_run.runs(flink, job_id), "job taken over")
    assert flink.taskmanagers() == taskmanagers
    # Not from the beginning, but from the checkpoint that the dead JobManager had completed.
    restored = ask(flink, "GET", f"/jobs/{job_id}/checkpoints")["latest"]["restored"]
    assert restored["id"] >= 1
    flink_run.cancel(flink, job_id)


@pytest.mark.full
def test_the_parallelism_of_a_running_job_changes_in_place(
    flink: FlinkCluster, smoke_files: Path
) -> None:
    job_id = submit_smoke(flink, smoke_files)
    flink_run.wait_running(flink, job_id)
    rescale_in_place(flink, job_id, 1)
    assert flink_run.restarts(flink, job_id) == 1
    with pytest.raises(StackError, match="exceeds its maximum parallelism"):
        rescale_in_place(flink, job_id, 1_000_000)
    # As the same job: an autoscaler's answer to more load.
    rescale_in_place(flink, job_id, 2)
    assert flink_run.restarts(flink, job_id) == 2
    flink_run.cancel(flink, job_id)


def test_a_submission_that_fails_shows_what_the_client_printed(
    flink: FlinkCluster, tmp_path: Path
) -> None:
    entry = tmp_path / "broken_job.py"
    entry.write_text("raise SystemExit('the table topic is missing')")
    with pytest.raises(StackError, match="the table topic is missing"):
        flink_run.submit(flink, entry=entry)


# ------------------------------------------------------------------------------- up and down


def test_up_and_down_in_different_processes(tmp_path: Path, stack_folder: Path) -> None:
    assert stack_folder
    folder = tmp_path / "stack"
    environment = {**os.environ, "TABLEGATE_STACK": str(folder)}
    tablegate = str(Path(sys.executable).with_name("tablegate"))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [tablegate, *arguments],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    try:
        assert "No stack is up" in run("status").stderr
        first = run("up", "--taskmanagers", "1", "--json")
        assert first.returncode == 0, first.stderr
        addresses = json.loads(first.stdout)
        assert addresses["started"]
        assert (addresses["taskmanagers"], addresses["slots"]) == (1, 1)
        topic = Kafka(addresses["brokers"]).create_topic("kept")

        exports = run("env").stdout
        assert f"export TABLEGATE_BROKERS={addresses['brokers']}\n" in exports
        by_hand = subprocess.run(
            ["/bin/bash", "-c", f"{exports}\nflink list && command -v tablegate"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "No running jobs" in by_hand.stdout, by_hand.stderr

        # A TaskManager that died is started again; the rest stays as it is.
        stack = Stack(folder)
        broker_pid, jobmanager = stack.broker.pid, stack.flink.rest_url
        os.kill(stack.flink.taskmanagers()[0], signal.SIGKILL)
        assert "is up." in run("up", "--taskmanagers", "1").stdout
        assert "was up already" in run("up", "--taskmanagers", "1").stdout
        stack.flink.kill_jobmanager()
        assert "is up." in run("up", "--taskmanagers", "1").stdout
        assert (stack.broker.pid, stack.flink.rest_url) == (broker_pid, jobmanager)
    finally:
        stopped = run("down")
    assert "is down" in stopped.stdout
    assert "Nothing was running" in run("down").stdout
    assert ours(folder) == []
    # Jobs are lost by an orderly stop: nothing is left that the next JobManager could take over.
    assert not (folder / "flink" / "zookeeper" / "data").exists()
    assert not (folder / "flink" / "high-availability").exists()

    with Broker(folder / "broker") as kept:
        assert topic in Kafka(kept.bootstrap_servers).admin.list_topics(timeout=10).topics


def test_an_up_that_fails_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_cluster: FlinkCluster) -> None:
        raise StackError("Flink refused.", "A test wants it so.")

    monkeypatch.setattr(FlinkCluster, "start", refuse)
    stack = Stack(tmp_path / "stack")
    with pytest.raises(StackError, match="Flink refused"):
        stack.up()
    assert not stack.running
    assert left(tmp_path) == []


def test_a_flink_that_cannot_start_shows_its_log_and_leaves_nothing(tmp_path: Path) -> None:
    cluster = FlinkCluster(tmp_path / "flink", settings={"taskmanager.memory.process.size": "100m"})
    with pytest.raises(StackError, match="ended while starting"):
        cluster.start()
    assert left(tmp_path) == []


def test_the_configuration_for_clusters_starts_and_reports_to_prometheus(
    tmp_path: Path, stack_folder: Path
) -> None:
    assert stack_folder
    cluster = FlinkCluster(
        tmp_path / "flink",
        conf=FLINK_CONF / "cluster",
        high_availability=True,
        settings={"process.taskmanager.working-dir": str(tmp_path / "work")},
    )
    with cluster:
        assert cluster.overview()["slots-total"] == 1
        # At ports of the instance: those of the file are fixed, and somebody else may have them.
        found = cluster.metrics_addresses()
        reported = {
            name: requests.get(f"http://{address}/metrics", timeout=10).text
            for name, address in found.items()
        }
        assert set(found) == {"jobmanager", "taskmanager-0"}
        for name, text in reported.items():
            assert f"flink_{name.partition('-')[0]}_Status_JVM_CPU_Load" in text
    assert json.loads(cluster.targets_file.read_text()) == []
