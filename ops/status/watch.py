"""Looks at one job again and again, until it is what somebody waits for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from jobs.settings import GateSettings, Settings
from ops.cluster import Cluster, UnreachableError
from ops.status import model, partitions
from ops.status.model import Phase, Progress, Status, watched
from ops.status.reader import Reader

_EVERY_S = 0.5


class Watch:
    """One job under observation: remembers how its load went on, for rate and stall.

    Close it after use.

    Args:
        cluster: where it runs.
        job: its name or id.
        settings: its settings where they are at hand.
        max_lag: budget of the stream's lag, in records.
        stream_from: see `Reader`.
    """

    def __init__(
        self,
        cluster: Cluster,
        job: str,
        settings: Settings | None = None,
        *,
        max_lag: int = model.MAX_LAG,
        stream_from: Mapping[int, int] | None = None,
    ) -> None:
        self._job = job
        self._reader = Reader(cluster, settings, stream_from)
        self._max_lag = max_lag
        self._progress: Progress | None = None
        gate = settings.gate if settings else GateSettings()
        self._table_lag_ms = gate.max_table_lag_ms
        self._stall_ms = gate.stall_after_ms

    def close(self) -> None:
        """Leave the brokers."""
        self._reader.close()

    def look(self) -> Status:
        """The job's status now.

        Raises:
            UnreachableError: the JobManager does not answer.
        """
        reading = self._reader.read(self._job)
        status = self._judge(reading, self._progress)
        if status.phase in {Phase.LOADING, Phase.STALLED}:
            left = partitions.total_left(status.table)
            first = self._progress is None
            self._progress = watched(self._progress, left, reading.at_ms)
            # At the first look nothing has been seen to stand still.
            return status if first else self._judge(reading, self._progress)
        self._progress = None
        return status

    def _judge(self, reading: model.Reading, progress: Progress | None) -> Status:
        return model.judge(
            reading,
            max_lag=self._max_lag,
            max_table_lag_ms=self._table_lag_ms,
            stall_after_ms=self._stall_ms,
            progress=progress,
        )

    def until(
        self,
        done: Callable[[Status], bool],
        *,
        timeout_s: float,
        each: Callable[[Status], None] = lambda _status: None,
    ) -> tuple[Status, bool]:
        """Look until ``done`` says so, or for ``timeout_s`` seconds.

        Args:
            done: whether this status ends the wait.
            timeout_s: how long at most.
            each: is shown every status.

        Returns:
            The last status, and whether ``done`` said so.

        Raises:
            UnreachableError: the JobManager does not answer by then; one that is replaced takes a
                while.
        """
        end = time.monotonic() + timeout_s
        while True:
            try:
                status = self.look()
            except UnreachableError:
                if time.monotonic() > end:
                    raise
            else:
                each(status)
                if done(status):
                    return status, True
                if time.monotonic() > end:
                    return status, False
            time.sleep(_EVERY_S)
