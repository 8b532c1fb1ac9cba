"""Audits: queries that must return no rows, each run for a while."""

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

AUDIT_S = 20.0
"""For how long an audit looks by default, in seconds from the opening of its gate."""

# A table that is not loaded by then is no audit's business.
_OPENS_IN_S = 300.0
_ROWS = 10


class Outcome(Enum):
    """What an audit found."""

    CLEAN = "no rows"
    FOUND = "ROWS FOUND"
    NOT_OPEN = "NOT CHECKED, the gate did not open"
    FAILED = "NOT CHECKED, the job failed"


@dataclass(frozen=True)
class Audit:
    """One audit's outcome, with the first rows that it found."""

    statement: Statement
    outcome: Outcome
    columns: list[Column] = field(default_factory=list)
    rows: list[Change] = field(default_factory=list)
    problem: str = ""

    @property
    def passed(self) -> bool:
        """Whether it looked and found nothing."""
        return self.outcome is Outcome.CLEAN


def audit(statement: Statement, query: Shape, running: Running, seconds: float) -> Audit:
    """Run one for ``seconds`` from when its gate is open, or until it ends or has found enough.

    A result that changes is judged by what it is at the end: rows may come and go on the way.
    """
    table = CurrentTable()
    with running:
        try:
            opened = _look(query, running, table, seconds)
            columns = running.columns
        except StackError as error:
            return Audit(statement, Outcome.FAILED, problem=str(error))
    if not opened:
        return Audit(statement, Outcome.NOT_OPEN)
    rows = [Change("+I", row) for row in islice(table, _ROWS)]
    return Audit(statement, Outcome.FOUND if rows else Outcome.CLEAN, columns, rows)


def _look(query: Shape, running: Running, table: CurrentTable, seconds: float) -> bool:
    """Let the result come into ``table``; whether the gate was open when it was over."""
    opening = Clock(_OPENS_IN_S)
    looking: Clock | None = None
    for batch in running.batches():
        for change in batch:
            table.apply(change)
        if looking is None and (batch or not running.waits_for_its_table()):
            looking = Clock(seconds)
        if looking is None and opening.over():
            return False
        if (looking is not None and looking.over()) or (query.insert_only and len(table) >= _ROWS):
            break
    return True


def summary(result: Audit) -> str:
    """One line on an audit."""
    statement = result.statement
    where = f"{statement.file.name}:{statement.line}"
    problem = f": {result.problem}" if result.problem else ""
    return f"{where}: {result.outcome.value}{problem}: {title(statement.text)}"
