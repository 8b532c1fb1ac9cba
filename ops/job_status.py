"""Asks a running job about its gate, through Flink's REST API."""

from __future__ import annotations

from typing import Any

import requests

from jobs.uids import TABLE_SIDE
from udfs.core.gate import CLOSED_MS

_TIMEOUT_S = 10.0
# The operator that sends the gate's watermark, by the name under which Flink reports its metrics.
_GATE = next(o.name for o in TABLE_SIDE if o.uid == "table-watermark")


def gate_is_open(rest_url: str, job_id: str) -> bool:
    """Whether the table side's watermark has passed the events: the gate of this attempt is open.

    Flink refreshes what it reports every ``metrics.fetcher.update-interval``. False while the job
    starts. Raises requests.RequestException when the cluster does not answer.
    """
    watermark = _metric(rest_url, job_id, _GATE, "currentOutputWatermark")
    return watermark is not None and int(watermark) > CLOSED_MS


def _metric(rest_url: str, job_id: str, operator: str, metric: str) -> str | None:
    vertex = _vertex(rest_url, job_id, operator)
    if vertex is None:
        return None
    name = f"0.{metric_scope(operator)}.{metric}"
    answer = _get(f"{rest_url}/jobs/{job_id}/vertices/{vertex}/metrics", get=name)
    return answer[0]["value"] if answer else None


def _vertex(rest_url: str, job_id: str, operator: str) -> str | None:
    # A vertex is a chain of operators, its name their names joined by arrows.
    for vertex in _get(f"{rest_url}/jobs/{job_id}")["vertices"]:
        if operator in vertex["name"]:
            return str(vertex["id"])
    return None


def metric_scope(operator: str) -> str:
    """An operator's name as it stands in the names of its metrics."""
    # Flink replaces what its metric identifiers cannot hold, each by an underscore.
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in operator)


def _get(url: str, **query: str) -> Any:
    answer = requests.get(url, params=query, timeout=_TIMEOUT_S)
    answer.raise_for_status()
    return answer.json()
