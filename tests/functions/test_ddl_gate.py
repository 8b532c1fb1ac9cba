"""The gate as a function for a table's DDL: what an attempt refuses before its first record."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any, Self

import pytest

from udfs import ddl_gate, job_manager
from udfs.core.errors import StaleCodeError, TargetError
from udfs.core.gate import CLOSED_MS, FAR_FUTURE_MS, Target
from udfs.ddl_gate import DdlGate, DdlGateRules, EventMoment
from udfs.targets import TopicNow

RULES = DdlGateRules(
    client={"sasl.password": "s3cret"},
    topic="products",
    isolation_level="read_committed",
    rest_url="http://jobmanager:8081",
    topic_id="id-products",
)


class _Context:
    """What Flink tells a function."""

    def __init__(self, subtasks: int | None = 1) -> None:
        self._subtasks = subtasks

    def get_number_of_parallel_subtasks(self) -> int | None:
        return self._subtasks

    def get_task_name(self) -> str:
        return "PythonCalc"


class _Resolver:
    targets: Mapping[int, Target] = {}
    first: Mapping[int, int] = {}
    later: Mapping[int, Target] = {}
    topic_id = "id-products"
    closed = 0

    def __init__(self, *_: Any) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        type(self).closed += 1

    def topic(self) -> TopicNow:
        return TopicNow(self.topic_id, tuple(self.targets), ())

    def resolve(self) -> dict[int, Target]:
        return dict(self.targets)

    def resolve_again(self, waiting: Mapping[int, Target]) -> dict[int, Target]:
        return {p: self.later.get(p, target) for p, target in waiting.items()}

    def first_readable(self, targets: Mapping[int, Target]) -> dict[int, int]:
        assert not any(target.waiting for target in targets.values())
        return dict(self.first)


class _Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def monotonic(self) -> float:
        return self.s

    def sleep(self, s: float) -> None:
        self.s += s

    def time_ns(self) -> int:
        return int(self.s * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    monkeypatch.setattr("udfs.ddl_gate.time", clock)
    monkeypatch.setattr("udfs.job_manager.time", clock)
    return clock


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch, clock: _Clock) -> type[_Resolver]:
    monkeypatch.setattr("udfs.ddl_gate.TargetResolver", _Resolver)
    monkeypatch.setattr("udfs.ddl_gate.restored_from", lambda *_: "")
    monkeypatch.delitem(sys.modules, ddl_gate._WORKER_PROCESS, raising=False)
    _Resolver.targets = {0: Target(0, 3, 2), 1: Target(0, 0, None)}
    _Resolver.first, _Resolver.later, _Resolver.topic_id = {0: 0}, {}, "id-products"
    return _Resolver


def _opened(context: _Context | None = None, **changes: Any) -> DdlGate:
    # As Flink does: written on the client, read on the worker.
    gate: DdlGate = pickle.loads(pickle.dumps(DdlGate(replace(RULES, **changes))))  # noqa: S301
    gate.open(context or _Context())
    return gate


def test_the_watermark_is_far_away_from_the_target_on(resolver: type[_Resolver]) -> None:
    gate = _opened()
    assert [gate.eval(0, offset) for offset in range(4)] == [
        CLOSED_MS,
        CLOSED_MS,
        FAR_FUTURE_MS,
        FAR_FUTURE_MS,
    ]
    assert resolver.closed


def test_each_attempt_takes_new_targets(resolver: type[_Resolver]) -> None:
    gate = _opened()
    assert [gate.eval(0, offset) for offset in range(3)][-1] == FAR_FUTURE_MS
    resolver.targets = {0: Target(0, 4, 3)}
    gate.open(_Context())
    assert [gate.eval(0, offset) for offset in range(4)] == [CLOSED_MS] * 3 + [FAR_FUTURE_MS]


@pytest.mark.parametrize("subtasks", [2, 4, None])
def test_more_than_one_subtask_is_refused(resolver: type[_Resolver], subtasks: int | None) -> None:
    with pytest.raises(TargetError, match=r"one of \w+ subtasks.*'parallelism.default' = '1'"):
        _opened(_Context(subtasks))


def test_a_worker_process_is_refused(
    resolver: type[_Resolver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, ddl_gate._WORKER_PROCESS, ModuleType("sdk_worker"))
    with pytest.raises(TargetError, match=r"worker process.*'python.execution-mode' = 'thread'"):
        _opened()


def test_an_attempt_that_goes_on_from_a_savepoint_is_refused(
    resolver: type[_Resolver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("udfs.ddl_gate.restored_from", lambda *_: "file:/sp-1 (job 7)")
    with pytest.raises(TargetError, match=r"goes on from file:/sp-1 \(job 7\).*never open"):
        _opened()


def test_an_empty_table_is_refused(resolver: type[_Resolver]) -> None:
    resolver.targets = {0: Target(0, 0, None)}
    with pytest.raises(TargetError, match="holds nothing that can be read"):
        _opened()


def test_another_topic_of_that_name_is_refused(resolver: type[_Resolver]) -> None:
    resolver.topic_id = "another"
    with pytest.raises(TargetError, match=r"has the id another.*Print the DDL again"):
        _opened()


def test_the_end_of_an_open_transaction_is_waited_for(resolver: type[_Resolver]) -> None:
    resolver.targets = {0: Target(0, 3, None, waiting=True)}
    # It was aborted: what counts stands before it.
    resolver.later = {0: Target(0, 3, 0)}
    assert _opened().eval(0, 0) == FAR_FUTURE_MS


def test_a_transaction_without_end_is_told_with_its_partition(
    resolver: type[_Resolver], clock: _Clock
) -> None:
    resolver.targets = {4: Target(0, 3, None, waiting=True)}
    with pytest.raises(TargetError, match=r"products\[4\] is unfinished after 10 s"):
        _opened(transaction_wait_ms=10_000)
    assert 10 <= clock.s < 11


def test_no_attempt_waits_so_long_that_a_cancel_would_cost_the_task_manager(
    resolver: type[_Resolver], clock: _Clock
) -> None:
    resolver.targets = {0: Target(0, 3, None, waiting=True)}
    with pytest.raises(TargetError, match="after 120 s"):
        _opened(transaction_wait_ms=3_600_000)
    assert clock.s < 180


def test_other_code_in_memory_is_refused(
    resolver: type[_Resolver], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = DdlGate(RULES)
    monkeypatch.setattr("udfs.code.LOADED", "another")
    with pytest.raises(StaleCodeError):
        gate.open(_Context())


def test_the_rules_do_not_print_what_the_clients_log_in_with() -> None:
    assert "s3cret" not in repr(RULES)


def test_each_moment_is_the_time_and_later_than_the_one_before(clock: _Clock) -> None:
    moment = EventMoment()
    moment.open(_Context())
    clock.s = 5.0
    assert moment.eval(0) == 5_000
    assert moment.eval(1) == 5_001
    clock.s = 4.0
    assert moment.eval(2) == 5_002
    clock.s = 6.0
    assert moment.eval(3) == 6_000


class _JobManager:
    """Answers of a JobManager, by path."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, Any] = {"/jobs/overview": {"jobs": []}}
        monkeypatch.setattr("udfs.job_manager._get", lambda _, path: self.answers[path])

    def has(self, job: str, task: str, state: str = "RUNNING", restored: Any = None) -> None:
        self.answers["/jobs/overview"]["jobs"].append({"jid": job, "state": state})
        self.answers[f"/jobs/{job}"] = {"vertices": [{"name": "Source"}, {"name": task}]}
        self.answers[f"/jobs/{job}/checkpoints"] = {"latest": {"restored": restored}}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, clock: _Clock) -> _JobManager:
    return _JobManager(monkeypatch)


def test_a_job_without_anything_restored_started_from_nothing(asked: _JobManager) -> None:
    asked.has("1", "PythonCalc")
    asked.has("2", "another", restored={"id": 4})
    asked.has("3", "PythonCalc", state="CANCELED", restored={"id": 4})
    assert not job_manager.restored_from("http://here", "PythonCalc")


def test_a_savepoint_is_named_by_its_path_and_a_checkpoint_by_its_number(
    asked: _JobManager,
) -> None:
    asked.has("1", "A", restored={"id": 4, "external_path": "file:/sp-1"})
    asked.has("2", "B", restored={"id": 4})
    assert job_manager.restored_from("http://here", "A") == "file:/sp-1 (job 1)"
    assert job_manager.restored_from("http://here", "B") == "checkpoint 4 (job 2)"


def test_of_two_jobs_with_the_task_both_must_have_started_from_nothing(asked: _JobManager) -> None:
    asked.has("1", "PythonCalc")
    asked.has("2", "PythonCalc", restored={"id": 4})
    assert job_manager.restored_from("http://here", "PythonCalc") == "checkpoint 4 (job 2)"


def test_a_task_that_nobody_knows_is_asked_for_again_and_then_an_error(
    asked: _JobManager, clock: _Clock
) -> None:
    with pytest.raises(TargetError, match="knows no running job with the task 'PythonCalc'"):
        job_manager.restored_from("http://here", "PythonCalc")
    assert clock.s >= 20


def test_a_job_manager_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(TargetError, match="does not say whether"):
        job_manager.restored_from("http://127.0.0.1:1", "PythonCalc")
