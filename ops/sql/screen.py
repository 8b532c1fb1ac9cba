"""Results as they come, and for programs as lines; ``ops.sql.terminal`` shows them to people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import chain
from typing import Protocol, TextIO

from ops.sql.render import json_line, plain_header, plain_line
from ops.sql.results import Change, Column, CurrentTable
from ops.sql.running import Clock, End, Running


class Mode(StrEnum):
    """How a result that changes is shown."""

    AUTO = "auto"
    """As a table on a terminal, else as changes."""
    CHANGES = "changelog"
    TABLE = "table"


class Shape(Protocol):
    """What of ``ops.sql.engine.Query`` decides how it is shown and when it is over."""

    @property
    def insert_only(self) -> bool:
        """Whether its result only grows."""
        ...

    @property
    def ends_after(self) -> int | None:
        """With how many rows it is over."""
        ...


class Screen(Protocol):
    """Where a session shows what it has to say."""

    def query(self, running: Running, query: Shape, mode: Mode, clock: Clock) -> End:
        """Show a query's rows until it is over, and say why it is. Ctrl-C passes through."""
        ...

    def rows(self, columns: Sequence[Column], rows: Sequence[Change]) -> None:
        """Show rows that are all there."""
        ...

    def note(self, text: str) -> None:
        """Say something that is no result."""
        ...

    def error(self, text: str) -> None:
        """Say what went wrong."""
        ...


class Followed:
    """A query's rows batch by batch, an empty one where none came for a moment.

    ``end`` says afterwards why there are no more. The job may still run then; who made ``running``
    stops it.
    """

    def __init__(self, running: Running, query: Shape, clock: Clock) -> None:
        self.end = End.FINISHED
        self._batches = running.batches()
        self._query, self._clock = query, clock
        self._current, self._count = CurrentTable(), 0

    def __iter__(self) -> Iterator[list[Change]]:
        for batch in self._batches:
            enough = self._enough(batch)
            if enough is not None:
                self.end = End.LIMIT
                yield batch[:enough]
                return
            yield batch
            if self._clock.over():
                self.end = End.TIME
                return

    def _enough(self, batch: Sequence[Change]) -> int | None:
        """How many rows of the batch complete what was asked for; None: not even all of them."""
        wanted = self._query.ends_after
        if wanted is None:
            return None
        for place, change in enumerate(batch, start=1):
            if self._query.insert_only:
                self._count += 1
            else:
                self._current.apply(change)
                self._count = len(self._current)
            if self._count >= wanted:
                return place
        return None


class Plain:
    """Lines for programs: tab-separated with a header, or JSON. Notes go to ``err``."""

    def __init__(self, out: TextIO, err: TextIO, *, as_json: bool) -> None:
        self._out, self._err, self._json = out, err, as_json

    def query(self, running: Running, query: Shape, mode: Mode, clock: Clock) -> End:
        """Write rows as they come; in table mode what there is at the end."""
        ops = not query.insert_only
        columns, followed = running.columns, Followed(running, query, clock)
        if mode is Mode.TABLE and ops:
            table = CurrentTable()
            for change in chain.from_iterable(followed):
                table.apply(change)
            self.rows(columns, [Change("+I", row) for row in table])
        else:
            self._header(columns, ops=ops)
            for batch in followed:
                self._lines(columns, batch, ops=ops)
        return followed.end

    def rows(self, columns: Sequence[Column], rows: Sequence[Change]) -> None:
        """Write them; a text of several lines that stands alone as it is."""
        if not self._json and (text := lone_text(columns, rows)):
            self._out.write(text + "\n")
            self._out.flush()
            return
        self._header(columns, ops=False)
        self._lines(columns, rows, ops=False)

    def note(self, text: str) -> None:
        """Write it to ``err``."""
        self._err.write(f"{text}\n")
        self._err.flush()

    def error(self, text: str) -> None:
        """Write it to ``err``."""
        self.note(text)

    def _header(self, columns: Sequence[Column], *, ops: bool) -> None:
        if not self._json:
            self._out.write(plain_header(columns, ops=ops) + "\n")
            self._out.flush()

    def _lines(self, columns: Sequence[Column], rows: Iterable[Change], *, ops: bool) -> None:
        for change in rows:
            line = json_line(change, columns) if self._json else plain_line(change, ops=ops)
            self._out.write(line + "\n")
        self._out.flush()


def lone_text(columns: Sequence[Column], rows: Sequence[Change]) -> str | None:
    """A plan or a DDL: what is one value of several lines, and no table."""
    if len(columns) != 1 or len(rows) != 1:
        return None
    text = rows[0].row[0] or ""
    return text.rstrip() if "\n" in text else None
