"""Letters and their counts for people and for programs, and how far a scan is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from ops.retry.filters import REMEDIES
from ops.retry.letters import Letter, readable
from ops.retry.summary import Tally
from ops.status.screen import moment

_KEY = 40
_ERROR = 200
# Wide enough for most; what is wider moves the rest of its line.
_VERDICT, _TIME, _ATTEMPTS, _SOURCE = 11, 23, 8, 20

HEADINGS = ("verdict", "first seen", "attempts", "source", "key", "error")


def heading(topic: str) -> str:
    """What stands above the lines of letters of ``topic``."""
    return _columns(_width(topic), "where", *HEADINGS)


def line(letter: Letter) -> str:
    """One letter on one line."""
    return _columns(
        _width(letter.place.topic),
        str(letter.place),
        letter.verdict,
        moment(letter.first_seen_ms) or "?",
        "?" if letter.attempts is None else str(letter.attempts),
        "?" if letter.source is None else str(letter.source),
        readable(letter.key, _KEY),
        ("(replayed) " if letter.replayed else "") + readable(letter.error, _ERROR),
    )


def dead_letters(count: int) -> str:
    """So many of them, in words."""
    return f"{count:,} dead letter{'' if count == 1 else 's'}"


def _width(topic: str) -> int:
    # Two digits of partitions, and offsets below a million.
    return len(topic) + 11


def _columns(width: int, *texts: str) -> str:
    widths = (width, _VERDICT, _TIME, _ATTEMPTS, _SOURCE, 12, 0)
    return "  ".join(t.ljust(w) for t, w in zip(texts, widths, strict=True)).rstrip()


def counts(tally: Tally, *, replayed: bool) -> Table:
    """How many letters of which verdict and source topic; ``replayed``: how many are through."""
    table = Table(box=None, pad_edge=False)
    table.add_column("verdict")
    table.add_column("source topic")
    table.add_column("letters", justify="right")
    if replayed:
        table.add_column("replayed", justify="right")
    for kind, found, sent in tally.rows():
        last = (f"{sent:,}",) if replayed else ()
        table.add_row(kind.verdict, Text(kind.source_topic), f"{found:,}", *last)
    return table


def skipped(tally: Tally) -> Iterator[str]:
    """A line for each reason to leave letters where they are."""
    for fate, count in tally.skipped.items():
        example = tally.examples[fate]
        source = f" ({example.source})" if example.source else ""
        yield f"skipped {count:,}: {fate}, e.g. {example.place}{source}; {REMEDIES[fate]}."


def as_json(letter: Letter) -> dict[str, Any]:
    """A letter for programs. Bytes that are no UTF-8 are written with backslashes."""
    return {
        "at": str(letter.place),
        "verdict": letter.verdict,
        "source": None if letter.source is None else str(letter.source),
        "first_seen_ms": letter.first_seen_ms,
        "attempts": letter.attempts,
        "error": letter.error,
        "key": None if letter.key is None else letter.key.decode(errors="backslashreplace"),
        "replayed_from": letter.replayed_from or None,
        "replayed": letter.replayed,
    }


def write_json(
    out: TextIO, topic: str, letters: Iterable[Letter], tally: Tally, notes: Iterable[str]
) -> None:
    """One object for programs: letters as they come, then the counts that these have made."""
    out.write(f'{{"topic": {json.dumps(topic)}, "letters": [')
    separator = "\n"
    for letter in letters:
        out.write(separator + json.dumps(as_json(letter)))
        separator = ",\n"
    kinds = [
        {"verdict": k.verdict, "source_topic": k.source_topic, "letters": n, "replayed": sent}
        for k, n, sent in tally.rows()
    ]
    rest = {"found": tally.total, "counts": kinds, "notes": list(notes)}
    out.write(f"\n], {json.dumps(rest)[1:]}\n")


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s")


@contextmanager
def progress(what: str, offsets: int, *, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, if that is a terminal, over so many ``offsets``; yields what moves it."""
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=offsets)
        yield lambda advanced: bar.advance(task, advanced)
