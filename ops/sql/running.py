"""A query's job while somebody waits for its rows, and its end, whoever brings it about."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Protocol, Self

import requests

from jobs.uids import TABLE_SIDE
from ops import flink_run
from ops.cluster import Cluster, ask
from ops.job_status import gate_is_open
from ops.sql.errors import ShellError
from ops.sql.results import Change, Column
from ops.sql.submitting import Interrupts, Submitting
from udfs.core.errors import StackError

_POLL_S = 0.1
# Rows that the client has and the terminal has not: the fetching waits beyond it.
_AHEAD = 10_000
_AT_ONCE = 500
_ASK_EVERY_S = 0.5
SILENT_S = 180
"""After how long without a word from here the JobManager ends a query's job."""

_BEAT_S = 20.0
_JOIN_S = 5.0
# The operator whose watermark is the gate; a query over other tables has none.
_GATE = next(o.name for o in TABLE_SIDE if o.uid == "table-watermark")
# Of tasks that have no slot yet.
_NO_SLOT = frozenset({"CREATED", "SCHEDULED"})


class SubmittedQuery(Protocol):
    """``ops.sql.engine.Submitted``, without Flink's client behind it."""

    @property
    def job_id(self) -> str:
        """The job's id."""
        ...

    @property
    def columns(self) -> list[Column]:
        """The columns of its rows."""
        ...

    @property
    def changes(self) -> Iterator[Change]:
        """Its rows; waits for each."""
        ...


class Stage(Enum):
    """What a job waits for that has given no row yet."""

    STARTING = "it starts, or waits for a slot"
    SHUT = "it waits for its table"
    OPEN = "no rows yet"


class End(Enum):
    """Why a query is over."""

    FINISHED = "the query has ended"
    LIMIT = "that many rows were asked for"
    TIME = "its time is up"
    INTERRUPTED = "interrupted"


class Running:
    """One query's job. Use it as a context manager: no job is left behind the block.

    Flink's client waits for rows and for the submission without a way to be interrupted, so it does
    that in threads of their own. Ctrl-C is taken note of, and looked at between rows. Another
    thread tells the JobManager that somebody still waits: when this process dies without a word,
    the job ends after ``SILENT_S`` seconds.

    Args:
        cluster: where the job runs.
        submit: submits it.
    """

    def __init__(self, cluster: Cluster, submit: Callable[[], SubmittedQuery]) -> None:
        self._cluster = cluster
        self._rows: queue.Queue[Change | BaseException | None] = queue.Queue(_AHEAD)
        self._over = threading.Event()
        self._interrupts = Interrupts()
        self._ended = False
        self._asked, self._stage = 0.0, Stage.STARTING
        self._submit = submit

    def __enter__(self) -> Self:
        # First: Ctrl-C must not fall between the submission and the one who would end it.
        self._interrupts.__enter__()
        self._submitting = Submitting(self._cluster, self._submit)
        self._thread = threading.Thread(target=self._fetch, daemon=True)
        self._thread.start()
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self._interrupts.__exit__()

    @property
    def job_id(self) -> str:
        """Its id; waits for the submission, and raises what that raised.

        Raises KeyboardInterrupt when Ctrl-C is pressed meanwhile, ShellError when it takes too
        long.
        """
        return self._submitting.wait(self._interrupts).job_id

    @property
    def columns(self) -> list[Column]:
        """The columns of its rows; waits as ``job_id`` does."""
        return self._submitting.wait(self._interrupts).columns

    @property
    def submitted(self) -> SubmittedQuery | None:
        """What there is on the cluster; None before it is there, and when it never came."""
        return self._submitting.now()

    @property
    def ended(self) -> bool:
        """Whether its last row has come, and with it the end of its job."""
        return self._ended

    def runs(self) -> bool:
        """Whether all its tasks have got a slot; False too while nothing is known of the job."""
        submitted = self.submitted
        if submitted is None:
            return False
        with contextlib.suppress(StackError):
            states = flink_run.task_states(ask(self._cluster, "GET", f"/jobs/{submitted.job_id}"))
            return bool(states) and states.isdisjoint(_NO_SLOT)
        return False

    def waits_for_its_table(self) -> bool:
        """Whether its gate is shut, or nothing is known of it yet; asked twice a second at most."""
        return self.stage() is not Stage.OPEN

    def stage(self) -> Stage:
        """How far it has come; asked twice a second at most."""
        if time.monotonic() - self._asked >= _ASK_EVERY_S:
            self._asked = time.monotonic()
            self._stage = self._ask()
        return self._stage

    def _ask(self) -> Stage:
        submitted = self.submitted
        if submitted is None:
            return Stage.STARTING
        try:
            job = ask(self._cluster, "GET", f"/jobs/{submitted.job_id}")
            states = flink_run.task_states(job)
            if not states or states & _NO_SLOT:
                return Stage.STARTING
            gated = any(_GATE in vertex["name"] for vertex in job["vertices"])
            if gated and not gate_is_open(self._cluster.rest_url, submitted.job_id):
                return Stage.SHUT
        except (StackError, requests.RequestException):
            return Stage.STARTING
        return Stage.OPEN

    def batches(self) -> Iterator[list[Change]]:
        """Its rows as they come, an empty list where none came for a moment, until its end.

        Raises:
            ShellError: the job failed.
            KeyboardInterrupt: Ctrl-C was pressed meanwhile.
        """
        while not self._ended:
            self._interrupts.look()
            batch: list[Change] = []
            with contextlib.suppress(queue.Empty):
                self._take(self._rows.get(timeout=_POLL_S), batch)
                while len(batch) < _AT_ONCE and not self._ended:
                    self._take(self._rows.get_nowait(), batch)
            yield batch

    def _take(self, found: Change | BaseException | None, batch: list[Change]) -> None:
        if isinstance(found, Change):
            batch.append(found)
            return
        self._ended = True
        if found is not None:
            raise self._failed(found)

    def _failed(self, error: BaseException) -> BaseException:
        submitted = self.submitted
        if submitted is None:
            return error
        with contextlib.suppress(StackError):
            if trace := flink_run.failure(self._cluster, submitted.job_id):
                return ShellError(
                    f"Job {submitted.job_id} failed: {flink_run.last_cause(trace)}.",
                    self._cluster.logs_hint,
                )
        cause = flink_run.last_cause(str(error))
        return ShellError(
            f"The rows of job {submitted.job_id} cannot be had: {cause}.",
            self._cluster.logs_hint,
        )

    def stop(self, deadline_s: float = 60) -> None:
        """Return when the cluster says that the job has ended; cancel it if it has not.

        Raises:
            StackError: the cluster does not answer, or the job did not end, or was not submitted,
                in time.
        """
        self._over.set()
        self._submitting.end(deadline_s)
        # It sees the end of the job, and must not ask a client that is gone.
        self._thread.join(_JOIN_S)

    def _fetch(self) -> None:
        try:
            # Ctrl-C is looked at elsewhere.
            for change in self._submitting.wait(Interrupts()).changes:
                if not self._put(change):
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001  (told where somebody waits for it)
            self._put(error)

    def _beat(self) -> None:
        while not self._over.wait(_BEAT_S):
            submitted = self.submitted
            if submitted is None:
                continue
            until = time.time_ns() // 1_000_000 + SILENT_S * 1000
            # One that is lost is followed by others in time; a job that has ended needs none.
            with contextlib.suppress(StackError):
                path = f"/jobs/{submitted.job_id}/clientHeartbeat"
                ask(self._cluster, "PATCH", path, expiredTimestamp=until)

    def _put(self, found: Change | BaseException | None) -> bool:
        """Hand it over; False when nobody wants it any more."""
        while not self._over.is_set():
            with contextlib.suppress(queue.Full):
                self._rows.put(found, timeout=_POLL_S)
                return True
        return False


class Clock:
    """How long a query may take, in seconds; None: without an end."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def over(self) -> bool:
        """Whether the time is up."""
        return self._end is not None and time.monotonic() >= self._end
