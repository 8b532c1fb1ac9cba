"""A peer that is a Python program with an environment of its own.

Its folder holds ``job.py``, ``requirements.in`` with a reason for each package, and
``requirements.lock`` with the hashes of all. To take newer versions, change the former and remake
the latter::

    .venv/bin/python -m bench.systems.python_peer quix_join_asof
"""

from __future__ import annotations

import contextlib
import json
import re
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

from bench.systems.contract import Run, Work
from ops.package import digest
from ops.paths import BUILD, ROOT, VENV
from ops.stack.processes import ProcessSet, find, tail, wait_until
from udfs.core.errors import StackError

_UV = VENV / "bin" / "uv"
# Fetching wheels through a slow proxy takes minutes; hanging for ever is what this ends.
_INSTALL_S = 900.0
# Quix Streams commits and flushes its state before it ends.
_STOP_S = 60.0
_END_S = 5.0


class PythonPeer:
    """Where one peer's program and environment are.

    Args:
        folder: of its sources, below bench/systems.
        package: the framework, as the lock file spells it.
    """

    def __init__(self, folder: str, package: str) -> None:
        self.sources = Path(__file__).with_name(folder)
        self.place = BUILD / "bench" / folder
        self.python = self.place / "venv" / "bin" / "python"
        self._package = package
        self._stamp = self.place / "digest"

    def versions(self) -> dict[str, str]:
        """The framework's and Python's."""
        locked = (self.sources / "requirements.lock").read_text()
        return {
            self._package: locked_version(locked, self._package),
            "python": ".".join(str(part) for part in sys.version_info[:3]),
        }

    def prepare(self) -> None:
        """Make the environment, unless it is the one that the lock file describes.

        Raises:
            RuntimeError: uv could not make it or install into it; ends with what uv said.
        """
        lock = self.sources / "requirements.lock"
        # An environment has absolute paths in it, and belongs to one interpreter.
        wanted = digest((lock,), salt=f"{ROOT}\n{sys.version}")
        if self.python.exists() and self._stamp.exists() and self._stamp.read_text() == wanted:
            return
        self.place.mkdir(parents=True, exist_ok=True)
        self._stamp.unlink(missing_ok=True)
        venv = str(self.place / "venv")
        _uv("venv", "--quiet", "--clear", "--python", sys.executable, venv)
        _uv(
            *("pip", "install", "--quiet", "--require-hashes", "--python", str(self.python)),
            *("--requirements", str(lock)),
        )
        self._stamp.write_text(wanted)

    def lock(self) -> None:
        """Remake requirements.lock from requirements.in.

        Raises:
            RuntimeError: uv found no versions that fit together, or none at all.
        """
        _uv(
            *("pip", "compile", "--quiet", "--python-version", "3.11", "--upgrade"),
            *("--generate-hashes", "--no-emit-index-url", "--custom-compile-command"),
            f".venv/bin/python -m bench.systems.python_peer {self.sources.name}",
            *("--output-file", str(self.sources / "requirements.lock")),
            str(self.sources / "requirements.in"),
        )

    def start(self, work: Work, *, processes: int, env: Mapping[str, str] | None = None) -> Run:
        """Start ``job.py`` that many times; each gets `argument` and ends on SIGTERM.

        Args:
            work: what to do.
            processes: which share it.
            env: environment variables of the framework.

        Raises:
            RuntimeError: a process cannot be started.
        """
        return _PythonRun(self.python, self.sources / "job.py", work, processes, env or {})


def argument(work: Work, state: Path) -> str:
    """The one argument of a ``job.py``: its part of the Work as JSON."""
    return json.dumps(
        {
            "brokers": work.brokers,
            "name": work.name,
            "stream": work.stream,
            "table": work.table,
            "enriched": work.enriched,
            "state": str(state),
        }
    )


def locked_version(lock: str, package: str) -> str:
    """The version of a package in the text of a requirements.lock.

    Raises:
        ValueError: it is not in there.
    """
    found = re.search(rf"^{re.escape(package)}==(\S+)", lock, re.MULTILINE)
    if found is None:
        raise ValueError(f"{package} is not in the lock file")
    return found[1]


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder, which something else may be writing."""
    total = 0
    for path in folder.rglob("*"):
        # RocksDB deletes its old files at any moment.
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total


class _PythonRun(Run):
    """Processes of one program, numbered from 0, each with a folder for its state.

    Started again with the same Work, number n gets the folder that number n had.
    """

    def __init__(
        self, python: Path, job: Path, work: Work, processes: int, env: Mapping[str, str]
    ) -> None:
        self._place = work.place.resolve()
        self._place.mkdir(parents=True, exist_ok=True)
        self._processes = ProcessSet(self._place)
        self._names = [f"job-{number}" for number in range(processes)]
        try:
            for name in self._names:
                state = self._place / "state" / name
                state.mkdir(parents=True, exist_ok=True)
                self._processes.spawn(
                    name,
                    [str(python), str(job), argument(work, state)],
                    log=self._log(name),
                    env={"PYTHONUNBUFFERED": "1", **env},
                )
        except StackError as error:
            self.close()
            raise RuntimeError(str(error)) from error

    def pids(self) -> list[int]:
        """Of its processes, those that live."""
        return [process.pid for process in self._living()]

    def problem(self) -> str | None:
        """Names the first process that is gone, with the end of its log."""
        for name in self._names:
            if not self._processes.alive(name):
                return f"{name} is not running.\n{tail(self._log(name))}"
        return None

    def state_bytes(self) -> int | None:
        """Of the state folders; None where the framework keeps nothing there."""
        return folder_bytes(self._place / "state") or None

    def stop(self) -> None:
        """SIGTERM to all at once: those left would otherwise take the first one's partitions over.

        Raises:
            RuntimeError: a process had died before, or did not end within a minute.
        """
        if problem := self.problem():
            raise RuntimeError(problem)
        for process in self._living():
            process.terminate()
        try:
            wait_until(
                lambda: not self._living(),
                deadline_s=_STOP_S,
                what=f"SIGTERM to {', '.join(self._names)}",
                give_up=lambda: None,
            )
        except StackError as error:
            raise RuntimeError(f"{error}\n{tail(self._log(self._names[0]))}") from error
        finally:
            self.close()

    def close(self) -> None:
        """End what is left, by pid."""
        self._processes.stop(deadline_s=_END_S)

    def _living(self) -> list[psutil.Process]:
        found = (find(record) for record in self._processes.records().values())
        return [process for process in found if process is not None]

    def _log(self, name: str) -> Path:
        return self._place / f"{name}.log"


def _uv(*arguments: str) -> None:
    result = subprocess.run(
        [str(_UV), *arguments],
        cwd=ROOT,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_INSTALL_S,
    )
    if result.returncode:
        raise RuntimeError(f"`uv {' '.join(arguments)}` said:\n{result.stdout}")


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        PythonPeer(asked, asked).lock()
