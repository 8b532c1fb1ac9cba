"""Processes that outlive the command that started them, and that only we may stop.

A process is ours if its pid *and* its start time are the ones that we wrote down: a pid alone may
belong to a stranger by now. Each is started as the leader of its own process group, so that Ctrl-C
does not reach it and so that children which it left behind can be found and stopped with it.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from udfs.core.errors import StackError

# In the environment of every process we start: a second way, besides the state file, to tell that
# a process is ours and from which folder.
FOLDER_VARIABLE = "TABLEGATE_STACK_FOLDER"

# psutil computes a start time from clock ticks; a step of the wall clock shifts it a little.
_START_TIME_TOLERANCE_S = 1.0

# Children of this Python by pid. Only their parent can reap them, through whichever ProcessSet, and
# they may outlive it: dropping the object would warn about that.
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}

_POLL_S = 0.1
_LOG_TAIL_LINES = 25


@dataclass(frozen=True)
class ProcessRecord:
    """What is written down about a process.

    `started` is its start time in seconds since the epoch, as psutil reports it.
    """

    name: str
    pid: int
    started: float


def find(record: ProcessRecord) -> psutil.Process | None:
    """The living process of a record; None if it is gone or its pid is a stranger's by now."""
    try:
        process = psutil.Process(record.pid)
        same = abs(process.create_time() - record.started) < _START_TIME_TOLERANCE_S
        if same and process.status() != psutil.STATUS_ZOMBIE:
            return process
    except psutil.NoSuchProcess:
        pass
    return None


def ours(folder: Path) -> list[psutil.Process]:
    """Every living process whose environment says that it was started from below `folder`."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            where = process.environ().get(FOLDER_VARIABLE)
            if (
                where
                and Path(where).is_relative_to(folder)
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
    return found


def _reap() -> None:
    for child in list(_CHILDREN.values()):
        if child.poll() is not None:
            del _CHILDREN[child.pid]


def tail(log: Path, lines: int = _LOG_TAIL_LINES) -> str:
    """The last lines of a log, for an error message; says so when there is none."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) or "(empty)"
    except FileNotFoundError:
        return "(no log was written)"


def wait_until(
    ready: Callable[[], bool], *, deadline_s: float, what: str, give_up: Callable[[], str | None]
) -> None:
    """Ask until `ready` says yes.

    Args:
        ready: asked about ten times a second; an exception of it is not caught.
        deadline_s: how long to go on asking, in seconds.
        what: what is waited for, for the error.
        give_up: says why waiting is pointless (a process died), or None to go on.

    Raises:
        StackError: the deadline passed, or `give_up` gave a reason.
    """
    end = time.monotonic() + deadline_s
    while not ready():
        if reason := give_up():
            raise StackError(f"{what}: {reason}", "The log's end above names the cause.")
        if time.monotonic() > end:
            raise StackError(
                f"{what}: not after {deadline_s:g} s.",
                "Look into the logs in its folder; a busy machine may need a longer deadline.",
            )
        time.sleep(_POLL_S)


class ProcessSet:
    """The processes of one folder, by name, with a state file that another command can read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "processes.json"

    def records(self) -> dict[str, ProcessRecord]:
        """What the state file says, by name; empty if there is none.

        Raises:
            StackError: the file cannot be read as what we write.
        """
        try:
            listed = json.loads(self._file.read_text())
            return {entry["name"]: ProcessRecord(**entry) for entry in listed}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError) as error:
            raise StackError(
                f"{self._file} is not a state file of ours: {error}.",
                f"Look for left processes with `ps e | grep {FOLDER_VARIABLE}`, then delete it.",
            ) from error

    def _write(self, records: Mapping[str, ProcessRecord]) -> None:
        partial = self._file.with_suffix(".tmp")
        partial.write_text(json.dumps([asdict(record) for record in records.values()], indent=1))
        partial.replace(self._file)

    def spawn(
        self, name: str, command: Sequence[str], *, log: Path, env: Mapping[str, str]
    ) -> ProcessRecord:
        """Start a process and write it down.

        Args:
            name: its name in this set; a dead process of that name is replaced.
            command: the program and its arguments.
            log: file that takes its standard output and error, appended.
            env: variables laid over this process's environment.

        Raises:
            StackError: a process of that name is running, or the program cannot be started.
        """
        if self.alive(name):
            raise StackError(f"{name} is running already in {self.folder}.", "Stop it first.")
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            try:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **env, FOLDER_VARIABLE: str(self.folder)},
                    cwd=self.folder,
                    start_new_session=True,
                )
            except OSError as error:
                raise StackError(
                    f"{name}: cannot start {command[0]}: {error.strerror}.",
                    "Java 17 must be on the PATH; `make setup` makes the rest.",
                ) from error
        # Also those that died and are replaced here: their records go, and nobody looks again.
        _reap()
        _CHILDREN[child.pid] = child
        try:
            started = psutil.Process(child.pid).create_time()
            record = ProcessRecord(name, child.pid, started)
            self._write({**self.records(), name: record})
        except BaseException:
            # Not written down means never stopped.
            child.kill()
            child.wait()
            raise
        return record

    def alive(self, name: str) -> bool:
        """Whether the process of that name runs."""
        record = self.records().get(name)
        return record is not None and find(record) is not None

    def kill(self, name: str) -> None:
        """SIGKILL that one process, as `kill -9` does, and wait until it is gone.

        Its children get no signal; `stop` finds them.
        """
        record = self.records()[name]
        if process := find(record):
            process.send_signal(signal.SIGKILL)
            self._wait_gone([record], deadline_s=10)

    def stop(self, names: Iterable[str] | None = None, *, deadline_s: float = 15) -> None:
        """SIGTERM, then SIGKILL for what is left at the deadline, then forget them.

        Args:
            names: which; all by default.
            deadline_s: how long to wait after SIGTERM, in seconds.
        """
        known = self.records()
        chosen = [known[name] for name in (known if names is None else names) if name in known]
        for record in chosen:
            if process := find(record):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.terminate()
        self._wait_gone(chosen, deadline_s=deadline_s)
        # All of them: also what a process left that was killed and replaced since.
        self._kill_left(None if names is None else {record.pid for record in chosen})
        self._wait_gone(chosen, deadline_s=10)
        left = {name: record for name, record in self.records().items() if record not in chosen}
        if left:
            self._write(left)
        else:
            self._file.unlink(missing_ok=True)

    def _wait_gone(self, records: Sequence[ProcessRecord], *, deadline_s: float) -> bool:
        end = time.monotonic() + deadline_s
        while True:
            gone = not any(find(record) for record in records)
            # After looking: a child seen as gone is reaped.
            _reap()
            if gone:
                return True
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_S)

    def _kill_left(self, groups: set[int] | None) -> None:
        # What SIGTERM did not end, and what a dead one left: process mode's Python workers stay
        # behind when their TaskManager is killed. They have its process group, and our variable, so
        # a stranger cannot be meant.
        for process in ours(self.folder):
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                if groups is None or os.getpgid(process.pid) in groups:
                    process.kill()
