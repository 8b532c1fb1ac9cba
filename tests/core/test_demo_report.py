"""The demo fails when ours is wrong, and also when the ungated join gave it nothing to show."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from ops.demo.check import Fault, Judgement
from ops.demo.report import Result, Timing, problems, show, summary, write


def result(**faults: int) -> Result:
    counted = Counter({Fault[name]: count for name, count in faults.items()})
    timing = Timing(to_open=[12.3, 9.8], to_open_running=[2.0, 1.0], to_first_output=[13.0, 10.0])
    return Result(Judgement(events=10, hits=8, misses=1, dead=1, faults=counted), timing)


def test_a_right_run_has_no_problems() -> None:
    assert problems(result(WRONG_NULL=3), result()) == []


@pytest.mark.parametrize("fault", list(Fault))
def test_each_fault_of_ours_is_a_problem(fault: Fault) -> None:
    found = problems(result(WRONG_NULL=3), result(**{fault.name: 2}))
    assert found
    assert f"2 x {fault}" in found[0]


def test_an_ungated_join_that_lost_nothing_proves_nothing() -> None:
    assert "lost nothing" in problems(result(STALE=5), result())[0]


def test_ours_without_a_hit_proves_nothing() -> None:
    nothing = Result(Judgement(events=10, misses=9, dead=1), result().timing)
    assert problems(result(LOST=1), nothing) == ["ours joined nothing: 0 hits"]


def test_the_summary_has_the_promised_keys(tmp_path: Path) -> None:
    path = tmp_path / "demo" / "summary.json"
    write(path, summary(result(WRONG_NULL=3, STALE=2, LOST=1), result(), {"seed": 7}))
    read = json.loads(path.read_text())
    promised = ("events", "hits", "misses", "wrong_nulls", "stale", "lost")
    assert [read["ungated"][key] for key in promised] == [10, 8, 1, 3, 2, 1]
    assert [read["gated"][key] for key in promised] == [10, 8, 1, 0, 0, 0]
    assert read["ungated"]["lost_rows"] == 4
    assert read["gated"]["time_to_open_s"] == [12.3, 9.8]
    assert read["seed"] == 7


def test_the_table_shows_the_promise_and_an_example_of_each_fault() -> None:
    ungated = result(WRONG_NULL=3)
    ungated.judgement.examples[Fault.WRONG_NULL].append("orders[0]@7 -> retry[0]@1: [red] row")
    ungated.judgement.deciles[9].events, ungated.judgement.deciles[9].lost = 4, 3
    out = io.StringIO()
    show(Console(file=out, width=110), ungated, result())
    text = out.getvalue()
    for shown in ("wrong nulls", "stale joins", "lost", "time to open", "12.3 s, 9.8 s"):
        assert shown in text
    # Not eaten as markup.
    assert "orders[0]@7 -> retry[0]@1: [red] row" in text
    assert "75.0%       3 of 4 orders" in text
