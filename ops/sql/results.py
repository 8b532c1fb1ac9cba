"""Rows of a result, and the table that a changelog makes of them. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

Row = tuple[str | None, ...]
"""A row's values as Flink prints them, bytes as text where they are UTF-8; None is null."""

NULL = "<NULL>"
"""How Flink prints null."""

_BYTES = re.compile(r"x'([0-9a-fA-F]*)'")
_BINARY = re.compile(r"\b(?:BYTES|VARBINARY|BINARY)\b")
_WITHDRAWN = frozenset({"-U", "-D"})


@dataclass(frozen=True)
class Column:
    """A column's name and its type as SQL writes it."""

    name: str
    type: str


@dataclass(frozen=True)
class Change:
    """One change of a result: ``op`` is +I, -U, +U or -D."""

    op: str
    row: Row


def readable(text: str, sql_type: str) -> str:
    """A printed value with its bytes as text, where they are text.

    Flink prints bytes as ``x'4f4b'``. What is no UTF-8 stays so, and so does what would move a
    terminal's cursor.
    """
    if not _BINARY.search(sql_type):
        return text

    def decoded(match: re.Match[str]) -> str:
        try:
            found = bytes.fromhex(match[1]).decode("utf-8")
        except ValueError:
            return match[0]
        return found if all(c.isprintable() or c in "\t\n\r" for c in found) else match[0]

    return _BYTES.sub(decoded, text)


class CurrentTable:
    """What rows there are after all changes so far; a row that is updated keeps its place.

    Rows need no key: an update withdraws the old row as a whole and brings the new one next.
    """

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}
        # Where each row stands; equal rows may stand at several places.
        self._places: dict[Row, list[int]] = defaultdict(list)
        self._next = 0
        self._vacant: int | None = None

    def apply(self, change: Change) -> None:
        """Take one change in. Withdrawing a row that is not there changes nothing."""
        vacant, self._vacant = self._vacant, None
        if vacant is not None and change.op != "+U":
            del self._rows[vacant]
            vacant = None
        if change.op in _WITHDRAWN:
            self._withdraw(change)
            return
        place = self._next if vacant is None else vacant
        self._next += vacant is None
        self._rows[place] = change.row
        self._places[change.row].append(place)

    def _withdraw(self, change: Change) -> None:
        places = self._places.get(change.row)
        if not places:
            return
        place = places.pop()
        if not places:
            del self._places[change.row]
        if change.op == "-U":
            self._vacant = place
        else:
            del self._rows[place]

    def __len__(self) -> int:
        return len(self._rows) - (self._vacant is not None)

    def __iter__(self) -> Iterator[Row]:
        return (row for place, row in self._rows.items() if place != self._vacant)
