"""What somebody at a terminal sees of a query."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from jobs.sql.files import of_text
from ops.sql.results import Change, Column
from ops.sql.running import Clock, End, Running
from ops.sql.screen import Mode
from ops.sql.steps import Query
from ops.sql.terminal import Terminal
from tests.support.sql_shell import Cluster, Engine, rows

_HEIGHT = 10


class Seat:
    """A terminal of ten lines, and queries that are shown on it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.engine = Engine(cluster, endless=False)
        self.out = io.StringIO()
        self.paged: list[str] = []
        self.states_when_paged: list[str] = []
        self.terminal = Terminal(
            Console(file=self.out, force_terminal=True, width=60, height=_HEIGHT, color_system=None)
        )

    def page(self, content: str) -> None:
        self.paged.append(content)
        self.states_when_paged += [job["state"] for job in self.cluster.jobs.values()]

    def query(
        self, text: str, changes: Sequence[Change], mode: Mode = Mode.AUTO, *, grows: bool = True
    ) -> End:
        self.engine.insert_only, self.engine.answers = grows, {text: changes}
        (statement,) = of_text(Path("line"), f"{text};", {})
        query = self.engine.ready(statement)
        assert isinstance(query, Query)
        # As much of a cluster as a query asks for.
        with Running(self.cluster, partial(query.submit, "q")) as running:  # type: ignore[arg-type]
            return self.terminal.query(running, query, mode, Clock(10))


@pytest.fixture
def seat(monkeypatch: pytest.MonkeyPatch) -> Seat:
    cluster = Cluster()
    found = Seat(cluster)
    monkeypatch.setattr("ops.flink_run.ask", cluster.ask)
    monkeypatch.setattr("ops.sql.running.ask", cluster.ask)
    monkeypatch.setattr("rich.pager.SystemPager.show", lambda _, content: found.page(content))
    return found


_CHANGES = [
    Change(op, (value,))
    for op, value in (("+I", "a"), ("+I", "b"), ("-U", "a"), ("+U", "c"), ("-D", "b"))
]


def test_rows_stand_below_their_column(seat: Seat) -> None:
    assert seat.query("SELECT 1", rows("x", "y")) is End.FINISHED
    assert "a\n----\nx\ny\n" in seat.out.getvalue()
    assert seat.paged == []


def test_a_result_that_changes_is_the_table_that_it_is_now(seat: Seat) -> None:
    seat.query("SELECT 1", _CHANGES, grows=False)
    last = seat.out.getvalue().rpartition("----")[2]
    assert [line for line in last.splitlines()[1:3] if line] == ["c", "1 row"]


def test_or_each_change_with_its_op(seat: Seat) -> None:
    seat.query("SELECT 1", _CHANGES, Mode.CHANGES, grows=False)
    assert "op  a\n--  ----\n+I  a\n+I  b\n-U  a\n+U  c\n-D  b\n" in seat.out.getvalue()


def test_what_ended_and_is_longer_than_the_screen_goes_to_a_pager(seat: Seat) -> None:
    text = f"SELECT 1 LIMIT {_HEIGHT}"
    seat.engine.endless = True
    assert seat.query(text, rows(*"abcdefghijkl")) is End.LIMIT
    (content,) = seat.paged
    assert content.split() == ["a", "----", *"abcdefghij"]
    # Whoever reads keeps no job waiting.
    assert seat.states_when_paged == ["CANCELED"]


def test_a_table_higher_than_the_screen_says_how_much_is_not_shown(seat: Seat) -> None:
    changes = [Change("+U", (value,)) for value in "abcdefghijkl"]
    seat.query("SELECT 1", changes, grows=False)
    assert "12 rows, 6 of them not shown" in seat.out.getvalue()
    assert seat.paged[0].split() == ["a", "----", *"abcdefghijkl"]


def test_a_text_of_several_lines_stands_as_it_is(seat: Seat) -> None:
    seat.terminal.rows([Column("result", "STRING")], [Change("+I", ("one [b]\n  two\n",))])
    assert seat.out.getvalue() == "one [b]\n  two\n"
