"""Restarts of the SQL variant: no wrong null, nothing lost, and what a savepoint brings along."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ops import flink_run
from ops.flink_run import ENRICH_SQL
from ops.paths import SQL
from tests.cluster.conftest import NewJob
from tests.support.join_job import JoinJob, order, product
from tests.support.kafka import Message
from tests.support.restarts import (
    Kind,
    Moment,
    Order,
    Row,
    Scenario,
    answers_of,
    scenario,
    wrong,
)
from tests.support.sql_files import json_topic, sql_folder

_SETTINGS = {
    # A busy machine may hold events for longer than a minute, and their misses would say that the
    # table is stale, which it is.
    "gate": {"max_table_lag_ms": 600_000, "tick_interval_ms": 250},
}
_ROWS = 300
_SELECT = "SELECT join_key, COUNT(*) FROM misses"
_COUNT = f"{_SELECT} GROUP BY join_key"
# As Flink says that there is state in the savepoint whose operator is gone.
_REFUSAL = "Cannot map checkpoint/savepoint state for operator"


@pytest.mark.full
@pytest.mark.parametrize("moment", [Moment.HELD, Moment.STEADY])
def test_after_a_kill_every_event_has_the_answer_of_a_run_without_one(
    moment: Moment, new_job: NewJob
) -> None:
    plan = scenario(11, _ROWS)
    job = new_job(settings=_SETTINGS)
    _write_rows(job, plan.before)
    _write_orders(job, plan.early)
    with job.kafka.transaction() as transaction:
        if moment.shut:
            _hide(job, plan, transaction)
        _start(job)
        _reach(job, moment, plan)
        attempts = job.attempts()
        for number in job.flink.taskmanagers():
            job.flink.kill_taskmanager(number)
        _write_rows(job, plan.gap)
        if not moment.shut:
            _hide(job, plan, transaction)
            _finish(plan, transaction)
        job.flink.start_taskmanager(wait=False)
        job.flink.start_taskmanager()
        job.wait_until(lambda: flink_run.runs(job.flink, job.job_id), "running tasks")
        job.wait_until(lambda: job.attempts() > attempts, "targets of the next attempt")
        _write_orders(job, plan.late)
        if moment.shut:
            job.checkpoint()
            assert _answers(job) == {}, "decided while the gate was shut"
            _finish(plan, transaction)
    right = plan.answers(moment, Kind.TASK_MANAGERS)
    job.wait_until(lambda: set(right) <= set(_answers(job)), "an answer for each event")
    # Behind its barrier is nothing that was read before: what may come twice has come twice.
    job.checkpoint()
    assert wrong(_answers(job), right) == {}
    assert job.read("dead") == []


def _reach(job: JoinJob, moment: Moment, plan: Scenario) -> None:
    if moment.shut:
        job.wait_until(lambda: _read(job) == len(plan.early), "all events read")
        assert _answers(job) == {}, "decided while the gate was shut"
    else:
        early = {number for number, _ in plan.early}
        job.wait_until(lambda: early <= set(_answers(job)), "an answer for each early event")
        job.checkpoint()


def _hide(job: JoinJob, plan: Scenario, transaction: Producer) -> None:
    for message in map(_row, plan.hidden):
        transaction.produce(job.products, message.value, message.key)
    assert transaction.flush(30) == 0


def _finish(plan: Scenario, transaction: Producer) -> None:
    if plan.commits:
        transaction.commit_transaction(60)
    else:
        transaction.abort_transaction(60)


def test_a_query_more_starts_from_the_savepoint_on_a_quiet_table_and_finds_its_rows(
    new_job: NewJob, tmp_path: Path
) -> None:
    # Deleting by age as well, or else nothing can be deleted by hand.
    kept = {"cleanup.policy": "compact,delete", "retention.ms": "-1"}
    job = new_job(settings=_SETTINGS, table_config=kept)
    rows = [(f"p{n}", f"row-{n}") for n in range(50)]
    _write_rows(job, [*rows, ("p0", None)])
    _write_orders(job, [(1, "p1")])
    _start(job)
    job.wait_for(1)
    savepoint = job.stop()
    # What the next version knows of these rows it has from the savepoint.
    job.kafka.delete_records(job.products, job.kafka.end_offsets(job.products))
    _write_orders(job, [(2, "p2"), (3, "p0"), (4, "p99")])
    mine = _topic(job)
    _start(job, _with_totals(tmp_path / "sql", mine), savepoint)
    job.wait_until(lambda: {2, 3, 4} <= set(_answers(job)), "answers from the quiet table")
    assert _answers(job) == {1: {"row-1"}, 2: {"row-2"}, 3: {"DELETED"}, 4: {"NOT_FOUND"}}
    assert job.gate_said("warm start on a quiet table") == 1
    # The new query counts from its own begin.
    job.wait_until(lambda: _totals(job, mine) == {"p0": 1, "p99": 1}, "the new query's rows")


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("first", "second"), [("startup", "continuous"), ("continuous", "startup")]
)
def test_a_savepoint_with_held_events_goes_on_under_the_other_consistency_and_back(
    first: str, second: str, new_job: NewJob
) -> None:
    job = new_job(settings={"gate": {**_SETTINGS["gate"], "pause_stream": False}})
    _write_rows(job, [("p1", "mug"), ("p2", "old")])
    _write_orders(job, [(1, "p1"), (2, "p2")])
    with job.kafka.transaction() as transaction:
        message = _row(("p2", "new"))
        transaction.produce(job.products, message.value, message.key)
        assert transaction.flush(30) == 0
        _start_under(job, first)
        job.wait_until(lambda: _read(job) == 2, "all events read")
        savepoint = job.stop()
        _write_orders(job, [(3, "p2")])
        _start_under(job, second, savepoint)
        job.wait_until(lambda: _read(job) == 3, "the event after the savepoint")
        assert _answers(job) == {}, "decided while the gate was shut"
        transaction.commit_transaction(60)
    _wait_for_answers(job, {1, 2, 3})
    early = {1: {"mug"}, 2: {"new"}, 3: {"new"}}
    assert _answers(job) == early
    _start_under(job, first, job.stop())
    _write_orders(job, [(4, "p1"), (5, "p9")])
    _wait_for_answers(job, {4, 5})
    assert _answers(job) == early | {4: {"mug"}, 5: {"NOT_FOUND"}}


@pytest.mark.full
def test_a_second_job_with_another_query_runs_beside_the_first(
    new_job: NewJob, tmp_path: Path
) -> None:
    first = new_job(settings=_SETTINGS)
    _write_rows(first, [("p1", "mug")])
    _write_orders(first, [(1, "p1"), (2, "p9")])
    # The same inputs; a name, and with it a consumer group, and outputs of its own.
    inputs = {
        "stream": {"topic": first.orders, "key": {"from": "value", "path": "product"}},
        "table": {"topic": first.products, "fields": {"name": "product_name"}},
    }
    second = new_job(settings=_SETTINGS | inputs)
    mine = _topic(first)
    _start(first)
    _start(second, _with_totals(tmp_path / "sql", mine))
    for job in (first, second):
        _wait_for_answers(job, {1, 2})
        assert _answers(job) == {1: {"mug"}, 2: {"NOT_FOUND"}}
    second.wait_until(lambda: _totals(first, mine) == {"p9": 1}, "the query's row")
    first.cancel()
    _write_orders(first, [(3, "p9")])
    second.wait_until(lambda: _totals(first, mine) == {"p9": 2}, "it goes on by itself")


# What Flink does with a query's state: tests/topology/test_sql_edits.py has more edits, by the
# graph alone. Two misses are in the savepoint, a deletion comes after it.
_EDITS = {
    "a condition on the count": (f"{_COUNT} HAVING COUNT(*) > 1", 3),
    # What the old condition has counted would stay in.
    "another WHERE": (f"{_SELECT} WHERE verdict = 'DELETED' GROUP BY join_key", None),
    # Its state would be of the same types.
    "another aggregate": (
        "SELECT join_key, MAX(stream_offset) FROM misses GROUP BY join_key",
        None,
    ),
    "taken away": ("", None),
}


@pytest.mark.full
@pytest.mark.timeout(600)
def test_what_the_state_of_a_query_survives(new_job: NewJob, tmp_path: Path) -> None:
    job = new_job(settings=_SETTINGS)
    _write_rows(job, [("p1", "mug")])
    _write_orders(job, [(1, "p9"), (2, "p9")])
    mine = _topic(job)
    _start(job, _with_totals(tmp_path / "sql", mine))
    job.wait_until(lambda: _totals(job, mine) == {"p9": 2}, "the counts")
    savepoint = job.stop()
    _write_rows(job, [("p9", None)])
    _write_orders(job, [(3, "p9")])
    refusals = job.flink.logs().count(_REFUSAL)
    for number, (edit, (query, expected)) in enumerate(_EDITS.items()):
        mine = _topic(job)
        sql = _with_totals(tmp_path / f"sql-{number}", mine, query)
        job.start(
            entry=ENRICH_SQL,
            job_arguments=["--sql", str(sql)],
            from_savepoint=savepoint,
            wait=False,
        )
        if expected is None:
            # Before it has a graph, so there is no failure of a task to ask for.
            _wait_for_state(job, "FAILED")
            assert job.flink.logs().count(_REFUSAL) > refusals, edit
            refusals = job.flink.logs().count(_REFUSAL)
        else:
            _wait_for_totals(job, mine)
            assert _totals(job, mine) == {"p9": expected}, edit
        job.cancel()


# ------------------------------------------------------------------------------------- the job


def _start(job: JoinJob, sql: Path = SQL, savepoint: str | None = None) -> None:
    job.start(entry=ENRICH_SQL, job_arguments=["--sql", str(sql)], from_savepoint=savepoint)


def _start_under(job: JoinJob, consistency: str, savepoint: str | None = None) -> None:
    job.start(
        entry=ENRICH_SQL,
        job_arguments=["--sql", str(SQL)],
        overrides=[f"gate.consistency={consistency}"],
        from_savepoint=savepoint,
    )


def _topic(job: JoinJob) -> str:
    return job.kafka.create_topic("mine", 1, {"cleanup.policy": "compact"})


def _with_totals(place: Path, topic: str, query: str = _COUNT) -> Path:
    files = {}
    if query:
        columns = "join_key STRING, n BIGINT"
        files = {
            "tables/90_mine.sql": json_topic("totals", columns, topic, key="join_key"),
            "inserts/90_mine.sql": f"INSERT INTO totals {query};\n",
        }
    return sql_folder(place, files)


def _totals(job: JoinJob, topic: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record in job.kafka.consume_all(topic):
        key = json.loads(record.key or b"{}")["join_key"]
        counts.pop(key, None)
        if record.value is not None:
            counts[key] = json.loads(record.value)["n"]
    return counts


def _read(job: JoinJob) -> int:
    # Its barrier passes behind the events, and then their offsets are committed.
    job.checkpoint()
    return job.kafka.committed(job.orders, job.orders)


def _row(row: Row) -> Message:
    key, name = row
    return Message(key.encode(), None) if name is None else Message(*product(key, name))


def _write_rows(job: JoinJob, rows: Iterable[Row]) -> None:
    job.kafka.produce(job.products, [_row(row) for row in rows])


def _write_orders(job: JoinJob, orders: Iterable[Order]) -> None:
    job.kafka.produce(job.orders, [order(number, key) for number, key in orders])


def _answers(job: JoinJob) -> dict[int, set[str]]:
    return answers_of(job.read("enriched"), job.read("retry"))


def _wait_for_answers(job: JoinJob, numbers: set[int]) -> None:
    job.wait_until(lambda: numbers <= set(_answers(job)), f"answers to {sorted(numbers)}")


def _wait_for_totals(job: JoinJob, topic: str) -> None:
    job.wait_until(lambda: bool(_totals(job, topic)), f"counts in {topic}")


def _wait_for_state(job: JoinJob, state: str) -> None:
    job.wait_until(lambda: flink_run.job_state(job.flink, job.job_id) == state, f"state {state}")
