"""A real Flink standalone cluster: one JobManager and some TaskManagers as processes of our own."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import requests

from ops.paths import FLINK_CONF, FLINK_HOME
from ops.stack.assemble import SETUP_REMEDY, write_conf
from ops.stack.instance import Folders, instance_settings
from ops.stack.ports import free_ports
from ops.stack.processes import ProcessSet, find, tail, wait_until
from ops.stack.zookeeper import ZooKeeper
from udfs.core.errors import StackError

_JOBMANAGER = "jobmanager"
_TASKMANAGER = "taskmanager-{}"
_REST_TIMEOUT_S = 5
# File in a TaskManager's folder with the RPC port of its last start.
_PORT = "rpc-port"
# File in a process's folder with the port at which Prometheus reads it, of its last start.
_METRICS_PORT = "metrics-port"


class FlinkCluster:
    """One Flink cluster in one folder.

    TaskManagers have numbers. One that was killed comes back under its old number with
    `start_taskmanager`, keeps its working directory and so finds its local state.

    Args:
        folder: takes configuration, logs, checkpoints, savepoints; made if missing.
        taskmanagers: how many TaskManagers `start` starts.
        slots: slots of each. One is recommended: the Python operators of a TaskManager share one
            interpreter lock.
        settings: Flink options laid over `conf`, flat names to values.
        high_availability: whether a ZooKeeper runs beside it, so that a JobManager that was killed
            and started again takes its jobs over from their last checkpoints.
        home: an assembled Flink home, as `make setup` makes it.
        conf: the configuration directory that this cluster's own is written from.
    """

    def __init__(
        self,
        folder: Path,
        *,
        taskmanagers: int = 1,
        slots: int = 1,
        settings: Mapping[str, object] | None = None,
        high_availability: bool = False,
        home: Path = FLINK_HOME,
        conf: Path = FLINK_CONF / "local",
    ) -> None:
        self.folder = folder.resolve()
        self.home = home
        self.conf_dir = self.folder / "conf"
        self._folders = Folders(self.folder)
        self.checkpoint_dir = self._folders.checkpoints
        self.savepoint_dir = self._folders.savepoints
        self._taskmanagers = taskmanagers
        self._slots = slots
        self._settings = dict(settings or {})
        self._conf_source = conf
        self._processes = ProcessSet(self.folder)
        self._ports_file = self.folder / "ports.json"
        self._zookeeper = (
            ZooKeeper(self.folder / "zookeeper", self.home, self._processes)
            if high_availability
            else None
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ------------------------------------------------------------------ what it is

    @property
    def rest_url(self) -> str:
        """Address of the REST interface and web interface, without a slash at the end.

        Raises:
            StackError: it was never started in this folder.
        """
        return f"http://127.0.0.1:{self._ports()[0]}"

    @property
    def logs_hint(self) -> str:
        """Where the logs are, for an error."""
        return f"The logs are in {self.folder}."

    @property
    def running(self) -> bool:
        """Whether the JobManager's process lives, and ZooKeeper's where there is one."""
        coordinated = self._zookeeper is None or self._zookeeper.running
        return coordinated and self._processes.alive(_JOBMANAGER)

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which Flink's own scripts talk to this cluster."""
        return {
            "FLINK_HOME": str(self.home),
            "FLINK_CONF_DIR": str(self.conf_dir),
            "FLINK_LOG_DIR": str(self.folder / "log"),
            "FLINK_PID_DIR": str(self.folder / "log"),
        }

    def taskmanagers(self) -> dict[int, int]:
        """The living TaskManagers, number to process id."""
        prefix = _TASKMANAGER.format("")
        return {
            int(name.removeprefix(prefix)): record.pid
            for name, record in sorted(self._processes.records().items())
            if name.startswith(prefix) and find(record)
        }

    @property
    def targets_file(self) -> Path:
        """What Prometheus's `file_sd_configs` reads: a target for each process that was started."""
        return self.folder / "prometheus-targets.json"

    def metrics_addresses(self) -> dict[str, str]:
        """Where Prometheus reads JobManager and TaskManagers, `host:port` by name; living ones."""
        return {
            name: f"127.0.0.1:{(self.folder / name / _METRICS_PORT).read_text()}"
            for name, record in sorted(self._processes.records().items())
            if (self.folder / name / _METRICS_PORT).exists() and find(record)
        }

    def overview(self) -> dict[str, Any]:
        """What `/overview` of the REST interface says: taskmanagers, slots-total and more.

        Raises:
            StackError: the JobManager does not answer.
        """
        return self._get("/overview")

    def logs(self) -> str:
        """All log files of JobManager and TaskManagers, one after the other, for a search."""
        return "\n".join(
            path.read_text(errors="replace") for path in sorted(self.folder.glob("*/*.log*"))
        )

    # ------------------------------------------------------------------ start and stop

    def start(self, *, deadline_s: float = 120) -> None:
        """Start what is not running and return when every slot is offered.

        Args:
            deadline_s: how long that may take, in seconds.

        Raises:
            StackError: the Flink home is missing, a process died, or the slots were not there in
                time. Then nothing is left running.
        """
        if not (self.home / "bin" / "jobmanager.sh").exists():
            raise StackError(f"There is no assembled Flink in {self.home}.", SETUP_REMEDY)
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._spawn_masters()
            for number in range(self._taskmanagers):
                if number not in self.taskmanagers():
                    self._spawn_taskmanager(number)
            self.wait_for_taskmanagers(deadline_s=deadline_s)
        except BaseException:
            # Also on Ctrl-C: a half-started cluster must not stay. Its jobs may: the next start
            # takes them over.
            self._processes.stop(deadline_s=5)
            self._write_targets()
            raise

    def stop(self, *, deadline_s: float = 20) -> None:
        """Stop every process of this cluster; SIGKILL what still lives after `deadline_s` seconds.

        Running jobs are lost, also with high availability; their retained checkpoints and
        savepoints stay in the folder.
        """
        self._processes.stop(deadline_s=deadline_s)
        self._write_targets()
        if self._zookeeper:
            self._zookeeper.forget()
            shutil.rmtree(self._folders.high_availability, ignore_errors=True)

    def kill_taskmanager(self, number: int = 0) -> int:
        """`kill -9` of one TaskManager.

        Returns:
            The process id that was killed.

        Raises:
            StackError: no TaskManager of that number runs.
        """
        pid = self.taskmanagers().get(number)
        if pid is None:
            raise StackError(
                f"TaskManager {number} does not run; running: {sorted(self.taskmanagers())}.",
                "Choose one of these, or start it with start_taskmanager().",
            )
        self._processes.kill(_TASKMANAGER.format(number))
        return pid

    def kill_jobmanager(self) -> int:
        """`kill -9` of the JobManager. With high availability its jobs wait for the next one.

        Returns:
            The process id that was killed.

        Raises:
            StackError: it does not run.
        """
        record = self._processes.records().get(_JOBMANAGER)
        if record is None or find(record) is None:
            raise StackError(f"No JobManager runs in {self.folder}.", "Start it first.")
        self._processes.kill(_JOBMANAGER)
        return record.pid

    def start_jobmanager(self, *, deadline_s: float = 120) -> None:
        """Start the JobManager again; return when the living TaskManagers registered with it.

        With high availability it first waits until the session of the one that was killed is over
        (`high-availability.zookeeper.client.session-timeout`), and then takes its jobs over.

        Args:
            deadline_s: how long that may take, in seconds.

        Raises:
            StackError: a process died, or the deadline passed.
        """
        self._spawn_masters()
        self.wait_for_taskmanagers(deadline_s=deadline_s)

    def start_taskmanager(self, *, wait: bool = True, deadline_s: float = 60) -> int:
        """Start one TaskManager: the lowest number that does not run.

        Args:
            wait: whether to return only when it has registered with the JobManager.
            deadline_s: how long that may take, in seconds.

        Returns:
            Its number.

        Raises:
            StackError: it did not register in time; it is left as it is, for its log.
        """
        running = self.taskmanagers()
        number = next(n for n in range(len(running) + 1) if n not in running)
        self._spawn_taskmanager(number)
        if wait:
            self.wait_for_taskmanagers(deadline_s=deadline_s)
        return number

    def wait_for_taskmanagers(self, *, deadline_s: float = 60) -> None:
        """Return when every TaskManager that runs here is registered with its slots.

        Raises:
            StackError: a process died or the deadline passed.
        """
        wait_until(
            self._registered,
            deadline_s=deadline_s,
            what=f"Flink cluster in {self.folder}",
            give_up=self._died,
        )

    def flink(
        self, *arguments: str, timeout_s: float = 180, keep_open: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run Flink's command line against this cluster.

        Args:
            arguments: of `flink`.
            timeout_s: how long it may take, in seconds.
            keep_open: file descriptors that the command inherits.

        Returns:
            The finished process, its output as text; the caller looks at the return code.

        Raises:
            StackError: it took longer than `timeout_s` seconds and was killed.
        """
        try:
            return subprocess.run(
                [str(self.home / "bin" / "flink"), *arguments],
                env={**os.environ, **self.environment},
                capture_output=True,
                text=True,
                timeout=timeout_s,
                pass_fds=keep_open,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise StackError(
                f"`flink {arguments[0]}` was not done after {timeout_s:g} s.",
                "Is the machine busy, or a broker out of reach? It may have taken effect: look at "
                "`flink list`.",
            ) from error

    # ------------------------------------------------------------------ inside

    def _ports(self) -> tuple[int, int]:
        try:
            rest, rpc = json.loads(self._ports_file.read_text())
        except FileNotFoundError:
            raise StackError(
                f"No Flink cluster was started in {self.folder}.", "Start it first."
            ) from None
        return rest, rpc

    def _get(self, path: str) -> dict[str, Any]:
        try:
            response = requests.get(self.rest_url + path, timeout=_REST_TIMEOUT_S)
            response.raise_for_status()
        except requests.RequestException as error:
            raise StackError(
                f"The JobManager at {self.rest_url} does not answer: {error}.",
                f"Look into {self.folder}/{_JOBMANAGER}.",
            ) from error
        answer: dict[str, Any] = response.json()
        return answer

    def _spawn(self, name: str, script: str, *arguments: str) -> None:
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        # An earlier process's pid file would make the script number its log differently.
        for left in place.glob("*.pid"):
            left.unlink()
        self._folders.tmp.mkdir(exist_ok=True)
        # Of its own for each start: one that was killed may not have given the last one back yet.
        (metrics_port,) = free_ports(1)
        (place / _METRICS_PORT).write_text(str(metrics_port))
        # start-foreground replaces the shell by the JVM, so the pid we write down is the JVM's.
        self._processes.spawn(
            name,
            [
                *(str(self.home / "bin" / script), "start-foreground"),
                *("-D", f"metrics.reporter.prom.port={metrics_port}", *arguments),
            ],
            log=place / "console.log",
            env=self._environment_of(place),
        )
        self._write_targets()

    def _write_targets(self) -> None:
        if not self.folder.exists():
            return
        targets = [
            {"targets": [address], "labels": {"process": name}}
            for name, address in self.metrics_addresses().items()
        ]
        # Replaced whole: Prometheus reads it as soon as it changes.
        partial = self.targets_file.with_suffix(".tmp")
        partial.write_text(json.dumps(targets, indent=1))
        partial.replace(self.targets_file)

    def _environment_of(self, place: Path) -> dict[str, str]:
        """The variables of a process whose log and pid file go into the folder `place`."""
        return {
            **self.environment,
            "FLINK_LOG_DIR": str(place),
            "FLINK_PID_DIR": str(place),
            "FLINK_IDENT_STRING": place.name,
        }

    def _spawn_masters(self) -> None:
        if not self._processes.alive(_JOBMANAGER):
            if not self._ports_file.exists():
                self._ports_file.write_text(json.dumps(free_ports(2)))
            rest, rpc = self._ports()
            settings = instance_settings(
                self._folders,
                rest=rest,
                rpc=rpc,
                slots=self._slots,
                quorum=self._zookeeper.quorum if self._zookeeper else None,
            )
            write_conf(self._conf_source, self.conf_dir, settings | self._settings)
        if self._zookeeper and not self._zookeeper.running:
            self._zookeeper.spawn(self._environment_of(self._zookeeper.folder))
        if not self._processes.alive(_JOBMANAGER):
            self._spawn(_JOBMANAGER, "jobmanager.sh")

    def _spawn_taskmanager(self, number: int) -> None:
        name = _TASKMANAGER.format(number)
        (port,) = free_ports(1)
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        (place / _PORT).write_text(str(port))
        self._spawn(
            name,
            "taskmanager.sh",
            # A fixed id is what local recovery goes by, and lets the JobManager see at once that
            # the old process of this name is dead when the new one registers.
            *("-D", f"taskmanager.resource-id={name}"),
            # A port of its own for each start tells the new registration from the old one.
            *("-D", f"taskmanager.rpc.port={port}"),
        )

    def _registered(self) -> bool:
        # By address, not by count: the JobManager still lists a killed TaskManager for a while.
        wanted = {
            f":{(self.folder / _TASKMANAGER.format(number) / _PORT).read_text()}/"
            for number in self.taskmanagers()
        }
        try:
            seen = self._get("/taskmanagers")["taskmanagers"]
        except StackError:
            return False
        offering = [entry["path"] for entry in seen if entry["slotsNumber"]]
        return bool(wanted) and all(any(port in path for path in offering) for port in wanted)

    def _died(self) -> str | None:
        for name, record in self._processes.records().items():
            if not find(record):
                logs = sorted((self.folder / name).glob("flink-*.log"))
                log = logs[-1] if logs else self.folder / name / "console.log"
                console = tail(self.folder / name / "console.log", 10)
                return f"{name} ended while starting.\n{tail(log)}\n{console}\n"
        return None
