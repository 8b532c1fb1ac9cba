"""What the systems on Flink share: a cluster for each start, its settings, and the running job.

The settings are those of flink-conf/cluster, the same for all of them: ours, the peers and the
limits. A start has a folder of its own in the work's place; a savepoint, where ``Run.stop`` made
one, is found there by the next start.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import ClassVar

from bench import ground
from bench.systems.contract import Run, System, Work
from ops import flink_run
from ops.cluster import ask
from ops.demo.flink_job import FlinkJob
from ops.paths import CONNECTOR_JARS, FLINK_CONF, FLINK_HOME
from ops.stack.flink import FlinkCluster
from ops.stack.processes import ProcessSet, find, tail
from udfs.core.errors import TablegateError

JOBS = Path(__file__).with_name("flink_jobs")

STATES = ("rocksdb", "hashmap")

PRODUCER = {
    # Kafka's guides to throughput ask for larger batches and for the time to fill them; the
    # defaults are 16 KiB and 5 ms.
    "batch.size": "262144",
    "linger.ms": "20",
}
"""Of every Flink system's output, ours included."""

_FLINK_OPTION = "flink."
_SQL_JOB_ID = re.compile(r"Job ID: ([0-9a-f]{32})")
SUBMIT_S = 300
"""How long a client may take on a busy machine."""

_START_S = 300
_SAVEPOINT = "savepoint"


class FlinkSystem(System):
    """A job on a Flink cluster of its own. Options: see ``cluster_settings``."""

    gated: ClassVar[bool] = False
    restarts: ClassVar[bool] = True
    more_options: ClassVar[frozenset[str]] = frozenset()
    """Names of further options, or their beginnings with a dot at the end."""
    cluster_options: ClassVar[Mapping[str, object]] = {}
    """Flink options of this system, laid over those that all have."""

    def versions(self) -> dict[str, str]:
        """Flink, and its Kafka connector by its jar."""
        (jar,) = CONNECTOR_JARS.glob("flink-sql-connector-kafka-*.jar")
        return {
            "flink": version("apache-flink"),
            "flink-connector-kafka": jar.stem.removeprefix("flink-sql-connector-kafka-"),
        }

    def prepare(self) -> None:
        """Nothing to do: `make setup` assembles the one Flink that all of these run on."""
        if not (FLINK_HOME / "bin" / "flink").exists():
            raise RuntimeError(f"There is no assembled Flink in {FLINK_HOME}: run `make setup`.")

    def start(self, work: Work) -> FlinkRun:
        """A new cluster, and the job on it; from the savepoint of the last stop if there is one."""
        refuse_unknown(work.options, self.more_options)
        work.place.mkdir(parents=True, exist_ok=True)
        number = 1 + sum(1 for _ in work.place.glob("flink-*"))
        folder = work.place / f"flink-{number}"
        cluster = FlinkCluster(
            folder,
            # One slot each: the Python operators of a TaskManager share one interpreter lock.
            taskmanagers=work.parallelism,
            settings={
                **cluster_settings(folder, work.options),
                **self.cluster_options,
                **flink_options(work.options),
            },
            conf=FLINK_CONF / "cluster",
        )
        kept = work.place / _SAVEPOINT
        try:
            cluster.start(deadline_s=_START_S)
            submitted_s = time.time()
            job_id = self.submit(cluster, work, kept.read_text() if kept.exists() else None)
        except TablegateError as error:
            cluster.stop(deadline_s=5)
            raise RuntimeError(f"{self.name} did not start: {error}") from error
        except BaseException:
            # Also on Ctrl-C: a cluster without its job must not stay.
            cluster.stop(deadline_s=5)
            raise
        return FlinkRun(cluster, job_id, kept, submitted_s, self.beside(work))

    def beside(self, work: Work) -> ExitStack:
        """What runs in this process beside the job, to be closed with it: nothing."""
        return ExitStack()

    @abstractmethod
    def submit(self, cluster: FlinkCluster, work: Work, savepoint: str | None) -> str:
        """Submit the job and return its id.

        Raises:
            StackError: it was not taken, with what the client printed.
        """


class FlinkRun(Run):
    """A job on its cluster.

    ``submitted_s`` is when its client was started, in seconds since the epoch: the cluster stood.
    """

    def __init__(
        self,
        cluster: FlinkCluster,
        job_id: str,
        savepoint: Path,
        submitted_s: float,
        beside: ExitStack,
    ) -> None:
        self.cluster = cluster
        self.job_id = job_id
        self.submitted_s: float = submitted_s
        self._savepoint = savepoint
        self._beside = beside

    def pids(self) -> list[int]:
        """JobManager and TaskManagers; process mode's Python workers are the latter's children."""
        records = ProcessSet(self.cluster.folder).records().values()
        return [record.pid for record in records if find(record)]

    def problem(self) -> str | None:
        """Why the job ended, or failed once: a figure of a job that restarted is none."""
        try:
            FlinkJob(self.cluster.rest_url, self.job_id).refuse_failure()
        except TablegateError as error:
            logs = sorted(self.cluster.folder.glob("*/flink-*.log"))
            return "\n".join([str(error), *(f"{log}:\n{tail(log, 5)}" for log in logs)])
        return None

    def state_bytes(self) -> int | None:
        """Of the newest checkpoint, what it shares with older ones included."""
        try:
            told = ask(self.cluster, "GET", f"/jobs/{self.job_id}/checkpoints")
        except TablegateError:
            return None
        newest = (told.get("latest") or {}).get("completed")
        return int(newest["state_size"]) if newest else None

    def gate_open_s(self) -> float | None:
        """By what the gate logged, and when the last task began to run by REST."""
        found = ground.opened(self.cluster)
        if found is None:
            return None
        vertices = ask(self.cluster, "GET", f"/jobs/{self.job_id}")["vertices"]
        ran_ms = [
            int(subtask["timestamps"]["RUNNING"])
            for vertex in vertices
            for subtask in ask(
                self.cluster, "GET", f"/jobs/{self.job_id}/vertices/{vertex['id']}/subtasktimes"
            )["subtasks"]
        ]
        opened_s, _ = found
        return opened_s - max(ran_ms) / 1000

    def stop(self) -> None:
        """Stop the job with a savepoint, and end its cluster."""
        try:
            self._savepoint.write_text(flink_run.stop_with_savepoint(self.cluster, self.job_id))
        except TablegateError as error:
            raise RuntimeError(str(error)) from error
        self.close()

    def close(self) -> None:
        """End the cluster's processes."""
        self._beside.close()
        self.cluster.stop()


def cluster_settings(folder: Path, options: Mapping[str, str]) -> dict[str, object]:
    """What a cluster here needs beside flink-conf/cluster.

    Args:
        folder: of the cluster.
        options: of the work: ``state``, ``rocksdb`` (the default) or ``hashmap``.

    Raises:
        RuntimeError: the state backend has another name.
    """
    state = options.get("state", STATES[0])
    if state not in STATES:
        raise RuntimeError(f"state is {state!r}, expected one of {', '.join(STATES)}.")
    settings: dict[str, object] = {
        "process.taskmanager.working-dir": str(folder / "work"),
        "state.backend.type": state,
        # As in flink-conf/local: it computes little, on cores that the TaskManagers need.
        "env.java.opts.jobmanager": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # As our own job has it; the default, 200 ms, would be told apart in every latency.
        "pipeline.auto-watermark-interval": "50 ms",
    }
    if state == "hashmap":
        # State on the heap needs what RocksDB's share would take; some stays for Python's workers.
        settings["taskmanager.memory.managed.size"] = "256m"
    return settings


def flink_options(options: Mapping[str, str]) -> dict[str, object]:
    """Options of the work that begin with ``flink.``, without it: they win over all others."""
    return {
        name.removeprefix(_FLINK_OPTION): value
        for name, value in options.items()
        if name.startswith(_FLINK_OPTION)
    }


def refuse_unknown(options: Iterable[str], known: Iterable[str]) -> None:
    """Raises RuntimeError for an option that nobody here would look at."""
    exact = {"state", *known}
    begins = tuple({_FLINK_OPTION, *(name for name in exact if name.endswith("."))})
    for name in options:
        if name not in exact and not name.startswith(begins):
            raise RuntimeError(f"option {name!r} is unknown; known are {sorted({*exact, *begins})}")


def producer_options(prefix: str = "properties.") -> str:
    """``PRODUCER`` as the inside of a WITH clause."""
    return ", ".join(f"'{prefix}{name}' = '{value}'" for name, value in PRODUCER.items())


def sql_of(file: str, work: Work, savepoint: str | None) -> str:
    """The text of ``flink_jobs/<file>`` for one run, with what it starts from in front."""
    text = Template((JOBS / file).read_text()).substitute(
        name=work.name,
        parallelism=work.parallelism,
        brokers=work.brokers,
        stream=work.stream,
        table=work.table,
        enriched=work.enriched,
        producer=producer_options(),
    )
    return f"SET 'execution.state-recovery.path' = '{savepoint}';\n{text}" if savepoint else text


def submit_sql(cluster: FlinkCluster, text: str) -> str:
    """Run statements in Flink's SQL client and return the id of the job that they submit.

    Raises:
        RuntimeError: they submitted none, with what the client printed.
    """
    script = cluster.folder / "statements.sql"
    script.write_text(text)
    try:
        done = subprocess.run(
            [str(cluster.home / "bin" / "sql-client.sh"), "-f", str(script)],
            env={**os.environ, **cluster.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SUBMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{script} was not done after {SUBMIT_S} s.") from error
    found = _SQL_JOB_ID.search(done.stdout)
    if done.returncode or not found:
        raise RuntimeError(
            f"{script} exited with {done.returncode} and submitted no job:\n"
            f"{(done.stdout + done.stderr)[-4000:]}"
        )
    return found[1]


def submit_python(cluster: FlinkCluster, work: Work, savepoint: str | None, *more: str) -> str:
    """Submit ``flink_jobs/naive.py``; ``more`` are further arguments of it.

    Raises:
        StackError: it was not taken, with what the client printed.
    """
    told = {
        "--brokers": work.brokers,
        "--name": work.name,
        "--stream": work.stream,
        "--table": work.table,
        "--enriched": work.enriched,
        "--parallelism": str(work.parallelism),
    }
    producer = [("--producer", f"{name}={value}") for name, value in PRODUCER.items()]
    return flink_run.submit(
        cluster,
        timeout_s=SUBMIT_S,
        entry=JOBS / "naive.py",
        from_savepoint=savepoint,
        job_arguments=[*(part for pair in (*told.items(), *producer) for part in pair), *more],
    )
