"""Flink's SQL gateway beside a cluster: a process of our own that takes SQL over REST."""

import json
from pathlib import Path
from typing import Self

import requests

from ops.stack.assemble import SETUP_REMEDY
from ops.stack.flink import FlinkCluster
from ops.stack.ports import free_ports
from ops.stack.processes import ProcessSet, tail, wait_until
from udfs.core.errors import StackError

_NAME = "sql-gateway"
_HOST = "127.0.0.1"
_ANSWER_TIMEOUT_S = 2
# It plans queries and hands rows on; the work is the cluster's.
_JVM = "-Xmx512m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class SqlGateway:
    """One SQL gateway in one folder, for one cluster.

    It keeps its port over `stop` and another `start`. Sessions and their tables are lost with it;
    jobs that it submitted run on.

    Args:
        folder: takes its log and its port; made if missing.
        flink: the cluster that its queries run on, whose configuration it reads.
    """

    def __init__(self, folder: Path, flink: FlinkCluster) -> None:
        self.folder = folder.resolve()
        self.log = self.folder / "console.log"
        self._flink = flink
        self._processes = ProcessSet(self.folder)
        self._port_file = self.folder / "port"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the process lives. It may not answer yet: only `start` waits for that."""
        return self._processes.alive(_NAME)

    @property
    def url(self) -> str:
        """Address of its REST interface, without a slash at the end.

        Raises:
            StackError: it was never started in this folder.
        """
        try:
            return f"http://{_HOST}:{json.loads(self._port_file.read_text())}"
        except FileNotFoundError:
            raise StackError(
                f"No SQL gateway was started in {self.folder}.", "Run `tablegate up --sql-gateway`."
            ) from None

    def start(self, *, deadline_s: float = 60) -> None:
        """Start it and return when it answers; does nothing if it runs.

        Args:
            deadline_s: how long it may take until it answers, in seconds.

        Raises:
            StackError: its jar is missing, it died, or it did not answer in time; the error ends
                with its log's tail, and nothing is left running.
        """
        if self.running:
            return
        if not any((self._flink.home / "opt").glob("flink-sql-gateway-*.jar")):
            raise StackError(f"There is no SQL gateway in {self._flink.home}/opt.", SETUP_REMEDY)
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._port_file.exists():
            self._port_file.write_text(json.dumps(free_ports(1)[0]))
        port = self._port_file.read_text()
        try:
            self._processes.spawn(
                _NAME,
                # start-foreground replaces the shell by the JVM, so the pid is the JVM's.
                [
                    *(str(self._flink.home / "bin" / "sql-gateway.sh"), "start-foreground"),
                    f"-Dsql-gateway.endpoint.rest.address={_HOST}",
                    f"-Dsql-gateway.endpoint.rest.bind-address={_HOST}",
                    f"-Dsql-gateway.endpoint.rest.port={port}",
                ],
                log=self.log,
                env={
                    **self._flink.environment,
                    "FLINK_LOG_DIR": str(self.folder),
                    "FLINK_PID_DIR": str(self.folder),
                    "FLINK_IDENT_STRING": _NAME,
                    "JVM_ARGS": _JVM,
                },
            )
            wait_until(
                self._answers,
                deadline_s=deadline_s,
                what=f"SQL gateway in {self.folder}",
                give_up=lambda: None if self.running else "the process ended while starting.",
            )
        except BaseException as error:
            # Also on Ctrl-C: a half-started gateway must not stay.
            self._processes.stop(deadline_s=5)
            if isinstance(error, StackError):
                raise StackError(f"{error.what}\n{tail(self.log)}\n", error.remedy) from error
            raise

    def stop(self, *, deadline_s: float = 15) -> None:
        """Stop it in order (SIGTERM); SIGKILL when that takes longer than `deadline_s` seconds."""
        self._processes.stop(deadline_s=deadline_s)

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/info", timeout=_ANSWER_TIMEOUT_S).ok
        except requests.RequestException:
            return False
