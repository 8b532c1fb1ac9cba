"""The real `Engine`: Flink through REST and its command line, Kafka through its admin client."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from jobs.uids import JOIN
from ops import flink_run
from ops.cluster import Cluster, UnreachableError, ask, on_this_host
from ops.deploy import offsets, packages, savepoints
from ops.deploy.errors import DeployError
from ops.deploy.failures import NOT_RECORDED, explain
from ops.deploy.journal import Journal, Version, now_ms
from ops.deploy.port import Budget, Outcome
from ops.deploy.savepoints import Savepoint
from ops.deploy.secrets import Scrubber
from ops.deploy.waiting import resend
from ops.paths import VENV_PYTHON
from ops.stack.flink import FlinkCluster
from ops.stack.processes import wait_until
from ops.status.model import Phase, Status
from ops.status.reader import find
from ops.status.watch import Watch
from udfs.core.errors import StackError, TablegateError
from udfs.core.misses import GRACE_LIMIT_MS, OnMiss

T = TypeVar("T")

_ENDED = frozenset({"FAILED", "CANCELED", "FINISHED"})
# A new version that is restarted so often before it was ready once has a fault of its own.
_TOO_MANY_RESTARTS = 3
_WORKERS_S = 180.0
_RELEASE_S = 60.0
_SUBMIT_S = 300.0
# A JobManager that is replaced: its session has to end, and its jobs have to be recovered.
_JOBMANAGER_S = 180.0
_POLL_S = 0.5
_SETTLE_S = 60.0
_OPEN = frozenset({Phase.STALE, Phase.CATCHING_UP, Phase.READY})


@dataclass(frozen=True, slots=True)
class Workers:
    """How the workers run Python, and how they are made to forget old code."""

    python: str = str(VENV_PYTHON)
    thread_mode: bool = True
    restart_command: str = ""
    fresh: bool = False
    """Whether the new version gets TaskManagers that have run nothing."""


class FlinkEngine:
    """Does what `ops.deploy.actions` decides.

    Args:
        cluster: where the job runs.
        journal: the job's.
        workers: see there.
        savepoint_timeout_s: how long a savepoint may take, in seconds.
        say: prints a line for the person who waits.
        each: is shown every status while something is waited for.
    """

    def __init__(
        self,
        cluster: Cluster,
        journal: Journal,
        workers: Workers,
        *,
        savepoint_timeout_s: float,
        say: Callable[[str], None],
        each: Callable[[Status], None],
    ) -> None:
        self._cluster = cluster
        self._journal = journal
        self._workers = workers
        self._savepoint_timeout_s = savepoint_timeout_s
        self._say = say
        self._each = each
        self._read: dict[str, Savepoint] = {}

    # ------------------------------------------------------------------------------ jobs

    def running(self, name: str, *, patient: bool = False) -> list[str]:
        """Ids of the jobs of that name that have not ended."""
        jobs = partial(flink_run.jobs, self._cluster)
        listed = self._patiently(jobs) if patient else jobs()
        return [e["jid"] for e in listed if e["name"] == name and e["state"] not in _ENDED]

    def submit(
        self, version: Version, savepoint: str, extra: Sequence[str] = (), *, table_only: bool
    ) -> str:
        """Submit the version with its own package and entry, and return the job's id."""
        folder = self._journal.files(version)
        package = folder / version.package
        config = folder / "config.toml"
        config.write_text(version.config)
        submission: flink_run.Submission = {
            "config": config,
            "overrides": [*version.overrides, *extra],
            "entry": packages.entry(package, folder),
            "from_savepoint": savepoint or None,
            "extra_python_files": [folder / name for name in version.python_files],
            "job_arguments": ["--table-only"] if table_only else [],
            "package_zip": package,
            "worker_python": self._workers.python,
        }
        if isinstance(self._cluster, FlinkCluster):
            # The job that was cancelled before may have taken a TaskManager with it (see
            # docs/operations.md), and the local stack has nobody else to start it again.
            self._cluster.start()
        told = ""
        try:
            return flink_run.submit(
                self._cluster,
                timeout_s=_SUBMIT_S,
                # `flink run` outlives a command that is killed, and may still submit: until it is
                # done nobody else may look at what runs.
                keep_open=self._journal.lock_files,
                **submission,
            )
        except StackError as error:
            told, remedy = self.scrub(version, error.what), error.remedy
        # Outside of the clause: the client's output would come along with the first error.
        raise DeployError(told, remedy)

    def stop(self, job_id: str) -> str:
        """Stop the job with a savepoint, never draining, and return its path."""
        # Flink refuses it while a task is not running yet: of a job that has just been started, or
        # that is being restarted. One that does not come up says so when it is asked.
        with suppress(StackError):
            flink_run.wait_running(self._cluster, job_id, deadline_s=_SETTLE_S)
        return flink_run.stop_with_savepoint(
            self._cluster, job_id, deadline_s=self._savepoint_timeout_s
        )

    def cancel(self, job_id: str) -> None:
        """Cancel the job; one that has ended, or that nobody knows any more, is no error."""

        def cancelled() -> None:
            if find(self._cluster, job_id) is not None:
                flink_run.cancel(self._cluster, job_id)

        self._patiently(cancelled)

    def _patiently(self, ask_it: Callable[[], T]) -> T:
        """The answer of a JobManager that may be about to be replaced.

        The next one brings its jobs back: who gave up now would start another one beside them.
        """
        end = time.monotonic() + _JOBMANAGER_S
        while True:
            try:
                return ask_it()
            except UnreachableError:
                if time.monotonic() > end:
                    raise
                time.sleep(_POLL_S)

    def restarts(self, job_id: str) -> int:
        """The attempt of the join's tasks: grows with each restart, and outlives the job."""
        vertices = ask(self._cluster, "GET", f"/jobs/{job_id}")["vertices"]
        join = next((v["id"] for v in vertices if JOIN.name in v["name"]), None)
        if join is None:
            return 0
        subtasks = ask(self._cluster, "GET", f"/jobs/{job_id}/vertices/{join}")["subtasks"]
        return max((int(subtask["attempt"]) for subtask in subtasks), default=0)

    # ------------------------------------------------------------------------------ waiting

    def wait_ready(self, version: Version, job_id: str, budget: Budget, stream_at: str) -> Outcome:
        """Wait until the gate is open and the stream's lag under its budget."""
        found = self.read_savepoint(stream_at)
        topic = version.settings().stream.topic
        return self._wait(
            version,
            job_id,
            lambda status: status.ready,
            budget.timeout_s,
            budget.max_lag,
            savepoints.source_offsets(found, topic) if found else {},
        )

    def wait_loaded(self, version: Version, job_id: str, timeout_s: float) -> Outcome:
        """Wait until the gate is open; a run without a stream has no lag to look at."""
        return self._wait(version, job_id, lambda status: status.phase in _OPEN, timeout_s, 0, {})

    def _wait(
        self,
        version: Version,
        job_id: str,
        wanted: Callable[[Status], bool],
        timeout_s: float,
        max_lag: int,
        stream_from: Mapping[int, int],
    ) -> Outcome:
        def done(status: Status) -> bool:
            worn_out = status.reading.restarts >= _TOO_MANY_RESTARTS
            return wanted(status) or not status.alive or worn_out

        watch = Watch(
            self._cluster, job_id, version.settings(), max_lag=max_lag, stream_from=stream_from
        )
        try:
            status, settled = watch.until(done, timeout_s=timeout_s, each=self._each)
        finally:
            watch.close()
        if settled and wanted(status):
            return Outcome(ready=True, alive=True)
        restarts = status.reading.restarts
        if restarts or not status.alive:
            trace = status.reading.failure or flink_run.failure(self._cluster, job_id)
            reason = f"{status.phase} after {restarts} restarts: "
            # Somebody may also have cancelled it.
            nothing = NOT_RECORDED if status.phase is Phase.FAILED else "no failure is recorded"
            told = explain(trace, self.uids(version)) if trace else nothing
            reason += self.scrub(version, told)
            return Outcome(ready=False, alive=status.alive and not settled, reason=reason)
        return Outcome(
            ready=False, alive=True, reason=f"after {timeout_s:g} s it is {not_ready(status)}"
        )

    def holds_events(self, version: Version, job_id: str) -> str:
        """Why events would be lost if the job's state were left behind; "" when none would."""
        settings = version.settings()
        grace_ms = longest_grace_ms(self._journal.versions(), version.number)
        watch = Watch(self._cluster, job_id, settings)
        try:
            # What the gate let go is counted a moment later.
            status, _ = watch.until(
                lambda status: not held_reason(status, continuous=False, grace_ms=grace_ms),
                timeout_s=_RELEASE_S,
            )
        finally:
            watch.close()
        return held_reason(
            status,
            continuous=settings.gate.continuous,
            grace_ms=grace_ms,
            for_ever=OnMiss.HOLD in settings.output.on_miss_of().values(),
        )

    # ------------------------------------------------------------------------------ savepoints

    def read_savepoint(self, path: str) -> Savepoint | None:
        """The savepoint; None when it is a file of another machine."""
        if (
            savepoints.is_local_file(path)
            and not on_this_host(self._cluster)
            and not Path(savepoints.local_path(path)).exists()
        ):
            return None
        # Read once: it does not change, and each reading starts a JVM.
        if path not in self._read:
            self._read[path] = savepoints.read(self._cluster, path)
        return self._read[path]

    def latest_checkpoint(self, job_id: str) -> str:
        """The newest checkpoint or savepoint of a job that the cluster still knows; "" for none."""
        if not job_id or find(self._cluster, job_id) is None:
            return ""
        latest = ask(self._cluster, "GET", f"/jobs/{job_id}/checkpoints")["latest"]
        return newest_state(latest)

    def uids(self, version: Version) -> Mapping[str, str]:
        """The version's uids, each with its operator's name."""
        package = self._journal.files(version) / version.package
        return packages.uids(package, version.settings())

    def hand_over_offsets(self, old: Version, new: Version, savepoint: Savepoint) -> None:
        """See to it that the new version's group stands where the savepoint does in the stream."""
        self._say(offsets.hand_over(old.settings(), new.settings(), savepoint))

    def resend_waiting(
        self, old: Version, new: Version, savepoint: Savepoint, asked_ms: int
    ) -> None:
        """See to it that the new version gets the events that waited in the old one's state."""
        settings, before = new.settings(), old.settings()
        read = offsets.retry_offsets(before, settings, savepoint)
        if before.miss.retry_after and not offsets.reads_the_same_retries(before, settings):
            self._say(
                f"Events that waited for their next try in version {old.number} are left in "
                f"{before.output.retry}: the new version does not read it."
            )
        if read and (count := resend(settings, read, asked_ms)):
            self._say(
                f"{count} events that waited for their next try in version {old.number} are in "
                f"{settings.output.retry} once more."
            )

    # ------------------------------------------------------------------------------ workers

    def renew_workers(self, before_code: str, after_code: str) -> None:
        """Restart the TaskManagers where they would go on with the old code."""
        workers = self._workers
        if not before_code or before_code == after_code or not workers.thread_mode:
            return
        if workers.fresh:
            return
        slots, old = self._slots(), self._taskmanagers()
        self._say("The workers' code changed: restarting the TaskManagers ...")
        if workers.restart_command:
            self._run(workers.restart_command)
        elif isinstance(self._cluster, FlinkCluster):
            for number in self._cluster.taskmanagers():
                self._cluster.kill_taskmanager(number)
                self._cluster.start_taskmanager(wait=False)
            self._cluster.wait_for_taskmanagers(deadline_s=_WORKERS_S)
        else:
            raise DeployError(
                "The workers' code changed, and nothing restarts the TaskManagers.",
                "Give --restart-workers COMMAND.",
            )
        wait_until(
            # One of the old ones would take the new job and refuse it.
            lambda: self._slots() >= slots and not self._taskmanagers() & old,
            deadline_s=_WORKERS_S,
            what=f"{slots} slots, all of new TaskManagers",
            give_up=lambda: None,
        )

    def _taskmanagers(self) -> set[tuple[str, str, int]]:
        listed = ask(self._cluster, "GET", "/taskmanagers")["taskmanagers"]
        return {(str(tm["id"]), str(tm["path"]), int(tm["dataPort"])) for tm in listed}

    def _slots(self) -> int:
        return int(ask(self._cluster, "GET", "/overview")["slots-total"])

    def _run(self, command: str) -> None:
        try:
            done = subprocess.run(
                shlex.split(command), capture_output=True, text=True, timeout=600, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DeployError(f"`{command}` failed: {error}.", "Correct the command.") from error
        if done.returncode:
            raise DeployError(
                f"`{command}` exited with {done.returncode}: {(done.stdout + done.stderr)[-500:]}",
                "Correct the command.",
            )

    # ------------------------------------------------------------------------------ the rest

    def scrub(self, version: Version, text: str) -> str:
        """The text without the values of the environment variables that the version refers to."""
        return Scrubber((version.config, *version.overrides), os.environ)(text)

    def say(self, text: str) -> None:
        """Tell the person who waits."""
        self._say(text)

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return now_ms()


# ------------------------------------------------------------------------------------ decisions


def newest_state(latest: Mapping[str, Any]) -> str:
    """The path of the newest state that is still there; "" for none.

    ``latest`` is that part of what `/jobs/ID/checkpoints` says. A stop with a savepoint discards
    the checkpoints and leaves the savepoint.
    """
    taken = [latest.get("completed"), latest.get("savepoint")]
    there = [one for one in taken if one and not one.get("discarded")]
    newest = max(there, key=lambda one: int(one["id"]), default=None)
    return str(newest["external_path"]) if newest else ""


def not_ready(status: Status) -> str:
    """What keeps a living job from being ready, for the reason of a rollback."""
    parts = [str(status.phase)]
    if status.phase in {Phase.LOADING, Phase.STALLED, Phase.SHORT} and status.slowest:
        slow = status.slowest
        why = "" if slow.why in {"", "rows left"} else f" ({slow.why})"
        # Where it stands may not be known, and a transaction may leave nothing to count.
        by = f" by {slow.left}" if slow.left else ""
        parts.append(f"{status.reading.table_topic}[{slow.number}] is short{by}{why}")
    if status.phase is Phase.CATCHING_UP:
        parts.append(f"the stream's lag is {'unknown' if status.lag is None else status.lag}")
        if status.held:
            parts.append(f"{status.held} held events are not released yet")
    parts += status.notes
    return ", ".join(parts)


def longest_grace_ms(versions: Iterable[Version], number: int) -> int:
    """For how long events may wait for their row that a version up to ``number`` parked.

    Its own grace is not enough: restored events keep the end that they were given.
    """
    graces = []
    for version in versions:
        if version.number > number:
            continue
        try:
            settings = version.settings()
        except TablegateError:
            # Its secrets are not set here, say.
            graces.append(GRACE_LIMIT_MS)
            continue
        holds = OnMiss.HOLD in settings.output.on_miss_of().values()
        graces.append(GRACE_LIMIT_MS if holds else settings.miss.grace_ms)
    return max(graces, default=GRACE_LIMIT_MS)


def held_reason(
    status: Status, *, continuous: bool, grace_ms: int = 0, for_ever: bool = False
) -> str:
    """Why the job may hold events; "" when it cannot. ``for_ever``: until their row comes.

    While the gate is shut there may be some that an earlier attempt held, which no counter of this
    one knows. Once it is open, all that were held are released; and once it has been so for
    ``grace_ms``, all that an earlier attempt had parked are decided.
    """
    if continuous:
        return 'gate.consistency is "continuous": each event waits a moment in the state'
    if for_ever:
        return 'output.on_miss is "hold": events wait in the state for their row'
    if status.phase not in _OPEN:
        return f"it is {status.phase}"
    if status.held is None:
        return "the counters of held events are not there"
    if status.held:
        return f"{status.held} are being released"
    return _parked_reason(status, grace_ms) if grace_ms else ""


def _parked_reason(status: Status, grace_ms: int) -> str:
    if status.parked is None:
        return "the counters of events that wait for their row are not there"
    if status.parked:
        return f"{status.parked} wait for their row (miss.grace_ms = {grace_ms})"
    reading = status.reading
    # As old as the metrics may be, twice: the attempt's time is not that of its gate.
    young = reading.attempt_ms < grace_ms + 2 * reading.refresh_ms
    if young and (reading.restarts or reading.restored):
        return "some that an earlier attempt had parked may still wait for their row"
    return ""
