"""One running job, as Flink's REST interface shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import requests

from ops.flink_run import task_states
from ops.job_status import gate_is_open
from udfs.core.errors import StackError

_TIMEOUT_S = 10
_OVER = frozenset({"FAILED", "CANCELED", "FINISHED", "SUSPENDED"})


class FlinkJob:
    """State and metrics of a job. Flink refreshes the metrics by a clock of its own.

    Args:
        rest_url: address of the JobManager, without a slash at the end.
        job_id: the job's id, 32 hex digits.
    """

    def __init__(self, rest_url: str, job_id: str) -> None:
        self.job_id = job_id
        self._rest_url = rest_url
        self._url = f"{rest_url}/jobs/{job_id}"
        # Where a metric stands, once it is found: the vertex and the full name there.
        self._places: dict[str, tuple[str, str]] = {}

    def refuse_failure(self) -> None:
        """Raise StackError, with the cause, when the job ended or keeps failing."""
        state = self._get("")["state"]
        history = self._get("/exceptions").get("exceptionHistory", {}).get("entries", [])
        if state in _OVER or history:
            cause = history[0]["stacktrace"][:2000] if history else "no exception was recorded"
            raise StackError(
                f"job {self.job_id} is {state}: {cause}",
                "The JobManager's and TaskManagers' logs have the rest.",
            )

    def running(self) -> bool:
        """Whether every task runs."""
        return task_states(self._get("")) == {"RUNNING"}

    def gate_is_open(self) -> bool:
        """Whether the gate of this attempt is open."""
        return gate_is_open(self._rest_url, self.job_id)

    def read_of(self, topic: str, ends: Mapping[int, int]) -> float:
        """The share of a topic's log, up to ``ends``, that this job's source has read: 0 to 1.

        A restored job's partition counts once something new was read of it.
        """
        read = 0
        for partition, end in ends.items():
            # The offset of the last record, or a negative number before the first one.
            last = self._metric(f"topic.{topic}.partition.{partition}.currentOffset")
            read += min(end, max(0, 0 if last is None else last + 1))
        return read / max(1, sum(ends.values()))

    def _metric(self, name: str) -> int | None:
        """An integer metric of subtask 0, by the end of its name; None while it is not there."""
        if name not in self._places and not self._find(name):
            return None
        vertex, full_name = self._places[name]
        answer = self._get(f"/vertices/{vertex}/metrics", get=full_name)
        return int(answer[0]["value"]) if answer else None

    def _find(self, name: str) -> bool:
        for vertex in self._get("")["vertices"]:
            for metric in self._get(f"/vertices/{vertex['id']}/metrics"):
                if metric["id"].startswith("0.") and metric["id"].endswith(f".{name}"):
                    self._places[name] = (vertex["id"], metric["id"])
                    return True
        return False

    def _get(self, path: str, **parameters: str) -> Any:
        try:
            answer = requests.get(self._url + path, params=parameters, timeout=_TIMEOUT_S)
            answer.raise_for_status()
        except requests.RequestException as error:
            raise StackError(
                f"{self._url}{path} does not answer: {error}.", "Look into the JobManager's log."
            ) from error
        return answer.json()
