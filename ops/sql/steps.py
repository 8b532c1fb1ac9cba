"""Statements that are ready to be run, and what they are run by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from jobs.sql.files import Statement
from ops.sql.results import Change, Column


@dataclass(frozen=True)
class Submitted:
    """A job on the cluster, and its result as it comes."""

    job_id: str
    columns: list[Column]
    changes: Iterator[Change]


@dataclass(frozen=True)
class Query:
    """A query that could be run. ``ends_after``: see ``ops.sql.kinds.ends_after``."""

    statement: Statement
    columns: tuple[str, ...]
    insert_only: bool
    ends_after: int | None
    submit: Callable[[str], Submitted]
    """Takes the job's name."""


@dataclass(frozen=True)
class Insert:
    """An INSERT that could be run; ``submit`` takes the job's name and gives its id."""

    statement: Statement
    tables: tuple[str, ...]
    submit: Callable[[str], str]


@dataclass(frozen=True)
class Told:
    """What a statement that starts nothing has to say: rows, or one text."""

    columns: list[Column]
    rows: list[Change]


@dataclass(frozen=True)
class Option:
    """A planner's setting, which holds from here on; ``apply`` sets it once more."""

    statement: Statement
    apply: Callable[[], None]


@dataclass(frozen=True)
class Jobs:
    """SHOW JOBS, which the cluster answers when it is asked."""


Ready = Query | Insert | Told | Option | Jobs


class Statements(Protocol):
    """What a session asks of ``ops.sql.engine.Engine``; its methods say more."""

    def read(self, text: str, file: Path) -> list[Statement]:
        """The statements of a text."""
        ...

    def audits(self) -> list[Statement]:
        """The audits of the SQL files."""
        ...

    def ready(self, statement: Statement) -> Ready:
        """Check a statement, and do it if it starts nothing."""
        ...

    def options(self) -> dict[str, str]:
        """The planner's settings of this session."""
        ...

    def restore(self, options: Mapping[str, str]) -> None:
        """Set the planner's settings back."""
        ...
