"""Results as text: aligned for people, tab-separated or JSON lines for programs. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size

from ops.sql.results import Change, Column, Row

_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_RIGHT = _NUMBERS | _FLOATS | {"DECIMAL"}
_GAP = "  "
# Narrower says nothing.
_NARROWEST = 4
_BREAKS = {ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}
_ESCAPES = {ord("\\"): "\\\\"} | _BREAKS
_CONTROLS = {n: f"\\x{n:02x}" for n in (*range(0x20), *range(0x7F, 0xA0))} | _BREAKS


def plain_header(columns: Sequence[Column], *, ops: bool) -> str:
    """The names of the columns, separated by tabs."""
    return "\t".join((*(["op"] if ops else []), *(column.name for column in columns)))


def plain_line(change: Change, *, ops: bool) -> str:
    """One row, separated by tabs. Tabs, line breaks and backslashes are escaped; null is NULL."""
    cells = ["NULL" if cell is None else cell.translate(_ESCAPES) for cell in change.row]
    return "\t".join((change.op, *cells) if ops else cells)


def json_line(change: Change, columns: Sequence[Column]) -> str:
    """One row as ``{"op": "+I", "row": {...}}``.

    Whole numbers, floats and booleans are JSON's; decimals and all else are text.
    """
    row = {
        column.name: _json_value(cell, column.type)
        for column, cell in zip(columns, change.row, strict=True)
    }
    return json.dumps({"op": change.op, "row": row}, ensure_ascii=False)


def _json_value(cell: str | None, sql_type: str) -> object:
    if cell is None:
        return None
    kind = _kind(sql_type)
    if kind in _NUMBERS:
        return int(cell)
    if kind in _FLOATS:
        # JSON has neither NaN nor infinity.
        return cell if cell[-1].isalpha() else float(cell)
    if kind == "BOOLEAN":
        return cell.upper() == "TRUE"
    return cell


def _kind(sql_type: str) -> str:
    """The type's name without its length and NOT NULL."""
    return re.split(r"\W", sql_type, maxsplit=1)[0]


def shown(cell: str | None) -> str:
    """A value on one line of a terminal, without what would move its cursor."""
    return "NULL" if cell is None else cell.translate(_CONTROLS)


class Layout:
    """Columns of fixed width, chosen by the first rows; later ones are cut to it.

    Args:
        columns: of the result.
        first: rows that are known already.
        width: of the terminal, in cells.
        ops: whether each line begins with the op.
    """

    def __init__(
        self, columns: Sequence[Column], first: Iterable[Row], width: int, *, ops: bool
    ) -> None:
        self._columns, self._ops = columns, ops
        wanted = [max(_NARROWEST, cell_len(column.name)) for column in columns]
        for row in first:
            for place, cell in enumerate(row):
                wanted[place] = max(wanted[place], cell_len(shown(cell)))
        room = width - (len(_GAP) + 2) * ops - len(_GAP) * (len(columns) - 1)
        self._widths = _fit(wanted, room)

    def header(self) -> list[str]:
        """The names, and a line below them."""
        names = [column.name for column in self._columns]
        return [self._line("op", names), self._line("--", ["-" * w for w in self._widths])]

    def line(self, change: Change) -> str:
        """One row."""
        return self._line(change.op, [shown(cell) for cell in change.row])

    def _line(self, op: str, cells: Sequence[str]) -> str:
        fitted = [
            _cell(cell, width, right=_kind(column.type) in _RIGHT)
            for cell, width, column in zip(cells, self._widths, self._columns, strict=True)
        ]
        return _GAP.join((op, *fitted) if self._ops else fitted).rstrip()


def _cell(text: str, width: int, *, right: bool) -> str:
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…"
    pad = " " * (width - length)
    return pad + text if right else text + pad


def _fit(wanted: list[int], room: int) -> list[int]:
    """Widths that fit: the widest columns give way first, none below the narrowest."""
    widths = list(wanted)
    while sum(widths) > room and max(widths) > _NARROWEST:
        widest = max(widths)
        next_widest = max((w for w in widths if w < widest), default=0)
        places = [n for n, w in enumerate(widths) if w == widest]
        excess = sum(widths) - room
        for n in places:
            share = -(-excess // len(places))
            widths[n] = max(_NARROWEST, next_widest, widest - share)
    return widths
