"""The local stack: one broker and one Flink cluster in one folder, started and stopped together.

Flink's SQL gateway runs beside them where it is asked for.
"""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ops.paths import STACK
from ops.stack.broker import Broker
from ops.stack.flink import FlinkCluster
from ops.stack.gateway import SqlGateway
from udfs.core.errors import StackError


@dataclass(frozen=True)
class Addresses:
    """Where a running stack answers."""

    brokers: str
    rest_url: str
    taskmanagers: int
    slots: int
    folder: str
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Where Prometheus reads Flink's processes, `host:port` by name."""
    prometheus_targets: str = ""
    """The same as a file for Prometheus, kept up to date as processes come and go."""
    sql_gateway: str = ""
    """Address of Flink's SQL gateway, empty where none runs."""

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return asdict(self)


class Stack:
    """Broker and Flink cluster of one folder.

    Everything it knows stands in files there, so any command can look at a stack that another
    command started, or stop it.
    """

    def __init__(self, folder: Path = STACK, *, taskmanagers: int = 2, slots: int = 1) -> None:
        self.folder = folder.resolve()
        self.broker = Broker(self.folder / "broker")
        self.flink = FlinkCluster(
            self.folder / "flink",
            taskmanagers=taskmanagers,
            slots=slots,
            # A JobManager that died takes its jobs over at the next `up`.
            high_availability=True,
        )
        self.gateway = SqlGateway(self.folder / "sql-gateway", self.flink)
        self._taskmanagers = taskmanagers

    @property
    def running(self) -> bool:
        """Whether the processes of broker and JobManager live."""
        return self.broker.running and self.flink.running

    def up(self) -> bool:
        """Start what is not running: everything, or what died since.

        Returns:
            False if all of it was running already.

        Raises:
            StackError: something did not start; then what this call started is stopped again.
        """
        with self._alone():
            if self.running and len(self.flink.taskmanagers()) >= self._taskmanagers:
                return False
            broker_was_running = self.broker.running
            self.broker.start()
            try:
                self.flink.start()
            except BaseException:
                if not broker_was_running:
                    self.broker.stop()
                raise
            return True

    def up_gateway(self) -> bool:
        """Start Flink's SQL gateway beside a stack that is up.

        Returns:
            False if it was running already.

        Raises:
            StackError: it did not start.
        """
        with self._alone():
            if self.gateway.running:
                return False
            self.gateway.start()
            return True

    def down(self) -> bool:
        """Stop every process of this stack and no other. Topics, checkpoints and savepoints stay.

        Returns:
            False if nothing was running.
        """
        if not self.folder.exists():
            return False
        with self._alone():
            was_running = (
                self.broker.running
                or self.flink.running
                or bool(self.flink.taskmanagers())
                or self.gateway.running
            )
            self.gateway.stop()
            # Flink first: its jobs would log errors about a broker that went away.
            self.flink.stop()
            self.broker.stop()
            return was_running

    def addresses(self) -> Addresses:
        """Where it answers.

        Raises:
            StackError: it is not up.
        """
        if not self.running:
            raise StackError(f"No stack is up in {self.folder}.", "Run `tablegate up`.")
        return self.seen_by_flink()

    def seen_by_flink(self) -> Addresses:
        """Where it answers as far as the JobManager knows; the broker may be dead.

        Raises:
            StackError: the JobManager does not answer.
        """
        seen = self.flink.overview()
        return Addresses(
            brokers=self.broker.bootstrap_servers,
            rest_url=self.flink.rest_url,
            taskmanagers=seen["taskmanagers"],
            slots=seen["slots-total"],
            folder=str(self.folder),
            metrics=self.flink.metrics_addresses(),
            prometheus_targets=str(self.flink.targets_file),
            sql_gateway=self.gateway.url if self.gateway.running else "",
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        # Two `tablegate up` at once would start everything twice and forget one half.
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
