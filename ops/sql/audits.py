"""Audits: queries that must return no rows, each run to its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

from jobs.sql.files import Statement
from ops.sql.kinds import title
from ops.sql.results import Change, Column, CurrentTable
from ops.sql.running import Clock, Running
from ops.sql.screen import Shape
from udfs.core.errors import StackError

AUDIT_S = 120.0
"""How long an audit may take by default, in seconds."""

_ROWS = 10


class Outcome(Enum):
    """What an audit found. Only one that has ended has looked at everything."""

    CLEAN = "no rows"
    FOUND = "ROWS FOUND"
    WAITED = "NOT CHECKED, its job did not begin"
    NOT_OPEN = "NOT CHECKED, the gate did not open"
    NOT_ENDED = "NOT CHECKED, it did not end"
    FAILED = "NOT CHECKED, the job failed"


_TIMED = frozenset({Outcome.WAITED, Outcome.NOT_OPEN, Outcome.NOT_ENDED})


@dataclass(frozen=True)
class Audit:
    """One audit's outcome, with the first rows that it found; ``seconds`` it was given."""

    statement: Statement
    outcome: Outcome
    seconds: float
    columns: list[Column] = field(default_factory=list)
    rows: list[Change] = field(default_factory=list)
    problem: str = ""

    @property
    def passed(self) -> bool:
        """Whether it looked at everything and found nothing."""
        return self.outcome is Outcome.CLEAN

    @property
    def checked(self) -> bool:
        """Whether anything can be said."""
        return self.outcome in {Outcome.CLEAN, Outcome.FOUND}


def audit(statement: Statement, query: Shape, running: Running, seconds: float) -> Audit:
    """Run one until it ends or has found enough, for ``seconds`` from its submission at most.

    A result that changes is judged by what it is at the end: rows may come and go on the way.
    """
    table = CurrentTable()
    with running:
        try:
            outcome = _look(query, running, table, seconds)
            rows = [Change("+I", row) for row in islice(table, _ROWS)]
            if outcome is not Outcome.FOUND:
                return Audit(statement, outcome, seconds)
            return Audit(statement, outcome, seconds, running.columns, rows)
        except StackError as error:
            return Audit(statement, Outcome.FAILED, seconds, problem=str(error))


def _look(query: Shape, running: Running, table: CurrentTable, seconds: float) -> Outcome:
    """Let the result come into ``table``, and say what it means when that is over."""
    clock = Clock(seconds)
    for batch in running.batches():
        for change in batch:
            table.apply(change)
        # What only grows has been found, whatever else there is.
        if query.insert_only and (len(table) >= _ROWS or (len(table) and clock.over())):
            return Outcome.FOUND
        if clock.over() and not running.ended:
            return _unchecked(running)
    return Outcome.FOUND if len(table) else Outcome.CLEAN


def _unchecked(running: Running) -> Outcome:
    if not running.runs():
        return Outcome.WAITED
    return Outcome.NOT_OPEN if running.waits_for_its_table() else Outcome.NOT_ENDED


def summary(result: Audit) -> str:
    """One line on an audit."""
    statement = result.statement
    where = f"{statement.file.name}:{statement.line}"
    within = f" within {result.seconds:g} s" if result.outcome in _TIMED else ""
    problem = f": {result.problem}" if result.problem else ""
    return f"{where}: {result.outcome.value}{within}{problem}: {title(statement.text)}"
