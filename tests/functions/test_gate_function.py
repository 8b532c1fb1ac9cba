"""The gate function: which row of a batch may open the gate, and what each attempt asks anew."""

from __future__ import annotations

import logging
import pickle
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pandas as pd
import pytest

from udfs.core.errors import NoAnswerError, TargetError
from udfs.core.gate import CLOSED_MS, OPENED_SHORT_MS, Target
from udfs.core.identity import Identity
from udfs.core.stall import OnStall
from udfs.gate import GateRules, TableGate
from udfs.targets import TopicNow

NOW_MS = 1_700_000_000_000
RULES = GateRules(
    client={"sasl.password": "s3cret"},
    topic="products",
    isolation_level="read_committed",
    ticked_partitions=2,
    topic_ids={"products": "id-products", "orders": "id-orders"},
)


class _Resolver:
    """Stands in for the brokers: the answers of this test, and what was asked."""

    targets: Mapping[int, Target] = {}
    later: Mapping[int, Target] = {}
    ends: Mapping[int, int] = {}
    stable: Mapping[int, int] = {}
    ids: Mapping[str, str] = {}
    away = False
    asked_ends: ClassVar[list[list[int]]] = []
    closed = 0

    def __init__(self, *_: Any) -> None:
        type(self).asked_ends = []
        self.patience_s = 15.0

    def topic(self, name: str = "products") -> TopicNow:
        self._answer()
        return TopicNow(self.ids[name], tuple(self.ends), ())

    def resolve(self) -> dict[int, Target]:
        return dict(self.targets)

    def resolve_again(self, waiting: Mapping[int, Target]) -> dict[int, Target]:
        self._answer()
        return {p: self.later.get(p, target) for p, target in waiting.items()}

    def log_ends(self, partitions: Iterable[int]) -> dict[int, int]:
        self._answer()
        self.asked_ends.append(list(partitions))
        return {p: self.ends[p] for p in partitions}

    def stable_ends(self, partitions: Iterable[int]) -> dict[int, int]:
        self._answer()
        return {p: self.stable.get(p, self.ends[p]) for p in partitions}

    def close(self) -> None:
        type(self).closed += 1

    def _answer(self) -> None:
        if self.away:
            raise NoAnswerError("The brokers are away.", "Wait.")


class _Clock:
    """One clock for both: seconds that never go back, and epoch milliseconds."""

    def __init__(self) -> None:
        self.s = 0.0

    def monotonic(self) -> float:
        return self.s

    def time_ns(self) -> int:
        return NOW_MS * 1_000_000 + int(self.s * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    monkeypatch.setattr("udfs.gate.time", clock)
    monkeypatch.setattr("udfs.watch.time", clock)
    return clock


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, clock: _Clock) -> TableGate:
    return _gate(monkeypatch)


def _gate(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> TableGate:
    monkeypatch.setattr("udfs.gate.TargetResolver", _Resolver)
    _Resolver.targets = {0: Target(0, 10, 9), 1: Target(0, 4, 3)}
    _Resolver.later, _Resolver.ends, _Resolver.stable = {}, {0: 10, 1: 4}, {}
    _Resolver.ids = dict(RULES.topic_ids)
    _Resolver.away = False
    return TableGate(replace(RULES, **changes))


def _eval(
    gate: TableGate,
    *rows: tuple[int, int | None],
    foreign: str | None = None,
    silent: int | None = None,
    tick: bool = True,
) -> list[int]:
    partitions = pd.Series([p for p, _ in rows], dtype="int32")
    reached = pd.Series([r for _, r in rows], dtype="Int64").astype("float64")
    stamps = pd.Series([foreign] * len(rows), dtype="object")
    silences = pd.Series([silent] * len(rows), dtype="Int64").astype("float64")
    ticks = pd.Series([tick] * len(rows), dtype="bool")
    return list(gate.eval(partitions, reached, stamps, silences, ticks))


def test_only_the_last_row_of_the_batch_that_completes_the_table_opens_the_gate(
    gate: TableGate,
) -> None:
    gate.open(None)
    assert _eval(gate, (0, 0), (0, 8), (1, 3)) == [CLOSED_MS] * 3
    assert _eval(gate, (0, 9), (1, 3), (1, 3)) == [CLOSED_MS, CLOSED_MS, NOW_MS]
    assert _eval(gate, (1, 3)) == [NOW_MS]


def test_ticks_before_any_row_say_nothing(gate: TableGate) -> None:
    gate.open(None)
    assert _eval(gate, (0, None), (1, None), (17, None)) == [CLOSED_MS] * 3


def test_a_wholly_empty_table_opens_with_the_first_tick(gate: TableGate) -> None:
    _Resolver.targets = {0: Target(0, 0, None)}
    gate.open(None)
    assert _eval(gate, (0, None)) == [NOW_MS]


def test_every_attempt_asks_for_its_own_targets(gate: TableGate) -> None:
    gate.open(None)
    assert _eval(gate, (0, 9), (1, 3))[-1] == NOW_MS
    gate.close()
    _Resolver.targets = {0: Target(0, 12, 11), 1: Target(0, 4, 3)}
    _Resolver.ends = {0: 12, 1: 4}
    gate.open(None)
    assert _eval(gate, (0, 9), (1, 3))[-1] == CLOSED_MS
    assert _eval(gate, (0, 11))[-1] == NOW_MS


def test_an_unfinished_transaction_is_asked_about_until_it_ends(
    gate: TableGate, clock: _Clock
) -> None:
    _Resolver.targets = {0: Target(0, 10, None, waiting=True)}
    gate.open(None)
    assert _eval(gate, (0, 4)) == [CLOSED_MS]
    _Resolver.later = {0: Target(0, 10, 4)}
    assert _eval(gate, (0, 4)) == [CLOSED_MS]
    clock.s += 0.5
    assert _eval(gate, (0, 4)) == [NOW_MS]


def test_a_recreated_topic_is_found_out_before_the_gate_opens_and_not_a_batch_later(
    gate: TableGate,
) -> None:
    # Empty now, while the restored progress says that it had 20 records.
    _Resolver.targets = {0: Target(0, 0, None), 1: Target(0, 0, None)}
    _Resolver.ends = {0: 0, 1: 0}
    gate.open(None)
    assert _eval(gate, (1, None)) == [CLOSED_MS]
    with pytest.raises(TargetError, match=r"products\[0\] ends at offset 0"):
        _eval(gate, (0, 20))


def test_a_partition_that_no_tick_speaks_for_is_not_waited_for(gate: TableGate) -> None:
    _Resolver.targets = {0: Target(0, 0, None), 1: Target(0, 0, None), 2: Target(0, 0, None)}
    gate.open(None)
    assert _eval(gate, (0, None), (1, None))[-1] == NOW_MS


def test_a_log_end_below_the_progress_fails_the_attempt(gate: TableGate) -> None:
    _Resolver.targets = {0: Target(0, 3, 2), 1: Target(0, 4, 3)}
    _Resolver.ends = {0: 3, 1: 4}
    gate.open(None)
    with pytest.raises(TargetError, match=r"products\[0\] ends at offset 3.*up to offset 20"):
        _eval(gate, (0, 20), (1, 3))


def test_a_table_that_is_being_written_may_run_past_the_end_of_the_start(gate: TableGate) -> None:
    _Resolver.ends = {0: 30, 1: 4}
    gate.open(None)
    assert _eval(gate, (0, 20), (1, 3))[-1] == NOW_MS
    assert _eval(gate, (0, 21), (1, 3))[-1] == NOW_MS
    # Looked into once a partition and attempt, not with every batch.
    assert _Resolver.asked_ends == [[0]]


def test_closing_what_never_opened_is_no_error(gate: TableGate) -> None:
    gate.close()
    gate.open(None)
    closed = _Resolver.closed
    gate.close()
    assert _Resolver.closed == closed + 1


# ------------------------------------------------------------------------------ later looks


def test_the_watermark_is_the_time_of_the_last_look_that_is_met(
    gate: TableGate, clock: _Clock
) -> None:
    gate.open(None)
    assert _eval(gate, (0, 9), (1, 3))[-1] == NOW_MS
    clock.s += 0.8
    assert _eval(gate, (0, 9))[-1] == NOW_MS
    clock.s += 0.2
    assert _eval(gate, (0, 9))[-1] == NOW_MS + 1_000
    # Somebody writes a row: complete until then only once it was applied.
    _Resolver.ends = {0: 11, 1: 4}
    clock.s += 1
    assert _eval(gate, (0, 9))[-1] == NOW_MS + 1_000
    assert _eval(gate, (0, 10))[-1] == NOW_MS + 2_000


def test_a_tick_that_comes_a_little_early_still_looks(gate: TableGate, clock: _Clock) -> None:
    gate.open(None)
    _eval(gate, (0, 9), (1, 3))
    for n in range(1, 4):
        clock.s = n - 0.05 * n
        assert _eval(gate, (0, 9), (1, 3))[-1] == NOW_MS + n * 950


def test_continuous_mode_looks_with_every_tick_and_allows_for_the_clocks(
    monkeypatch: pytest.MonkeyPatch, clock: _Clock
) -> None:
    gate = _gate(monkeypatch, continuous=True, tick_interval_ms=100, max_clock_skew_ms=30)
    gate.open(None)
    assert _eval(gate, (0, 9), (1, 3))[-1] == NOW_MS - 30
    clock.s += 0.1
    assert _eval(gate, (0, 9))[-1] == NOW_MS + 70


def test_a_marker_at_the_end_is_looked_into_when_no_record_comes(
    gate: TableGate, clock: _Clock
) -> None:
    gate.open(None)
    _eval(gate, (0, 9), (1, 3))
    _Resolver.ends = {0: 12, 1: 4}
    _Resolver.later = {0: Target(0, 12, 10)}
    clock.s += 1
    assert _eval(gate, (0, 10))[-1] == NOW_MS
    clock.s += 1
    assert _eval(gate, (0, 10))[-1] == NOW_MS + 2_000


def test_brokers_that_are_away_stop_the_time_and_not_the_job(
    gate: TableGate, clock: _Clock, caplog: pytest.LogCaptureFixture
) -> None:
    gate.open(None)
    _eval(gate, (0, 9), (1, 3))
    _Resolver.away = True
    clock.s += 30
    assert _eval(gate, (0, 9))[-1] in {CLOSED_MS, NOW_MS}
    clock.s += 31
    assert _eval(gate, (0, 9))[-1] in {CLOSED_MS, NOW_MS}
    assert "brokers are away" in caplog.text
    assert "stale, complete until 2023-11-14T22:13:20.000+00:00 only, 61.0 s ago" in caplog.text
    _Resolver.away = False
    caplog.set_level(logging.INFO)
    clock.s += 1
    assert _eval(gate, (0, 9))[-1] == NOW_MS + 62_000
    assert "no longer stale" in caplog.text


def test_an_unanswered_question_about_a_moved_end_does_not_open_the_gate(gate: TableGate) -> None:
    gate.open(None)
    _Resolver.away = True
    assert _eval(gate, (0, 20), (1, 3))[-1] == CLOSED_MS
    _Resolver.away = False
    _Resolver.ends = {0: 30, 1: 4}
    assert _eval(gate, (0, 20))[-1] == NOW_MS


def test_a_log_end_that_moves_back_later_fails_the_attempt_when_said_twice(
    gate: TableGate, clock: _Clock
) -> None:
    gate.open(None)
    _eval(gate, (0, 9), (1, 3))
    _Resolver.ends = {0: 5, 1: 4}
    clock.s += 1
    assert _eval(gate, (0, 9))[-1] == NOW_MS
    clock.s += 1
    with pytest.raises(TargetError, match=r"products\[0\] ends at offset 5.*up to offset 9"):
        _eval(gate, (0, 9))


# -------------------------------------------------------------------- what the state belongs to

OURS = Identity("c1", "orders 1", "value json a", "products 1", "json key")


def test_state_of_another_table_is_refused_and_told_what_differs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = _gate(monkeypatch, identity=OURS)
    gate.open(None)
    foreign = replace(OURS, table="products 2", stream_key="value json b").stamp
    with pytest.raises(TargetError, match=r"belongs to another stream\.key; another table topic"):
        _eval(gate, (0, 9), foreign=foreign)


def test_a_topic_that_was_created_again_is_refused_by_its_id(gate: TableGate) -> None:
    _Resolver.ids = {"products": "id-2", "orders": "id-orders"}
    with pytest.raises(TargetError, match=r"Topic products was deleted and created again.*id-2"):
        gate.open(None)


def test_a_topic_that_is_created_again_while_the_job_runs_is_noticed(
    gate: TableGate, clock: _Clock
) -> None:
    gate.open(None)
    _eval(gate, (0, 9), (1, 3))
    _Resolver.ids = {"products": "id-2", "orders": "id-orders"}
    clock.s += 1
    with pytest.raises(TargetError, match="created again"):
        _eval(gate, (0, 9))


@pytest.mark.parametrize(
    ("reached", "silent", "line"),
    [
        ((None, None), None, "cold start, 14 offsets to read"),
        ((9, 3), 5, "warm start on a quiet table"),
        ((7, 3), 5, "warm start, 2 offsets to read"),
    ],
)
def test_the_kind_of_start_is_told(
    gate: TableGate,
    caplog: pytest.LogCaptureFixture,
    reached: tuple[int | None, int | None],
    silent: int | None,
    line: str,
) -> None:
    caplog.set_level(logging.INFO)
    gate.open(None)
    _eval(gate, (0, reached[0]), silent=silent)
    assert line not in caplog.text
    _eval(gate, (1, reached[1]), (0, 9), silent=silent)
    assert f"gate of products: {line}\n" in caplog.text


def test_a_start_whose_first_sign_of_life_is_the_last_row_is_not_on_a_quiet_table(
    gate: TableGate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    gate.open(None)
    _eval(gate, (0, 9), silent=5, tick=False)
    _eval(gate, (1, 3), silent=5)
    assert "gate of products: warm start, 1 offsets to read\n" in caplog.text


def test_a_load_that_took_long_is_no_lag(
    gate: TableGate, clock: _Clock, caplog: pytest.LogCaptureFixture
) -> None:
    gate.open(None)
    _eval(gate, (0, 1), (1, 3))
    _Resolver.away = True
    clock.s += 3_600
    _eval(gate, (0, 9))
    clock.s += 60
    _eval(gate, (0, 9))
    assert "stale" not in caplog.text
    clock.s += 1
    _eval(gate, (0, 9))
    assert "stale, complete until" in caplog.text


def test_deletions_that_may_have_expired_are_told_or_refused(
    monkeypatch: pytest.MonkeyPatch, clock: _Clock, caplog: pytest.LogCaptureFixture
) -> None:
    gate = _gate(monkeypatch, tombstones_kept_ms=60_000)
    gate.open(None)
    _eval(gate, (0, 9), (1, 3), silent=60)
    assert "deleted meanwhile" not in caplog.text
    gate.open(None)
    _eval(gate, (0, 9), (1, 3), silent=61)
    assert "last kept up to date 61 s ago" in caplog.text
    gate = _gate(monkeypatch, tombstones_kept_ms=60_000, fail_on_expired_tombstones=True)
    gate.open(None)
    with pytest.raises(TargetError, match="Start without a savepoint"):
        _eval(gate, (0, 9), (1, 3), silent=61)


# ------------------------------------------------------------------------ when it cannot open


def _stall(gate: TableGate, clock: _Clock) -> list[int]:
    """A transaction at the end of partition 0 that nobody finishes, for a minute."""
    _Resolver.targets = {0: Target(0, 10, None, waiting=True), 1: Target(0, 4, 3)}
    _Resolver.stable = {0: 6}
    gate.open(None)
    assert _eval(gate, (0, 5), (1, 3))[-1] == CLOSED_MS
    clock.s += 59.9
    assert _eval(gate, (0, 5), (1, 3))[-1] == CLOSED_MS
    clock.s += 0.1
    return _eval(gate, (0, 5), (1, 3))


WHY = r"products\[0\] is 4 offsets short of 9 \(read up to offset 5\): a transaction that began at "


def test_by_default_a_gate_that_cannot_open_waits_and_says_for_what(
    gate: TableGate, clock: _Clock, caplog: pytest.LogCaptureFixture
) -> None:
    assert _stall(gate, clock)[-1] == CLOSED_MS
    assert re.search(WHY, caplog.text)
    caplog.clear()
    clock.s += 60
    _eval(gate, (0, 5))
    assert "no progress for 120 s" in caplog.text


def test_or_it_fails_the_attempt(monkeypatch: pytest.MonkeyPatch, clock: _Clock) -> None:
    with pytest.raises(TargetError, match=WHY):
        _stall(_gate(monkeypatch, on_stall=OnStall.FAIL), clock)


def test_or_it_opens_and_the_watermark_says_that_it_is_short(
    monkeypatch: pytest.MonkeyPatch, clock: _Clock
) -> None:
    gate = _gate(monkeypatch, on_stall=OnStall.OPEN)
    assert _stall(gate, clock)[-1] == OPENED_SHORT_MS
    _Resolver.later = {0: Target(0, 10, 5)}
    clock.s += 0.5
    assert _eval(gate, (0, 5))[-1] == NOW_MS + 60_500


def test_progress_is_no_stall_however_slow(gate: TableGate, clock: _Clock) -> None:
    gate.open(None)
    _eval(gate, (0, 0), (1, 0))
    for offset in range(1, 9):
        clock.s += 59
        assert _eval(gate, (0, offset))[-1] == CLOSED_MS
    assert gate._watch.report(NOW_MS, 60_000, 60_000) == ""


def test_a_target_that_the_log_has_no_more_fails_the_attempt(
    gate: TableGate, clock: _Clock
) -> None:
    gate.open(None)
    _eval(gate, (0, 2), (1, 3))
    _Resolver.ends = {0: 3, 1: 4}
    clock.s += 10
    with pytest.raises(TargetError, match="log end moved back to 3"):
        _eval(gate, (0, 2))


def test_the_rules_can_be_shipped_and_show_no_secret() -> None:
    assert pickle.loads(pickle.dumps(RULES)) == RULES  # noqa: S301
    assert "s3cret" not in repr(RULES)
