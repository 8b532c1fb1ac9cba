"""Another parallelism for a running job, through the adaptive scheduler's resource requirements.

The job goes back to its last checkpoint and its gate shuts, as after a failure; its id stays.
"""

from __future__ import annotations

from typing import Any

from jobs.uids import TABLE_SIDE
from ops.cluster import Cluster, ask
from ops.flink_run import task_states
from ops.stack.processes import wait_until

_ENDED = frozenset({"FAILED", "CANCELED", "FINISHED", "SUSPENDED"})


def rescale_in_place(
    cluster: Cluster, job_id: str, parallelism: int, *, deadline_s: float = 180
) -> None:
    """Ask for another parallelism and return when every task runs with it.

    Args:
        cluster: where the job runs.
        job_id: its id.
        parallelism: of every task that can have more than one subtask.
        deadline_s: how long it may take, in seconds.

    Raises:
        StackError: the cluster refuses it, the job ended, or the deadline passed.
    """

    def job() -> dict[str, Any]:
        return ask(cluster, "GET", f"/jobs/{job_id}")

    wanted = {
        vertex["id"]: 1 if _is_single(vertex) else parallelism for vertex in job()["vertices"]
    }
    bounds: dict[str, object] = {
        vertex: {"parallelism": {"lowerBound": 1, "upperBound": most}}
        for vertex, most in wanted.items()
    }
    ask(cluster, "PUT", f"/jobs/{job_id}/resource-requirements", **bounds)

    def there() -> bool:
        now = job()
        widths = {vertex["id"]: vertex["parallelism"] for vertex in now["vertices"]}
        return task_states(now) == {"RUNNING"} and widths == wanted

    def ended() -> str | None:
        state = ask(cluster, "GET", f"/jobs/{job_id}")["state"]
        return f"it is {state}." if state in _ENDED else None

    wait_until(there, deadline_s=deadline_s, what=f"job {job_id} at {parallelism}", give_up=ended)


def _is_single(vertex: dict[str, Any]) -> bool:
    # The gate has to see every partition, so that the table's side up to it is one subtask.
    return vertex["maxParallelism"] == 1 or any(
        operator.name in vertex["name"] for operator in TABLE_SIDE
    )
