"""What SQL asks Python for gives the bytes, headers and errors of the DataStream job."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from tests.functions.test_gate_function import RULES as GATE_RULES
from tests.functions.test_join import RULES
from tests.support.keyed_harness import Harness
from udfs import code
from udfs.core.errors import StaleCodeError
from udfs.core.gate import CLOSED_MS
from udfs.core.marks import STARTUP_MOMENT_MS
from udfs.core.merge import CustomMerge
from udfs.core.misses import MissPolicy
from udfs.core.model import Header, Verdict
from udfs.gate import TableGate
from udfs.join import GatedJoin
from udfs.outcomes import Outcomes
from udfs.records import Record
from udfs.sql_functions import (
    Carries,
    Enrich,
    ReadRow,
    RowContent,
    RowProblem,
    SetAside,
    SetAsideBare,
)
from udfs.sql_gate import SqlGate

_EVENT = b'{"product": "p1", "n": 1.50}'
_ROW = b'{"name": 1e2}'


def _enrich(
    routed: str | None, value: bytes | None, row: bytes | None = None, **options: Any
) -> list[Any]:
    rules = replace(RULES, **options.get("rules", {}))
    key, headers = options.get("key", b"o1"), options.get("headers", {})
    return list(Enrich(rules).eval(routed, key, value, headers, row, "DELETED"))


def test_a_hit_keeps_the_bytes_of_both_sides() -> None:
    verdict, problem, content, headers = _enrich("p1", _EVENT, _ROW)
    assert (verdict, problem, headers) == ("HIT", None, {})
    assert content == b'{"product": "p1", "n": 1.50,"product_name":1e2}'


def test_headers_of_an_earlier_round_are_gone_from_a_hit() -> None:
    told = {Header.VERDICT: b"NOT_FOUND", "own": b"1"}
    assert _enrich("p1", _EVENT, _ROW, headers=told)[3] == {"own": b"1"}


def test_an_event_without_a_row_is_the_miss_that_it_was_said_to_be() -> None:
    assert _enrich("p1", _EVENT) == ["DELETED", None, None, {}]


def test_an_event_without_a_key_is_told_so_whatever_row_there_is() -> None:
    assert _enrich(None, b"{}", _ROW) == ["NO_KEY", "join key is missing or null", None, {}]


@pytest.mark.parametrize(
    ("routed", "value", "verdict"), [("p1", _EVENT, "DELETED"), (None, b'{"n":1}', "NO_KEY")]
)
def test_an_output_that_takes_nulls_gets_what_the_other_variant_gives(
    routed: str | None, value: bytes, verdict: str
) -> None:
    options: dict[str, Any] = {"on_miss": MissPolicy(route=False, emit_null=True)}
    own = {"own": b"1", Header.SOURCE: b"old"}
    told, _, content, headers = _enrich(routed, value, rules=options, headers=own)
    rules = replace(RULES, **options)
    outcomes = Outcomes(rules, Harness(GatedJoin(rules)), crosses=False)
    record = Record(routed, b"o1", value, own, 1, 0, 7)
    _, fields = rules.events.read(b"o1", value)
    _, other = outcomes.null(record, routed, fields, Verdict(verdict), 1, counted=True)
    assert (told, content, headers) == (verdict, other[1], other[2])
    assert headers == {"own": b"1", Header.VERDICT: verdict.encode()}


def test_a_null_that_grows_too_large_for_its_topic_is_a_problem() -> None:
    options = {"on_miss": MissPolicy(route=False, emit_null=True), "max_enriched_bytes": 10}
    verdict, problem, content, _ = _enrich("p1", _EVENT, rules=options)
    assert (verdict, content) == ("BAD_RECORD", None)
    assert "its topic takes 10" in problem


@pytest.mark.parametrize(
    ("routed", "value", "says"),
    [
        ("p1", None, "is null"),
        ("p1", b"[1]", "not an object"),
        (None, b'{"product": 1.0}', "is the number 1.0"),
        ("p2", _EVENT, "'p2' for routing and as 'p1'"),
    ],
)
def test_what_cannot_be_read_says_why(routed: str | None, value: bytes | None, says: str) -> None:
    verdict, problem, *rest = _enrich(routed, value, _ROW)
    assert says in problem
    assert (verdict, rest) == ("BAD_RECORD", [None, {}])


def test_an_event_that_grows_too_large_for_its_topic_is_a_problem() -> None:
    assert "its topic takes 10" in _enrich("p1", _EVENT, _ROW, rules={"max_enriched_bytes": 10})[1]


@pytest.mark.parametrize(
    ("enriched", "row", "carries"),
    [
        (b'{"product": "p1", "product_name": 1e2}', _ROW, True),
        (b'{"product": "p1", "product_name": 100}', _ROW, False),
        (b'{"product": "p1"}', _ROW, False),
        # It adds nothing, so nothing is missing.
        (b'{"product": "p1"}', b"{}", True),
        (b"{", _ROW, None),
        (None, _ROW, None),
        (_EVENT, None, None),
    ],
)
def test_an_enriched_event_is_known_by_the_bytes_of_its_row(
    enriched: bytes | None, row: bytes | None, carries: bool | None
) -> None:
    assert Carries(RULES).eval(enriched, row) is carries


def test_what_a_merge_function_has_added_nobody_can_tell() -> None:
    assert Carries(replace(RULES, merge=CustomMerge("a:b"))).eval(_EVENT, _ROW) is None


@pytest.mark.parametrize(
    ("routed", "value", "content", "says"),
    [
        ("p1", _ROW, _ROW, None),
        ("p1", None, None, None),
        ("p1", b"[]", None, "not an object"),
        ("p2", _ROW, None, "'p2' for routing"),
    ],
)
def test_a_table_record_is_a_row_a_deletion_or_a_problem(
    routed: str, value: bytes | None, content: bytes | None, says: str | None
) -> None:
    row, problem = ReadRow(RULES).eval(routed, b"p1", value)
    assert row == content
    batch = [pd.Series([one, "p1"], dtype="object") for one in (routed, b"p1", value)]
    batch[1][1], batch[2][1] = b"p1", _ROW
    batch.append(pd.Series([0, 1]))
    # Vectorised they say the same, each of its own record.
    assert list(RowProblem(RULES).eval(*batch)) == [problem, None]
    assert list(RowContent(RULES).eval(*batch)) == [content, _ROW]
    assert (says in problem) if says else problem is None


def test_a_record_that_is_set_aside_says_why_and_where_it_stood() -> None:
    headers = SetAside().eval({"own": b"1"}, "BAD_RECORD", "orders[0]@7", 1_000, "broken", 99)
    assert headers == {
        "own": b"1",
        Header.VERDICT: b"BAD_RECORD",
        Header.SOURCE: b"orders[0]@7",
        Header.ATTEMPT: b"1",
        Header.FIRST_SEEN: b"1000",
        Header.TIMESTAMP: b"99",
        Header.ERROR: b"orders[0]@7: broken",
    }
    bare = SetAside().eval({}, "NOT_FOUND", "orders[0]@7", 1_000, None, None)
    assert bare.keys().isdisjoint({Header.ERROR, Header.TIMESTAMP})


def test_a_record_without_headers_gets_the_same() -> None:
    told = ("BAD_RECORD", "orders[0]@7", 1_000, "broken", 99)
    assert SetAsideBare().eval(*told) == SetAside().eval({}, *told)


def test_another_version_of_the_code_in_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    function = pickle.loads(pickle.dumps(Enrich(RULES)))  # noqa: S301
    function.open(None)
    monkeypatch.setattr(code, "LOADED", "another")
    with pytest.raises(StaleCodeError):
        function.open(None)


def test_the_gate_answers_with_marks_on_the_last_row_only(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([CLOSED_MS, 1_700_000_000_000, 1_700_000_000_000])
    monkeypatch.setattr(TableGate, "open", lambda *_: None)
    monkeypatch.setattr(
        TableGate, "eval", lambda *_: pd.Series([CLOSED_MS, CLOSED_MS, next(answers)])
    )
    gate = SqlGate(GATE_RULES)
    gate.open(None)
    nothing = pd.Series([], dtype="int64")
    told = [list(gate.eval(*[nothing] * 5)) for _ in range(3)]
    assert [marks[:2] for marks in told] == [[CLOSED_MS] * 2] * 3
    shut, announced, released = (marks[2] for marks in told)
    assert shut == CLOSED_MS < announced < STARTUP_MOMENT_MS < released
