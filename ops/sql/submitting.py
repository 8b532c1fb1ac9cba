"""A submission while somebody waits for it, and may want it no more."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, Protocol, Self, TypeVar

from ops import flink_run
from ops.cluster import Cluster
from ops.sql.errors import ShellError
from udfs.core.errors import StackError

_POLL_S = 0.1
_SUBMIT_S = 180.0
_ENDED = frozenset({"FAILED", "CANCELED", "FINISHED", "SUSPENDED"})


class HasJob(Protocol):
    """What a submission gives."""

    @property
    def job_id(self) -> str:
        """The job's id."""
        ...


T = TypeVar("T", bound=HasJob)


class Interrupts:
    """Ctrl-C is taken note of within the block, and raises nothing there.

    Raised wherever the main thread was it got lost (*seen*), probably in one of py4j's many
    finalizers, out of which Python lets nothing be raised.
    """

    def __init__(self) -> None:
        self._pressed = threading.Event()

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and self._before != signal.SIG_IGN:
            signal.signal(signal.SIGINT, lambda *_: self._pressed.set())
        return self

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._before)

    def look(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed."""
        if self._pressed.is_set():
            raise KeyboardInterrupt


class Submitting(Generic[T]):
    """A submission in a thread of its own: Flink's client cannot be interrupted in it.

    Args:
        cluster: where the job will run.
        submit: submits it.
    """

    def __init__(self, cluster: Cluster, submit: Callable[[], T]) -> None:
        self._cluster = cluster
        self._came: Future[T] = Future()
        self._unwanted = threading.Event()
        threading.Thread(target=self._submit, args=(submit,), daemon=True).start()

    def wait(self, interrupts: Interrupts) -> T:
        """What was submitted; raises what the submission raised.

        Raises:
            ShellError: it took too long.
            KeyboardInterrupt: Ctrl-C was pressed before it was there.
        """
        end = time.monotonic() + _SUBMIT_S
        while not self._done(_POLL_S):
            interrupts.look()
            if time.monotonic() > end:
                self._unwanted.set()
                raise ShellError(
                    f"Flink's client has not submitted the job after {_SUBMIT_S:g} s.",
                    "The job is cancelled should it still come. Does the JobManager answer? "
                    f"{self._cluster.logs_hint}",
                )
        return self._came.result()

    def now(self) -> T | None:
        """What was submitted; None before it is there, and when the submission failed."""
        there = self._came.done() and self._came.exception() is None
        return self._came.result() if there else None

    def end(self, deadline_s: float) -> T | None:
        """Return when no job runs: end it, also one that has yet to come. Gives what there was.

        Raises:
            StackError: the cluster does not answer, the job did not end in time, or the client is
                at the submission still. Then the job is ended when it comes; or by the JobManager,
                a query's, when this process is gone.
        """
        if self._unwanted.is_set():
            # That has been told.
            deadline_s = 0
        elif not self._done(deadline_s):
            self._unwanted.set()
            # It may have come just now, without having seen this.
            if not self._done(0):
                raise ShellError(
                    "Flink's client is at the submission still.",
                    "The job is cancelled as soon as it is there; \\jobs tells.",
                )
        submitted = self.now()
        if submitted is not None:
            end_job(self._cluster, submitted.job_id, deadline_s)
        return submitted

    def _done(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            # What it raised itself is for others.
            self._came.exception(seconds)
        return self._came.done()

    def _submit(self, submit: Callable[[], T]) -> None:
        try:
            submitted = submit()
        except BaseException as error:  # noqa: BLE001  (told where somebody waits for it)
            self._came.set_exception(error)
            return
        self._came.set_result(submitted)
        if self._unwanted.is_set():
            with contextlib.suppress(StackError):
                end_job(self._cluster, submitted.job_id)


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
