"""Markdown that the benches' pages share."""

from __future__ import annotations

from collections.abc import Iterable


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of texts, one line for each row."""
    names = list(head)
    return "\n".join([_row(names), "|" + "---|" * len(names), *map(_row, rows)])


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
