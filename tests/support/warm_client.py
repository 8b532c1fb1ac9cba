"""Submits jobs as `flink run` does, from a client that stays: a second instead of seven.

Most tests are about the job and not about how it is submitted, and a new client's JVM would cost
them more than all else. Some go through `flink run` all the same, as users do (``JoinJob.start``).
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ops.package import package
from ops.paths import FLINK_HOME, ROOT, UDFS_ZIP, VENV_PYTHON
from ops.stack.flink import FlinkCluster
from ops.stack.processes import FOLDER_VARIABLE, ours, tail, wait_until
from udfs.core.errors import StackError

_JOB_ID = re.compile(r"Job has been submitted with JobID ([0-9a-f]{32})")
_SUBMIT_S = 180.0
_END_S = 20.0


class WarmClient:
    """One client process, started by the first submission. ``folder`` takes its log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "client.log"
        self._numbers = itertools.count()
        self._process: subprocess.Popen[str] | None = None

    def submit(
        self,
        cluster: FlinkCluster,
        *,
        entry: Path,
        arguments: Sequence[str],
        from_savepoint: str | None,
        flink_settings: Mapping[str, str] | None = None,
    ) -> str:
        """The id of the job that ``entry`` submits.

        Raises:
            StackError: it submitted none; the error holds what it printed.
        """
        package()
        process = self._running(cluster)
        settings = {
            # What the command line makes of `run -d -pyfs -pyexec -pyclientexec`.
            "execution.target": "remote",
            "execution.attached": "false",
            "python.files": str(UDFS_ZIP),
            "python.executable": str(VENV_PYTHON),
            "python.client.executable": str(VENV_PYTHON),
            **(flink_settings or {}),
        }
        if from_savepoint:
            settings["execution.state-recovery.path"] = from_savepoint
        answer = self._folder / f"answer-{next(self._numbers)}.json"
        request = {
            "answer": str(answer),
            "conf_dir": str(cluster.conf_dir),
            "settings": settings,
            "environment": dict(os.environ),
            "entry": str(entry),
            "arguments": list(arguments),
        }
        before = self._log.stat().st_size
        assert process.stdin is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        wait_until(
            answer.exists,
            deadline_s=_SUBMIT_S,
            what=f"submission of {entry.name}",
            give_up=lambda: self._end_of(process),
        )
        printed = self._log.read_bytes()[before:].decode(errors="replace")
        found = _JOB_ID.search(printed)
        if json.loads(answer.read_text()) or not found:
            raise StackError(f"{entry} submitted nothing:\n{printed}", cluster.logs_hint)
        return found[1]

    def close(self) -> None:
        """End the process, and its JVM with it."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        # Its JVM ends when it sees that nobody speaks to it any more.
        wait_until(
            lambda: not ours(self._folder),
            deadline_s=_END_S,
            what="end of the client",
            give_up=lambda: None,
        )
        self._process.wait()
        self._process = None

    def _running(self, cluster: FlinkCluster) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.warm_process"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                env={
                    **os.environ,
                    **cluster.environment,
                    "FLINK_HOME": str(FLINK_HOME),
                    "PYTHONUNBUFFERED": "1",
                    FOLDER_VARIABLE: str(self._folder),
                },
            )
        return self._process

    def _end_of(self, process: subprocess.Popen[str]) -> str | None:
        if process.poll() is None:
            return None
        return f"the client ended with {process.returncode}:\n{tail(self._log)}"


_client: WarmClient | None = None


def client() -> WarmClient | None:
    """This session's, None when no test has a stack."""
    return _client


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """While it is entered, ``client`` gives one that keeps its files in ``folder``."""
    global _client  # noqa: PLW0603  (as long-lived as the session's stack)
    _client = WarmClient(folder)
    try:
        yield
    finally:
        _client.close()
        _client = None
