"""What a worker asks the JobManager: whether its job goes on from a checkpoint or savepoint."""

from __future__ import annotations

import time
from typing import Any

import requests

from udfs.core.errors import TargetError

_TIMEOUT_S = 5.0
_ASK_AGAIN_EVERY_S = 0.25
# A job that starts shows its tasks after a moment, and REST answers may be some seconds old.
_PATIENCE_S = 20.0
_ENDED = frozenset({"FAILED", "CANCELED", "FINISHED", "SUSPENDED"})


def restored_from(rest_url: str, task: str) -> str:
    """Where the job that runs ``task`` goes on from, "" when it started from nothing.

    A function is not told its job, so the task is looked for by its name among the jobs that have
    not ended. Where several have one, all must have started from nothing.

    Raises TargetError when the JobManager does not answer or knows no such task.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while not (jobs := _jobs_with(rest_url, task)):
        if time.monotonic() > deadline:
            raise TargetError(
                f"The JobManager at {rest_url} knows no running job with the task {task!r}.",
                "Print the DDL again for the cluster that runs the query (tablegate sql-ddl "
                "--gated-table --rest-url URL).",
            )
        time.sleep(_ASK_AGAIN_EVERY_S)
    for job in jobs:
        latest = _get(rest_url, f"/jobs/{job}/checkpoints")["latest"]["restored"]
        if latest:
            path = latest.get("external_path") or f"checkpoint {latest['id']}"
            return f"{path} (job {job})"
    return ""


def _jobs_with(rest_url: str, task: str) -> list[str]:
    listed = _get(rest_url, "/jobs/overview")["jobs"]
    alive = [str(job["jid"]) for job in listed if job["state"] not in _ENDED]
    return [
        job
        for job in alive
        if any(vertex["name"] == task for vertex in _get(rest_url, f"/jobs/{job}")["vertices"])
    ]


def _get(rest_url: str, path: str) -> dict[str, Any]:
    try:
        response = requests.get(rest_url + path, timeout=_TIMEOUT_S)
        response.raise_for_status()
    except requests.RequestException as error:
        raise TargetError(
            f"The JobManager does not say whether this job goes on from a savepoint: {error}.",
            "It has to be reachable from the TaskManagers at the address that the DDL was printed "
            "for (tablegate sql-ddl --gated-table --rest-url URL).",
        ) from error
    answer: dict[str, Any] = response.json()
    return answer
