"""Flink's client as a JVM beside this process, started by `flink run` itself.

So it has what every submission has: the cluster's address and configuration, Python for the
workers, and the packaged ``jobs`` and ``udfs``. PyFlink's own way to start it (``SUBMIT_ARGS``)
leaves the JVM this process's standard output and a pipe for its errors that nobody reads.
"""

from __future__ import annotations

import logging
import os
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ops.cluster import Cluster, rest_options
from ops.package import package
from ops.paths import UDFS_ZIP, VENV_PYTHON
from ops.stack.processes import tail
from udfs.core.errors import StackError

_GATEWAY = "org.apache.flink.client.python.PythonGatewayServer"
_DEADLINE_S = 60.0
_POLL_S = 0.05
_STOP_S = 5.0
# How PyFlink is told of a gateway that runs already; what `flink run -py` sets.
_PORT = "PYFLINK_GATEWAY_PORT"
_HANDSHAKE = "_PYFLINK_CONN_INFO_PATH"
_PORT_BYTES = struct.Struct("!I")


def command(cluster: Cluster, python_files: Sequence[Path] = ()) -> list[str]:
    """The command line that starts the client."""
    files = ",".join(str(path) for path in (UDFS_ZIP, *python_files))
    return [
        *(str(cluster.home / "bin" / "flink"), "run"),
        *rest_options(cluster.rest_url),
        *("-pyexec", str(VENV_PYTHON), "-pyclientexec", sys.executable),
        *("-pyfs", files, "-c", _GATEWAY),
    ]


@contextmanager
def flink_client(cluster: Cluster, python_files: Sequence[Path] = ()) -> Iterator[None]:
    """A client for ``cluster`` behind PyFlink, for as long as the block lasts.

    One in a process: PyFlink remembers its gateway.

    Raises:
        StackError: it did not start.
    """
    package()
    with tempfile.TemporaryDirectory(prefix="tablegate-sql-") as name:
        folder = Path(name)
        handshake, log = folder / "gateway", folder / "console.log"
        environment = {**os.environ, **cluster.environment}
        with log.open("wb") as out:
            process = subprocess.Popen(
                command(cluster, python_files),
                env={**environment, _HANDSHAKE: str(handshake)},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                # Ctrl-C at the prompt is for the query and not for the client.
                start_new_session=True,
            )
        try:
            os.environ.update(cluster.environment)
            os.environ[_PORT] = str(_wait_for_port(process, handshake, log))
            _connect()
            yield
        finally:
            _stop(process)
            os.environ.pop(_PORT, None)


def _wait_for_port(process: subprocess.Popen[bytes], handshake: Path, log: Path) -> int:
    end = time.monotonic() + _DEADLINE_S
    # Written in place: it may be there and still be empty.
    while not handshake.exists() or handshake.stat().st_size < _PORT_BYTES.size:
        if process.poll() is not None or time.monotonic() > end:
            raise StackError(
                f"Flink's client did not start (exit code {process.returncode}):\n{tail(log)}\n",
                "Java 17 must be on the PATH; `make setup` makes the rest.",
            )
        time.sleep(_POLL_S)
    # More stands behind it: an address of the JVM's own.
    (port,) = _PORT_BYTES.unpack_from(handshake.read_bytes())
    return int(port)


def _connect() -> None:
    with warnings.catch_warnings():
        # Beam's dependencies warn while they are imported; it says nothing about us.
        warnings.simplefilter("ignore")
        from pyflink.java_gateway import get_gateway  # noqa: PLC0415  (takes a second)

        get_gateway()
    # py4j logs each error that it raises, too, on loggers that nobody here set up.
    logging.getLogger().addHandler(logging.NullHandler())


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the client. Jobs that it submitted are the cluster's and go on."""
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin:
        process.stdin.close()
