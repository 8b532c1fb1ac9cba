"""Any Flink cluster that a REST address and a `flink` command line reach.

The local stack is one of them (`ops.stack.flink.FlinkCluster`); `RemoteCluster` is every other.
"""

import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import requests
import yaml

from ops.paths import FLINK_HOME
from ops.stack.flink import FlinkCluster
from ops.stack.local import Stack
from udfs.core.errors import StackError

_TIMEOUT_S = 10
_REST_PORT = 8081
_NOT_FOUND = 404
# What a JobManager says while it has no leader yet, after a failover.
_UNAVAILABLE = 503
_HERE = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104  (compared, not bound)


class UnreachableError(StackError):
    """The JobManager does not answer: nothing is known about the job."""


class UnknownError(StackError):
    """The JobManager answers that it does not know what was asked for, a job for instance."""


class Cluster(Protocol):
    """What the commands for people on call need of a cluster."""

    @property
    def rest_url(self) -> str:
        """Address of the REST interface, without a slash at the end."""
        ...

    @property
    def home(self) -> Path:
        """The Flink home whose `bin/flink` submits."""
        ...

    @property
    def savepoint_dir(self) -> Path | str | None:
        """Where savepoints go by default; None leaves it to the cluster's configuration."""
        ...

    @property
    def logs_hint(self) -> str:
        """A sentence that says where the logs are, for errors."""
        ...

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which Flink's scripts talk to this cluster."""
        ...

    def overview(self) -> dict[str, Any]:
        """What `/overview` of the REST interface says: taskmanagers, slots-total and more."""
        ...

    def flink(
        self, *arguments: str, timeout_s: float = 180, keep_open: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run Flink's command line against this cluster; raises StackError on a timeout.

        ``keep_open`` are file descriptors that the command inherits.
        """
        ...


def ask(cluster: Cluster, method: str, path: str, **body: object) -> dict[str, Any]:
    """One question to the REST interface, and its answer.

    Raises:
        UnreachableError: nobody answers at the address, or a JobManager that does not lead yet.
        UnknownError: answered with 404.
        StackError: answered with another error; its text is in ours.
    """
    url = cluster.rest_url
    try:
        response = requests.request(method, url + path, json=body or None, timeout=_TIMEOUT_S)
    except requests.RequestException as error:
        raise UnreachableError(
            f"The JobManager at {url} does not answer: {error}.", cluster.logs_hint
        ) from error
    if not response.ok:
        kinds = {_NOT_FOUND: UnknownError, _UNAVAILABLE: UnreachableError}
        raise kinds.get(response.status_code, StackError)(
            f"{method} {path} was answered with {response.status_code}: {response.text[:2000]}",
            "The JobManager's log says more.",
        )
    answer: dict[str, Any] = response.json() if response.content else {}
    return answer


class RemoteCluster:
    """A cluster that somebody else runs.

    Args:
        rest_url: where its REST interface answers.
        home: a Flink home of the same version, for `bin/flink`.
        conf_dir: the folder with the client's config.yaml; the home's own by default.
    """

    def __init__(self, rest_url: str, *, home: Path, conf_dir: Path | None = None) -> None:
        self._rest_url = rest_url.rstrip("/")
        self._home = home
        self._conf_dir = conf_dir or home / "conf"

    @property
    def rest_url(self) -> str:
        """Address of the REST interface, without a slash at the end."""
        return self._rest_url

    @property
    def home(self) -> Path:
        """The Flink home whose `bin/flink` submits."""
        return self._home

    @property
    def savepoint_dir(self) -> None:
        """Left to the cluster's `execution.checkpointing.savepoint-dir`."""
        return

    @property
    def logs_hint(self) -> str:
        """Where the logs are, for an error."""
        return f"The logs are where the cluster at {self._rest_url} keeps them."

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which Flink's scripts talk to this cluster."""
        return {"FLINK_HOME": str(self._home), "FLINK_CONF_DIR": str(self._conf_dir)}

    def overview(self) -> dict[str, Any]:
        """What `/overview` of the REST interface says: taskmanagers, slots-total and more.

        Raises:
            UnreachableError: the JobManager does not answer.
        """
        return ask(self, "GET", "/overview")

    def flink(
        self, *arguments: str, timeout_s: float = 180, keep_open: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run Flink's command line against this cluster.

        Raises:
            StackError: there is no `bin/flink`, or it took longer than `timeout_s` seconds.
        """
        verb, *rest = arguments
        address = rest_options(self._rest_url)
        try:
            return subprocess.run(
                [str(self._home / "bin" / "flink"), verb, *address, *rest],
                env={**os.environ, **self.environment},
                capture_output=True,
                text=True,
                timeout=timeout_s,
                pass_fds=keep_open,
                check=False,
            )
        except FileNotFoundError as error:
            raise StackError(
                f"There is no flink command in {self._home}/bin.",
                "Name a Flink home with --flink-home or FLINK_HOME.",
            ) from error
        except subprocess.TimeoutExpired as error:
            raise StackError(
                f"`flink {verb}` was not done after {timeout_s:g} s.",
                "Is a broker out of reach? It may have taken effect: look at `flink list`.",
            ) from error


def rest_options(rest_url: str) -> list[str]:
    """Options of `flink` for the address that was asked for, over the configuration's own."""
    at = urlsplit(rest_url)
    return [f"-Drest.address={at.hostname}", f"-Drest.port={at.port or _REST_PORT}"]


def rest_url_of(conf: Mapping[str, Any]) -> str:
    """The REST address that a parsed config.yaml names, flat keys or nested ones.

    Raises:
        StackError: it names none.
    """
    nested = conf.get("rest")
    rest: Mapping[str, Any] = nested if isinstance(nested, Mapping) else {}
    address = conf.get("rest.address") or rest.get("address")
    if not address:
        raise StackError(
            "The Flink configuration has no rest.address.", "Give the address with --rest-url."
        )
    port = conf.get("rest.port") or rest.get("port") or _REST_PORT
    return f"http://{address}:{port}"


def choose(
    rest_url: str | None = None,
    flink_home: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> FlinkCluster | RemoteCluster:
    """The cluster that is meant: by address, else by FLINK_CONF_DIR, else the local stack.

    Args:
        rest_url: the address that the user gave, if any.
        flink_home: the Flink home that the user gave, if any; FLINK_HOME, or the project's own.
        environment: the variables to look at; the process's by default.

    Raises:
        StackError: FLINK_CONF_DIR names no readable configuration.
    """
    env = os.environ if environment is None else environment
    home = flink_home or Path(env.get("FLINK_HOME") or FLINK_HOME)
    conf_dir = Path(env["FLINK_CONF_DIR"]) if env.get("FLINK_CONF_DIR") else None
    if rest_url:
        return RemoteCluster(rest_url, home=home, conf_dir=conf_dir)
    local = Stack().flink
    # `eval "$(tablegate env)"` sets it to the local stack's own.
    if conf_dir is None or conf_dir.resolve() == local.conf_dir:
        return local
    path = conf_dir / "config.yaml"
    try:
        conf = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise StackError(
            f"FLINK_CONF_DIR is {conf_dir}, and {path} cannot be read: {error}.",
            "Correct the variable, or give --rest-url.",
        ) from error
    return RemoteCluster(rest_url_of(conf or {}), home=home, conf_dir=conf_dir)


def on_this_host(cluster: Cluster) -> bool:
    """Whether the JobManager runs on this machine, so that its files are ours to look at."""
    host = urlsplit(cluster.rest_url).hostname or ""
    return host in _HERE or host in {socket.gethostname(), socket.getfqdn()}
