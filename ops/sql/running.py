"""A query's job while somebody waits for its rows, and its end, whoever brings it about."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from enum import Enum
from typing import Protocol, Self

import requests

from jobs.uids import TABLE_SIDE
from ops import flink_run
from ops.cluster import Cluster, ask
from ops.job_status import gate_is_open
from ops.sql.errors import ShellError
from ops.sql.results import Change, Column
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
_SUBMIT_S = 180.0
# The operator whose watermark is the gate; a query over other tables has none.
_GATE = next(o.name for o in TABLE_SIDE if o.uid == "table-watermark")
_WITHOUT_SLOT = frozenset({"CREATED", "SCHEDULED"})
_ENDED = frozenset({"FAILED", "CANCELED", "FINISHED", "SUSPENDED"})


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


class End(Enum):
    """Why a query is over."""

    FINISHED = "the query has ended"
    LIMIT = "that many rows were asked for"
    TIME = "its time is up"
    INTERRUPTED = "interrupted"


class Running:
    """One query's job. Use it as a context manager: no job is left behind the block.

    Flink's client waits for rows and for the submission without a way to be interrupted, so it does
    that in a thread of its own. Ctrl-C is taken note of, and looked at between rows: raised
    wherever this thread was it got lost (*seen*), probably in one of py4j's many finalizers, out of
    which Python lets nothing be raised. Another thread tells the JobManager that somebody still
    waits: when this process dies without a word, the job ends after ``SILENT_S`` seconds.

    Args:
        cluster: where the job runs.
        submit: submits it.
    """

    def __init__(self, cluster: Cluster, submit: Callable[[], SubmittedQuery]) -> None:
        self._cluster = cluster
        self._submitted: Future[SubmittedQuery] = Future()
        self._rows: queue.Queue[Change | BaseException | None] = queue.Queue(_AHEAD)
        self._over = threading.Event()
        self._interrupted = threading.Event()
        self._ended = False
        self._asked, self._waits = 0.0, True
        self._thread = threading.Thread(target=self._fetch, args=(submit,), daemon=True)
        self._thread.start()
        threading.Thread(target=self._beat, daemon=True).start()

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and self._before != signal.SIG_IGN:
            signal.signal(signal.SIGINT, lambda *_: self._interrupted.set())
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, self._before)

    @property
    def job_id(self) -> str:
        """Its id; waits for the submission, and raises what that raised."""
        return self._submitted.result(_SUBMIT_S).job_id

    @property
    def columns(self) -> list[Column]:
        """The columns of its rows; waits as ``job_id`` does."""
        return self._submitted.result(_SUBMIT_S).columns

    @property
    def ended(self) -> bool:
        """Whether its last row has come, and with it the end of its job."""
        return self._ended

    def runs(self) -> bool:
        """Whether all its tasks have got a slot; False too while nothing is known of the job."""
        if not self._submitted.done() or self._submitted.exception():
            return False
        with contextlib.suppress(StackError):
            states = flink_run.task_states(ask(self._cluster, "GET", f"/jobs/{self.job_id}"))
            return bool(states) and states.isdisjoint(_WITHOUT_SLOT)
        return False

    def waits_for_its_table(self) -> bool:
        """Whether its gate is shut, or nothing is known of it yet; asked twice a second at most."""
        if time.monotonic() - self._asked >= _ASK_EVERY_S:
            self._asked = time.monotonic()
            self._waits = self._ask()
        return self._waits

    def _ask(self) -> bool:
        try:
            job = ask(self._cluster, "GET", f"/jobs/{self.job_id}")
            gated = any(_GATE in vertex["name"] for vertex in job["vertices"])
            return gated and not gate_is_open(self._cluster.rest_url, self.job_id)
        except (StackError, requests.RequestException):
            return True

    def batches(self) -> Iterator[list[Change]]:
        """Its rows as they come, an empty list where none came for a moment, until its end.

        Raises:
            ShellError: the job failed.
            KeyboardInterrupt: Ctrl-C was pressed meanwhile.
        """
        while not self._ended:
            if self._interrupted.is_set():
                raise KeyboardInterrupt
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
        if not self._submitted.done() or self._submitted.exception():
            return error
        with contextlib.suppress(StackError):
            if trace := flink_run.failure(self._cluster, self.job_id):
                return ShellError(
                    f"Job {self.job_id} failed: {flink_run.last_cause(trace)}.",
                    self._cluster.logs_hint,
                )
        return ShellError(
            f"The rows of job {self.job_id} cannot be had: {flink_run.last_cause(str(error))}.",
            self._cluster.logs_hint,
        )

    def stop(self, deadline_s: float = 60) -> None:
        """Return when the cluster says that the job has ended; cancel it if it has not.

        Raises:
            StackError: the cluster does not answer, or the job did not end in time.
        """
        self._over.set()
        try:
            job_id = self.job_id
        except Exception:  # noqa: BLE001  (whatever the submission died of: there is no job)
            return
        end_job(self._cluster, job_id, deadline_s)
        # It sees the end of the job, and must not ask a client that is gone.
        self._thread.join(_JOIN_S)

    def _fetch(self, submit: Callable[[], SubmittedQuery]) -> None:
        try:
            submitted = submit()
        except BaseException as error:  # noqa: BLE001  (told where somebody waits for it)
            self._submitted.set_exception(error)
            self._put(error)
            return
        self._submitted.set_result(submitted)
        try:
            for change in submitted.changes:
                if not self._put(change):
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001  (as above)
            self._put(error)

    def _beat(self) -> None:
        while not self._over.wait(_BEAT_S):
            if not self._submitted.done() or self._submitted.exception():
                continue
            until = time.time_ns() // 1_000_000 + SILENT_S * 1000
            # One that is lost is followed by others in time; a job that has ended needs none.
            with contextlib.suppress(StackError):
                path = f"/jobs/{self._submitted.result().job_id}/clientHeartbeat"
                ask(self._cluster, "PATCH", path, expiredTimestamp=until)

    def _put(self, found: Change | BaseException | None) -> bool:
        """Hand it over; False when nobody wants it any more."""
        while not self._over.is_set():
            with contextlib.suppress(queue.Full):
                self._rows.put(found, timeout=_POLL_S)
                return True
        return False


def end_job(cluster: Cluster, job_id: str, deadline_s: float = 60) -> str:
    """Cancel a job unless it has ended, and give the state in which it ended.

    Raises:
        StackError: the cluster does not answer, or the job did not end in time.
    """
    try:
        flink_run.cancel(cluster, job_id, deadline_s=deadline_s)
    except StackError:
        # It may have ended by itself meanwhile, which is as good.
        if flink_run.job_state(cluster, job_id) not in _ENDED:
            raise
    return flink_run.job_state(cluster, job_id)


class Clock:
    """How long a query may take, in seconds; None: without an end."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def over(self) -> bool:
        """Whether the time is up."""
        return self._end is not None and time.monotonic() >= self._end
