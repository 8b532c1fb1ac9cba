"""Restarts at every moment and of every kind: the result is that of a run without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from jobs.uids import JOIN
from ops import flink_run
from ops.cluster import ask
from ops.deploy.in_place import rescale_in_place
from ops.stack.flink import FlinkCluster
from tests.support import merges
from tests.support.join_job import GATE, JoinJob, order, product
from tests.support.kafka import Kafka, Message
from tests.support.own_broker import broker_of, own_kafka
from tests.support.restarts import Kind, Moment, Scenario, answers_of, scenario, wrong
from udfs.core.errors import StackError
from udfs.join_rules import Lookup

# So many rows that they are still being read when the tasks have just started.
_ROWS = {Moment.LOADING: 50_000}
_FEW_ROWS = 300

# A busy machine may take longer than the usual minute until a test ends its transaction.
_TRANSACTION_TIMEOUT_MS = 600_000


@pytest.fixture(scope="module")
def kafka_to_kill(stack_folder: Path) -> Iterator[Kafka]:
    with own_kafka(stack_folder / "restarts-kafka", patient=False) as kafka:
        yield kafka


# Every moment and the ways to die; the other kinds, once each, are for the full run.
_CASES = {
    Kind.TASK_MANAGERS: Moment.LOADING,
    Kind.JOB_MANAGER: Moment.HELD,
    Kind.TASK: Moment.JUST_OPEN,
    Kind.IN_PLACE_UP: Moment.STEADY,
    Kind.SAVEPOINT_DOWN: Moment.HELD,
}
_FULL_CASES = {
    Kind.BROKER: Moment.LOADING,
    Kind.ROLLBACK: Moment.STEADY,
    Kind.NEW_FIELDS: Moment.HELD,
    Kind.NEW_MERGE: Moment.JUST_OPEN,
    Kind.IN_PLACE_DOWN: Moment.LOADING,
    Kind.SAVEPOINT_UP: Moment.JUST_OPEN,
    Kind.SAVEPOINT: Moment.STEADY,
}


def test_no_kind_of_restart_is_left_out() -> None:
    assert set(RESTARTS) == set(Kind) == {*_CASES, *_FULL_CASES}
    assert set(_CASES.values()) == set(Moment)


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        *_CASES.items(),
        *(pytest.param(*case, marks=pytest.mark.full) for case in _FULL_CASES.items()),
    ],
)
def test_after_a_restart_every_event_has_the_answer_of_a_run_without_one(
    kafka_to_kill: Kafka, flink: FlinkCluster, stack_folder: Path, kind: Kind, moment: Moment
) -> None:
    _restart(kafka_to_kill, flink, stack_folder, moment, kind, seed=7)


@pytest.mark.full
@pytest.mark.parametrize(("kind", "moment"), [*_CASES.items(), *_FULL_CASES.items()])
def test_with_the_table_in_every_subtask_every_event_has_the_same_answer_too(
    kafka_to_kill: Kafka, flink: FlinkCluster, stack_folder: Path, kind: Kind, moment: Moment
) -> None:
    _restart(kafka_to_kill, flink, stack_folder, moment, kind, seed=8, lookup="broadcast")


@pytest.mark.full
@pytest.mark.timeout(5400)
@settings(
    max_examples=25,
    deadline=None,
    # An example takes half a minute: the first one that fails is shown as it is.
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    moment=st.sampled_from(Moment),
    kind=st.sampled_from(Kind),
    seed=st.integers(0, 1_000_000),
    lookup=st.sampled_from(Lookup),
)
def test_at_any_moment_a_restart_of_any_kind_changes_no_answer(
    kafka_to_kill: Kafka,
    flink: FlinkCluster,
    stack_folder: Path,
    moment: Moment,
    kind: Kind,
    seed: int,
    lookup: Lookup,
) -> None:
    _restart(kafka_to_kill, flink, stack_folder, moment, kind, seed, lookup)


def _restart(
    kafka: Kafka,
    flink: FlinkCluster,
    folder: Path,
    moment: Moment,
    kind: Kind,
    seed: int,
    lookup: str = "keyed",
) -> None:
    plan = scenario(seed, _ROWS.get(moment, _FEW_ROWS))
    before, after = kind.parallelism
    job = JoinJob(
        kafka,
        flink,
        folder,
        settings={
            "job": {"parallelism": before},
            "join": {"lookup_state": lookup},
            # A busy machine may hold events for longer than a minute, and their misses would say
            # that the table is stale, which it is.
            "gate": {"max_table_lag_ms": 600_000},
        },
    )
    try:
        _produce_rows(job, plan.before)
        _produce_orders(job, plan.early)
        with _unfinished(job, plan) if moment.shut else _nothing() as finish:
            job.start()
            _reach(job, moment, plan)
            assert job.times_opened() == (0 if moment.shut else 1)
            attempts = job.attempts()
            RESTARTS[kind](_Restart(job, moment, plan, after))
            if kind.new_attempt:
                # A task runs before its Python does.
                job.wait_until(lambda: job.attempts() > attempts, "targets of the next attempt")
            _produce_orders(job, plan.late)
            finish()
        right = plan.answers(moment, kind)
        job.wait_until(lambda: set(right) <= set(_answers(job)), "an answer for each event")
        # Behind its barrier is nothing that was read before: what may come twice has come twice.
        job.checkpoint()
        assert wrong(_answers(job), right) == {}
        assert job.read("dead") == []
    finally:
        job.cancel()


def _reach(job: JoinJob, moment: Moment, plan: Scenario) -> None:
    job.wait_until(lambda: job.attempts() > 0, "targets of the first attempt")
    if moment is Moment.HELD:
        job.wait_until(lambda: job.held_events() >= len(plan.early), "all events held")
        job.checkpoint()
    elif moment is Moment.JUST_OPEN:
        job.wait_until(lambda: job.times_opened() > 0, "open gate")
    elif moment is Moment.STEADY:
        numbers = {number for number, _ in plan.early}
        job.wait_until(lambda: numbers <= set(_answers(job)), "an answer for each early event")
        job.checkpoint()


# ------------------------------------------------------------------------------- the kinds


class _Restart:
    """One restart, and the writing of the gap at the right time for its kind."""

    def __init__(self, job: JoinJob, moment: Moment, plan: Scenario, parallelism: int) -> None:
        self.job = job
        self.flink = job.flink
        self.parallelism = parallelism
        self._moment = moment
        self._plan = plan

    def gap(self) -> None:
        """Write the gap's rows: they are there before the next attempt starts."""
        _produce_rows(self.job, self._plan.gap)
        if not self._moment.shut:
            with _unfinished(self.job, self._plan) as finish:
                finish()

    def task_managers(self) -> None:
        # All: with one that stands by, the next attempt would start while the gap is written.
        for number in self.flink.taskmanagers():
            self.flink.kill_taskmanager(number)
        self.gap()
        self.flink.start_taskmanager(wait=False)
        self.flink.start_taskmanager()
        self._wait_running()

    def job_manager(self) -> None:
        self.flink.kill_jobmanager()
        self.gap()
        self.flink.start_jobmanager()
        self._wait_running()

    def task(self) -> None:
        restarts = flink_run.restarts(self.flink, self.job.job_id)
        self.gap()
        self.job.kill_gate_worker()
        flink_run.wait_restarted(self.flink, self.job.job_id, before=restarts)

    def broker(self) -> None:
        broker = broker_of(self.job.kafka)
        broker.kill()
        broker.start()
        self.gap()

    def savepoint(self) -> None:
        path = self.job.stop()
        self.gap()
        self.job.start(from_savepoint=path, overrides=[f"job.parallelism={self.parallelism}"])

    def in_place(self) -> None:
        self.gap()
        with pytest.raises(StackError, match="exceeds its maximum parallelism"):
            self._wish({GATE.name: 2, JOIN.name: self.parallelism})
        rescale_in_place(self.flink, self.job.job_id, self.parallelism)
        assert self.job.parallelism_of(GATE.name) == 1
        assert self.job.parallelism_of(JOIN.name) == self.parallelism

    def _wish(self, parallelism: dict[str, int]) -> None:
        """As an autoscaler that knows nothing of the gate; 1 for tasks that are not named."""
        job_id = self.job.job_id
        bounds = {
            vertex["id"]: {
                "parallelism": {
                    "lowerBound": 1,
                    "upperBound": max(
                        (wish for name, wish in parallelism.items() if name in vertex["name"]),
                        default=1,
                    ),
                }
            }
            for vertex in ask(self.flink, "GET", f"/jobs/{job_id}")["vertices"]
        }
        ask(self.flink, "PUT", f"/jobs/{job_id}/resource-requirements", **bounds)

    def rollback(self) -> None:
        path = flink_run.take_savepoint(self.flink, self.job.job_id)
        # The job goes on and reads the gap, and a later savepoint has it.
        self.gap()
        self.job.stop()
        self.job.start(from_savepoint=path)

    def new_fields(self) -> None:
        path = self.job.stop()
        self.gap()
        self.job.start(from_savepoint=path, overrides=["table.fields.name=title"])

    def new_merge(self) -> None:
        path = self.job.stop()
        self.gap()
        self.job.start(
            from_savepoint=path,
            overrides=["table.fields={}", "job.merge=merges:name_under_another_field"],
            python_files=[Path(merges.__file__)],
        )

    def _wait_running(self) -> None:
        job = self.job
        job.wait_until(lambda: flink_run.runs(self.flink, job.job_id), "running tasks")


RESTARTS: dict[Kind, Callable[[_Restart], None]] = {
    Kind.TASK_MANAGERS: _Restart.task_managers,
    Kind.JOB_MANAGER: _Restart.job_manager,
    Kind.TASK: _Restart.task,
    Kind.BROKER: _Restart.broker,
    Kind.SAVEPOINT: _Restart.savepoint,
    Kind.SAVEPOINT_UP: _Restart.savepoint,
    Kind.SAVEPOINT_DOWN: _Restart.savepoint,
    Kind.IN_PLACE_UP: _Restart.in_place,
    Kind.IN_PLACE_DOWN: _Restart.in_place,
    Kind.ROLLBACK: _Restart.rollback,
    Kind.NEW_FIELDS: _Restart.new_fields,
    Kind.NEW_MERGE: _Restart.new_merge,
}


# ------------------------------------------------------------------------------- reading, writing


def _message(row: tuple[str, str | None]) -> Message:
    key, name = row
    return Message(key.encode(), None) if name is None else Message(*product(key, name))


def _produce_rows(job: JoinJob, rows: list[tuple[str, str | None]]) -> None:
    job.kafka.produce(job.products, [_message(row) for row in rows])


def _produce_orders(job: JoinJob, orders: list[tuple[int, str]]) -> None:
    job.kafka.produce(job.orders, [order(number, key) for number, key in orders])


@contextmanager
def _unfinished(job: JoinJob, plan: Scenario) -> Iterator[Callable[[], None]]:
    """The hidden rows in a transaction that stays open, and with it the gate shut.

    Gives the function that ends it.
    """
    with job.kafka.transaction(timeout_ms=_TRANSACTION_TIMEOUT_MS) as producer:
        for message in map(_message, plan.hidden):
            producer.produce(job.products, message.value, message.key)
        producer.flush(30)
        yield lambda: _finish(producer, commit=plan.commits)


def _finish(producer: Producer, *, commit: bool) -> None:
    if commit:
        producer.commit_transaction(60)
    else:
        producer.abort_transaction(60)


@contextmanager
def _nothing() -> Iterator[Callable[[], None]]:
    yield lambda: None


def _answers(job: JoinJob) -> dict[int, set[str]]:
    return answers_of(job.read("enriched"), job.read("retry"))
