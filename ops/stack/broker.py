"""A real single-node Kafka broker (KRaft) as a process of our own, for people without an engine."""

import base64
import json
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ops.paths import BROKER_JARS
from ops.stack.ports import free_ports
from ops.stack.processes import ProcessSet, find, tail, wait_until
from udfs.core.errors import StackError

_NAME = "broker"
_LOG4J = Path(__file__).with_name("broker-log4j2.properties")

# What one node on a laptop needs to differ from Kafka's defaults, each with its reason.
_PROPERTIES: dict[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # A mistyped topic must be an error, as in production, not a new empty topic.
    "auto.create.topics.enable": "false",
    # One node cannot hold the default three copies.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Fifty partitions each are for many clients; four start faster.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    # The default waits three seconds for more members; tests and demos have one.
    "group.initial.rebalance.delay.ms": "0",
    # After a kill the controller holds on to the dead broker's registration for this long, and a
    # restart waits for it: nine seconds by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "1000",
    # Records may carry any event time. With retention by time an old one would vanish under a test.
    "log.retention.ms": "-1",
}


class Broker:
    """One Kafka broker in one folder.

    It keeps its ports, its cluster id and its data over `stop`, `kill` and another `start`.

    Args:
        folder: takes everything the broker writes; made if missing.
        heap: the JVM's heap, as in `-Xmx`.
        properties: broker properties laid over ours, e.g. log.cleaner settings.
        jars: the broker's class path, as `make setup` copies it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        heap: str = "1g",
        properties: Mapping[str, str] | None = None,
        jars: Path = BROKER_JARS,
    ) -> None:
        self.folder = folder.resolve()
        self.log = self.folder / "broker.log"
        self._heap = heap
        self._extra = dict(properties or {})
        self._jars = jars
        self._processes = ProcessSet(self.folder)
        self._ports_file = self.folder / "ports.json"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients.

        Raises:
            StackError: it was never started in this folder.
        """
        return f"127.0.0.1:{self._ports()[0]}"

    @property
    def running(self) -> bool:
        """Whether the process lives. It may not answer yet: only `start` waits for that."""
        return self._processes.alive(_NAME)

    @property
    def pid(self) -> int:
        """The broker's process id.

        Raises:
            StackError: it does not run.
        """
        record = self._processes.records().get(_NAME)
        if record is None or find(record) is None:
            raise StackError(f"No broker runs in {self.folder}.", "Start it first.")
        return record.pid

    def start(self, *, deadline_s: float = 60) -> None:
        """Start the broker and return when it answers; does nothing if it runs.

        Args:
            deadline_s: how long it may take until it answers, in seconds.

        Raises:
            StackError: it died or did not answer in time; the error ends with its log's tail, and
                nothing is left running.
        """
        if self.running:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._ports_file.exists():
            self._ports_file.write_text(json.dumps(free_ports(2)))
        config = self._write_properties()
        # A folder that was formatted has its cluster id in here.
        if not (self.folder / "data" / "meta.properties").exists():
            self._format(config)
        try:
            self._processes.spawn(
                _NAME,
                [*self._java(f"-Xms{self._heap}", f"-Xmx{self._heap}"), "kafka.Kafka", str(config)],
                log=self.log,
                env={},
            )
            wait_until(
                self._answers,
                deadline_s=deadline_s,
                what=f"Kafka broker in {self.folder}",
                give_up=self._died,
            )
        except BaseException as error:
            # Also on Ctrl-C: a half-started broker must not stay.
            self._processes.stop(deadline_s=5)
            if isinstance(error, StackError):
                raise StackError(f"{error.what}\n{tail(self.log)}\n", error.remedy) from error
            raise

    def stop(self, *, deadline_s: float = 30) -> None:
        """Stop it in order (SIGTERM); SIGKILL when that takes longer than `deadline_s` seconds."""
        self._processes.stop(deadline_s=deadline_s)

    def kill(self) -> None:
        """`kill -9`, for tests of what a crash leaves."""
        self._processes.kill(_NAME)

    def _ports(self) -> tuple[int, int]:
        try:
            client, controller = json.loads(self._ports_file.read_text())
        except FileNotFoundError:
            raise StackError(
                f"No broker was started in {self.folder}.", "Start it first."
            ) from None
        return client, controller

    def _write_properties(self) -> Path:
        client, controller = self._ports()
        merged = {
            **_PROPERTIES,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
            "log.dirs": str(self.folder / "data"),
            **self._extra,
        }
        path = self.folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in merged.items()))
        return path

    def _java(self, *options: str) -> list[str]:
        # Not the distribution's scripts: they are no part of the jars that pom.xml lists.
        return [
            "java",
            *options,
            "-XX:+UseG1GC",
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}",
            "-cp",
            f"{self._jars}/*",
        ]

    def _format(self, config: Path) -> None:
        storage_tool = [*self._java("-Xmx128m"), "kafka.tools.StorageTool"]
        # Kafka's form of a UUID. Made here: asking the tool for one costs a second JVM start.
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        try:
            subprocess.run(
                [*storage_tool, "format", f"--cluster-id={cluster_id}", "-c", str(config)],
                capture_output=True,
                text=True,
                check=True,
            )
        except FileNotFoundError as error:
            raise StackError("`java` is not on the PATH.", "Install Java 17.") from error
        except subprocess.CalledProcessError as error:
            raise StackError(
                f"Kafka's storage in {self.folder} cannot be formatted:\n"
                f"{error.stdout}{error.stderr}",
                "Run `make setup`; then delete the folder and try again.",
            ) from error

    def _answers(self) -> bool:
        # log_level 0: librdkafka would print each refused connection while the broker starts.
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        try:
            return bool(admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def _died(self) -> str | None:
        return None if self.running else "the process ended while starting."
