"""The shared cases on the SQL variant, and by the same steps on the DataStream job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.flink_run import ENRICH, ENRICH_SQL
from ops.paths import ROOT
from ops.stack.flink import FlinkCluster
from tests.support.case_job import SETTINGS, CaseJob, expected
from tests.support.cases import Case, cases
from tests.support.join_job import JoinJob
from tests.support.kafka import Kafka

_GRACE = "SQL decides an event once: no join of the planner's waits for a row for a while"
_HOLD = "and none that waits for it without an end"

NOT_IN_SQL = {
    "a miss whose row comes within its grace is a hit": _GRACE,
    "and one whose row comes later is told when its grace is over": _GRACE,
    "within its grace an event has no verdict": _GRACE,
    "and a miss that was waiting for its row is decided only then": _GRACE,
    "but not before the gate is open, nor within the grace": _GRACE,
    "an event may wait for its row without an end": _HOLD,
    "and does so across a restart": _HOLD,
}

# For SQL alone: what is released by the opening goes out before the watermark that tells of it.
_HELD_UNTIL_SHORT = Case(
    name="an event that was held until the policy opened the gate",
    steps=[
        {"row": {"key": "p1", "value": {"name": "mug"}}},
        {"event": {"key": "o1", "value": {"product": "p1"}}},
        {"event": {"key": "o2", "value": {"product": "p2"}}},
        {"gate": "short"},
    ],
    expect={
        "o1": {"verdict": "HIT", "value": {"product": "p1", "product_name": "mug"}},
        "o2": {"verdict": "NOT_LOADED"},
    },
)
# Longer than the pause of the stream, which ends when the table's source counts as idle, after 3 s.
_STALL_MS = 8_000


def _kind(case: Case) -> str:
    if any("restart" in step for step in case.steps):
        return "restart"
    return next((step["gate"] for step in case.steps if "gate" in step), "open")


@pytest.fixture(scope="module")
def own_flink(stack_folder: Path) -> Iterator[FlinkCluster]:
    """A cluster that has run no other job: in thread mode a TaskManager keeps the Python packages
    of the first, and an older job's has no SQL functions."""
    with FlinkCluster(stack_folder / "sql-flink", taskmanagers=1, slots=2) as cluster:
        yield cluster


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(ENRICH_SQL, id="sql"),
        # Shows that the steps themselves say what the cases mean.
        pytest.param(ENRICH, id="datastream", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize(
    ("kind", "consistency", "on_miss"),
    [
        ("open", "startup", "route"),
        pytest.param("short", "startup", "route", marks=pytest.mark.full),
        pytest.param("stale", "startup", "route", marks=pytest.mark.full),
        # A start from a savepoint is in test_sql_restarts.py every day.
        pytest.param("restart", "startup", "route", marks=pytest.mark.full),
        # Neither opens short, nor decides anything while the table stands still.
        pytest.param("open", "continuous", "route", marks=pytest.mark.full),
        pytest.param("restart", "continuous", "route", marks=pytest.mark.full),
        pytest.param("open", "startup", "emit_null", marks=pytest.mark.full),
    ],
)
def test_each_case_ends_as_it_says(
    kind: str,
    consistency: str,
    on_miss: str,
    entry: Path,
    kafka: Kafka,
    own_flink: FlinkCluster,
    tmp_path: Path,
) -> None:
    listed = [c for c in (*cases(), _HELD_UNTIL_SHORT) if c.on_miss == on_miss]
    chosen = [c for c in listed if _kind(c) == kind and c.name not in NOT_IN_SQL]
    assert chosen
    on_stall = "open" if kind == "short" else "wait"
    policy = {"on_stall": on_stall, "stall_after_ms": _STALL_MS, "consistency": consistency}
    gate = SETTINGS["gate"] | policy
    settings = SETTINGS | {"gate": gate, "output": {"on_miss": on_miss}}
    job = JoinJob(kafka, own_flink, tmp_path, partitions=1, settings=settings)
    arguments = ["--sql", str(ROOT / "sql")] if entry == ENRICH_SQL else []
    played = CaseJob(job, chosen, entry, arguments)
    try:
        played.play()
    finally:
        job.cancel()
    for number, case in enumerate(chosen):
        outcomes, dead_rows = played.outcomes(number)
        wanted = expected(case)
        assert {k: v for k, v in outcomes.items() if k in wanted} == wanted, case.name
        assert dead_rows == case.dead_rows, case.name


def test_the_cases_that_are_left_out_are_cases() -> None:
    assert NOT_IN_SQL.keys() <= {case.name for case in cases()}
