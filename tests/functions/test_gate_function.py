"""The gate function: which row of a batch may open the gate, and what each attempt asks anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pandas as pd
import pytest

from udfs.core.errors import TargetError
from udfs.core.gate import CLOSED_MS, LOADED_MS, Target
from udfs.gate import TableGate


class _Resolver:
    """Stands in for the brokers: the answers of this test, and what was asked."""

    targets: Mapping[int, Target] = {}
    later: Mapping[int, Target] = {}
    ends: Mapping[int, int] = {}
    asked_ends: ClassVar[list[list[int]]] = []
    closed = 0

    def __init__(self, *_: Any) -> None:
        type(self).asked_ends = []

    def resolve(self) -> dict[int, Target]:
        return dict(self.targets)

    def resolve_again(self, waiting: Mapping[int, Target]) -> dict[int, Target]:
        return {p: self.later.get(p, target) for p, target in waiting.items()}

    def log_ends(self, partitions: Iterable[int]) -> dict[int, int]:
        self.asked_ends.append(list(partitions))
        return {p: self.ends[p] for p in partitions}

    def close(self) -> None:
        type(self).closed += 1


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> TableGate:
    monkeypatch.setattr("udfs.gate.TargetResolver", _Resolver)
    monkeypatch.setattr("udfs.gate._ASK_AGAIN_EVERY_S", 0.0)
    _Resolver.targets = {0: Target(0, 10, 9), 1: Target(0, 4, 3)}
    _Resolver.later, _Resolver.ends = {}, {0: 10, 1: 4}
    return TableGate({}, "products", "read_committed", 2)


def _eval(gate: TableGate, *rows: tuple[int, int | None]) -> list[int]:
    partitions = pd.Series([p for p, _ in rows], dtype="int32")
    reached = pd.Series([r for _, r in rows], dtype="Int64").astype("float64")
    return list(gate.eval(partitions, reached))


def test_only_the_last_row_of_the_batch_that_completes_the_table_opens_the_gate(
    gate: TableGate,
) -> None:
    gate.open(None)
    assert _eval(gate, (0, 0), (0, 8), (1, 3)) == [CLOSED_MS] * 3
    assert _eval(gate, (0, 9), (1, 3), (1, 3)) == [CLOSED_MS, CLOSED_MS, LOADED_MS]
    assert _eval(gate, (1, 3)) == [LOADED_MS]


def test_ticks_before_any_row_say_nothing(gate: TableGate) -> None:
    gate.open(None)
    assert _eval(gate, (0, None), (1, None), (17, None)) == [CLOSED_MS] * 3


def test_a_wholly_empty_table_opens_with_the_first_tick(gate: TableGate) -> None:
    _Resolver.targets = {0: Target(0, 0, None)}
    gate.open(None)
    assert _eval(gate, (0, None)) == [LOADED_MS]


def test_every_attempt_asks_for_its_own_targets(gate: TableGate) -> None:
    gate.open(None)
    assert _eval(gate, (0, 9), (1, 3))[-1] == LOADED_MS
    gate.close()
    _Resolver.targets = {0: Target(0, 12, 11), 1: Target(0, 4, 3)}
    _Resolver.ends = {0: 12, 1: 4}
    gate.open(None)
    assert _eval(gate, (0, 9), (1, 3))[-1] == CLOSED_MS
    assert _eval(gate, (0, 11))[-1] == LOADED_MS


def test_an_unfinished_transaction_is_asked_about_until_it_ends(gate: TableGate) -> None:
    _Resolver.targets = {0: Target(0, 10, None, waiting=True)}
    gate.open(None)
    assert _eval(gate, (0, 4)) == [CLOSED_MS]
    _Resolver.later = {0: Target(0, 10, 4)}
    assert _eval(gate, (0, 4)) == [LOADED_MS]


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
    assert _eval(gate, (0, None), (1, None))[-1] == LOADED_MS


def test_a_log_end_below_the_progress_fails_the_attempt(gate: TableGate) -> None:
    _Resolver.targets = {0: Target(0, 3, 2), 1: Target(0, 4, 3)}
    _Resolver.ends = {0: 3, 1: 4}
    gate.open(None)
    with pytest.raises(TargetError, match=r"products\[0\] ends at offset 3.*up to offset 20"):
        _eval(gate, (0, 20), (1, 3))


def test_a_table_that_is_being_written_may_run_past_the_end_of_the_start(gate: TableGate) -> None:
    _Resolver.ends = {0: 30, 1: 4}
    gate.open(None)
    assert _eval(gate, (0, 20), (1, 3))[-1] == LOADED_MS
    assert _eval(gate, (0, 21), (1, 3))[-1] == LOADED_MS
    # Looked into once a partition and attempt, not with every batch.
    assert _Resolver.asked_ends == [[0]]


def test_closing_what_never_opened_is_no_error(gate: TableGate) -> None:
    gate.close()
    gate.open(None)
    closed = _Resolver.closed
    gate.close()
    assert _Resolver.closed == closed + 1
