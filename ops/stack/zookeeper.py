"""A real ZooKeeper of one node: what a JobManager needs so that another can take over its jobs.

Flink's own jar holds a ZooKeeper server and Flink's scripts start it, so no jar is added.
"""

import json
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from ops.stack.ports import free_ports
from ops.stack.processes import ProcessSet

_NAME = "zookeeper"
_ANSWER_TIMEOUT_S = 2
# It holds a few names and pointers; the rest are files in `high-availability.storageDir`.
_JVM = "-Xmx64m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dzookeeper.jmx.log4j.disable=true"


class ZooKeeper:
    """One ZooKeeper beside one JobManager, as a process of the cluster's own set.

    Args:
        folder: takes its configuration, its data, its log and its port; made if missing.
        home: an assembled Flink home.
        processes: the cluster's processes, which are stopped together.
    """

    def __init__(self, folder: Path, home: Path, processes: ProcessSet) -> None:
        self.folder = folder
        self._home = home
        self._processes = processes
        self._port_file = folder / "port"

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._processes.alive(_NAME)

    @property
    def quorum(self) -> str:
        """`host:port`, chosen when it is first asked for and kept from then on."""
        if not self._port_file.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._port_file.write_text(json.dumps(free_ports(1)[0]))
        return f"127.0.0.1:{json.loads(self._port_file.read_text())}"

    def spawn(self, environment: Mapping[str, str]) -> None:
        """Start it, without waiting: Flink's processes try again until it answers.

        Args:
            environment: variables of Flink's scripts; where their configuration is, at least.

        Raises:
            StackError: it runs already, or cannot be started.
        """
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        config = self.folder / "zoo.cfg"
        config.write_text(self._config(data))
        self._processes.spawn(
            _NAME,
            # Not zookeeper.sh: its shell stays, and would get the signals that are for the JVM.
            [
                str(self._home / "bin" / "flink-console.sh"),
                *("zookeeper", "--zkConfigFile", str(config), "--peerId", "1"),
            ],
            log=self.folder / "console.log",
            env={**environment, "JVM_ARGS": _JVM},
        )

    def answers(self) -> bool:
        """Whether it serves clients now."""
        host, _, port = self.quorum.partition(":")
        try:
            with socket.create_connection((host, int(port)), _ANSWER_TIMEOUT_S) as connection:
                connection.sendall(b"srvr")
                connection.shutdown(socket.SHUT_WR)
                return b"Mode: standalone" in connection.recv(4096)
        except OSError:
            return False

    def forget(self) -> None:
        """Delete its data, so that the next JobManager finds no jobs to take over."""
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    def _config(self, data: Path) -> str:
        host, _, port = self.quorum.partition(":")
        lines = {
            # Its unit of time, in ms. A session lasts 2 to 20 of them, whatever a client asks for.
            "tickTime": "1000",
            "dataDir": str(data),
            "clientPort": port,
            # Nobody else's business: whoever reaches it can take the cluster over.
            "clientPortAddress": host,
            # A web server for administrators, on a fixed port that something else may have.
            "admin.enableServer": "false",
            # JobManager, TaskManagers and clients of one host have more connections than the usual.
            "maxClientCnxns": "0",
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())
