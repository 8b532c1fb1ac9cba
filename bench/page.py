"""Markdown that the benches' pages share."""

from __future__ import annotations

from collections.abc import Iterable

from bench.versus.model import Spread


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of texts, one line for each row."""
    names = list(head)
    return "\n".join([_row(names), "|" + "---|" * len(names), *map(_row, rows)])


def cell(spread: Spread | None) -> str:
    """A median, with least and most in brackets where they differ; empty for none."""
    if spread is None:
        return ""
    if spread.least == spread.most:
        return _number(spread.median)
    return f"{_number(spread.median)} ({_number(spread.least)} - {_number(spread.most)})"


def _number(value: float) -> str:
    small = 100
    return f"{value:,.0f}" if abs(value) >= small or value == int(value) else f"{value:.1f}"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
