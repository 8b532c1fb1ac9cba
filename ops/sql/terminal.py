"""Results for people: as columns, as a table that is refreshed in place, or in a pager."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.status import Status
from rich.text import Text

from ops.sql.render import Layout
from ops.sql.results import Change, Column, CurrentTable
from ops.sql.running import Clock, End, Running
from ops.sql.screen import Followed, Mode, Shape, lone_text

# How long the first rows are gathered before they choose the widths, in seconds.
_GATHER_S = 0.3
_GATHERED = 200
# What a pager is given at most.
_KEPT = 10_000
_LOOK_EVERY_S = 1.0
_DRAW_EVERY_S = 0.25


class Terminal:
    """Columns for people. What ends by itself and is longer than the screen goes to a pager."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def query(self, running: Running, query: Shape, mode: Mode, clock: Clock) -> End:
        """Show rows line by line, or a result that changes as the table that it is now."""
        followed = Followed(running, query, clock)
        batches = iter(followed)
        with self._console.status("submitting; Ctrl-C ends it") as status:
            columns = running.columns
            first = self._gather(batches, running, status)
        ops = not query.insert_only
        shown: LiveTable | Lines = (
            LiveTable(self._console, columns)
            if ops and mode is not Mode.CHANGES
            else Lines(self._console, columns, first, ops=ops)
        )
        with shown:
            for batch in chain([first], batches):
                shown.add(batch)
        if followed.end in {End.FINISHED, End.LIMIT}:
            # Nobody knows how long a person reads.
            running.stop()
            self._page(shown.whole())
        return followed.end

    def rows(self, columns: Sequence[Column], rows: Sequence[Change]) -> None:
        """Show them, in a pager if they are many."""
        text = lone_text(columns, rows)
        lines = text.split("\n") if text else _laid_out(columns, rows, self._console.width)
        if not self._page(lines):
            for line in lines:
                self._print(line)

    def note(self, text: str) -> None:
        """Say it, dimmed."""
        self._console.print(Text(text, style="dim"))

    def error(self, text: str) -> None:
        """Say it in red."""
        self._console.print(Text(text, style="red"))

    def _print(self, line: str) -> None:
        self._console.print(Text(line), no_wrap=True, overflow="ignore", crop=False)

    def _gather(
        self, batches: Iterator[list[Change]], running: Running, status: Status
    ) -> list[Change]:
        """The rows that choose the widths; until they come, what the job is waiting for."""
        first: list[Change] = []
        looked = begun = 0.0
        for batch in batches:
            now = time.monotonic()
            if batch and not first:
                begun = now
            first += batch
            if first and (len(first) >= _GATHERED or now - begun >= _GATHER_S):
                break
            if not first and now - looked >= _LOOK_EVERY_S:
                looked = now
                stage = running.stage().value
                status.update(f"job {running.job_id}: {stage}; Ctrl-C ends it")
        return first

    def _page(self, lines: Sequence[str]) -> bool:
        """Show them in a pager if they are more than the screen has; whether that was done."""
        if not self._console.is_terminal or len(lines) < self._console.height:
            return False
        with self._console.pager():
            for line in lines:
                self._print(line)
        return True


def _laid_out(columns: Sequence[Column], rows: Sequence[Change], width: int) -> list[str]:
    layout = Layout(columns, (change.row for change in rows), width, ops=False)
    return [*layout.header(), *map(layout.line, rows)]


class Lines:
    """Rows that are written once, below each other."""

    def __init__(
        self, console: Console, columns: Sequence[Column], first: list[Change], *, ops: bool
    ) -> None:
        self._console = console
        self._layout = Layout(columns, (c.row for c in first), console.width, ops=ops)
        self._kept: deque[str] = deque(maxlen=_KEPT)
        for line in self._layout.header():
            self._write(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def add(self, batch: Iterable[Change]) -> None:
        """Write more rows."""
        for change in batch:
            self._write(self._layout.line(change))

    def whole(self) -> list[str]:
        """What was written, the last lines of it."""
        return list(self._kept)

    def _write(self, line: str) -> None:
        self._kept.append(line)
        self._console.print(Text(line), no_wrap=True, overflow="ignore", crop=False)


class LiveTable:
    """A result that changes, as the table that it is now, refreshed in place."""

    def __init__(self, console: Console, columns: Sequence[Column]) -> None:
        self._console, self._columns = console, columns
        self._table = CurrentTable()
        # Drawn by us alone: the table must not change while a thread of rich's draws it.
        self._live = Live(console=console, auto_refresh=False)
        self._drawn = 0.0
        self._stale = False

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._draw()
        self._live.stop()

    def add(self, batch: Iterable[Change]) -> None:
        """Take changes in, and draw the table a few times a second."""
        for change in batch:
            self._table.apply(change)
            self._stale = True
        if self._stale and time.monotonic() - self._drawn >= _DRAW_EVERY_S:
            self._draw()

    def whole(self) -> list[str]:
        """All rows that there are now."""
        rows = [Change("+I", row) for row in self._table]
        return _laid_out(self._columns, rows, self._console.width)

    def _draw(self) -> None:
        # The header's two lines, one for the count, one for the cursor.
        room = max(1, self._console.height - 4)
        rows = [Change("+I", row) for row in islice(self._table, room)]
        lines = _laid_out(self._columns, rows, self._console.width)
        more = len(self._table) - len(rows)
        ending = "" if len(self._table) == 1 else "s"
        count = f"{len(self._table):,} row{ending}" + (
            f", {more:,} of them not shown" if more else ""
        )
        self._live.update(Text("\n".join((*lines, count)), no_wrap=True), refresh=True)
        self._drawn, self._stale = time.monotonic(), False
