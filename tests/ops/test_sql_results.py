"""Rows as texts, and the table that changes make of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ops.sql.render import Layout, json_line, plain_header, plain_line
from ops.sql.results import Change, Column, CurrentTable, Row, readable

_COLUMNS = [Column("name", "STRING"), Column("n", "BIGINT NOT NULL")]


def _applied(*changes: tuple[str, Row]) -> CurrentTable:
    table = CurrentTable()
    for op, row in changes:
        table.apply(Change(op, row))
    return table


# --------------------------------------------------------------------------------- bytes


@pytest.mark.parametrize(
    ("text", "sql_type", "shown"),
    [
        ("x'4f4b'", "BYTES", "OK"),
        ("x'c3a4'", "VARBINARY(10)", "ä"),
        ("{a=x'4f4b', b=x'ff'}", "MAP<STRING, BYTES>", "{a=OK, b=x'ff'}"),
        ("x''", "BYTES NOT NULL", ""),
        # No text: what is not UTF-8, and what would reach the terminal as an order.
        ("x'ff00'", "BYTES", "x'ff00'"),
        ("x'1b5b326a'", "BYTES", "x'1b5b326a'"),
        # Text that only looks like bytes.
        ("x'4f4b'", "STRING", "x'4f4b'"),
    ],
)
def test_bytes_are_text_where_they_are_utf_8(text: str, sql_type: str, shown: str) -> None:
    assert readable(text, sql_type) == shown


# --------------------------------------------------------------------------------- changelogs


def test_an_updated_row_keeps_its_place() -> None:
    table = _applied(("+I", ("a", "1")), ("+I", ("b", "1")), ("-U", ("a", "1")), ("+U", ("a", "2")))
    assert list(table) == [("a", "2"), ("b", "1")]


def test_a_row_that_was_withdrawn_and_not_replaced_is_gone() -> None:
    withdrawn = _applied(("+I", ("a",)), ("+I", ("b",)), ("-U", ("a",)))
    assert (list(withdrawn), len(withdrawn)) == ([("b",)], 1)
    withdrawn.apply(Change("+I", ("c",)))
    assert list(withdrawn) == [("b",), ("c",)]


def test_of_equal_rows_one_is_withdrawn() -> None:
    assert list(_applied(("+I", ("a",)), ("+I", ("a",)), ("-D", ("a",)))) == [("a",)]


def test_withdrawing_what_is_not_there_changes_nothing() -> None:
    assert list(_applied(("-D", ("a",)), ("-U", ("b",)), ("+U", ("c",)))) == [("c",)]


@given(st.lists(st.tuples(st.sampled_from(["+I", "+U", "-U", "-D"]), st.sampled_from("ab"))))
def test_the_table_holds_what_came_and_was_not_withdrawn(changes: list[tuple[str, str]]) -> None:
    table, expected = CurrentTable(), dict.fromkeys("ab", 0)
    for op, name in changes:
        table.apply(Change(op, (name,)))
        expected[name] = max(0, expected[name] + (1 if op[0] == "+" else -1))
    found = [row[0] for row in table]
    assert {name: found.count(name) for name in "ab"} == expected
    assert len(table) == len(found)


# --------------------------------------------------------------------------------- for programs


def test_a_plain_line_is_one_line_whatever_the_values_hold() -> None:
    assert plain_header(_COLUMNS, ops=False) == "name\tn"
    assert plain_header(_COLUMNS, ops=True) == "op\tname\tn"
    assert plain_line(Change("+I", ("a\tb\nc\\d", None)), ops=False) == "a\\tb\\nc\\\\d\tNULL"
    assert plain_line(Change("-U", ("a", "1")), ops=True) == "-U\ta\t1"


@pytest.mark.parametrize(
    ("text", "sql_type", "value"),
    [
        ("12", "BIGINT NOT NULL", 12),
        ("-1", "TINYINT", -1),
        ("1.5", "DOUBLE", 1.5),
        ("NaN", "DOUBLE", "NaN"),
        ("Infinity", "FLOAT", "Infinity"),
        ("TRUE", "BOOLEAN", True),
        # Text, so that no digit is lost.
        ("1.10", "DECIMAL(10, 2)", "1.10"),
        ("12", "STRING", "12"),
        ("+0 00:00:01.000", "INTERVAL SECOND(3)", "+0 00:00:01.000"),
        (None, "BIGINT", None),
    ],
)
def test_json_has_numbers_where_sql_has(text: str | None, sql_type: str, value: object) -> None:
    found = json.loads(json_line(Change("+U", (text,)), [Column("c", sql_type)]))
    assert found == {"op": "+U", "row": {"c": value}}


# --------------------------------------------------------------------------------- for people


def test_columns_are_as_wide_as_the_first_rows_and_numbers_stand_right() -> None:
    layout = Layout(_COLUMNS, [("mug", "7"), ("saucer", "12345")], 80, ops=False)
    lines = [*layout.header(), layout.line(Change("+I", ("mug", "7")))]
    assert lines == ["name        n", "------  -----", "mug         7"]


def test_what_is_wider_is_cut_and_does_not_move_the_cursor() -> None:
    layout = Layout(_COLUMNS, [("mug", "7")], 80, ops=True)
    line = layout.line(Change("-D", ("a\x1b[2J\nlong", None)))
    assert line == "-D  a\\x…  NULL"


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=8),
    st.integers(20, 200),
    st.booleans(),
)
def test_a_line_fits_the_terminal_unless_its_columns_are_too_many(
    lengths: list[int], width: int, ops: bool
) -> None:
    columns = [Column(f"c{n}", "STRING") for n in range(len(lengths))]
    row = tuple("x" * length for length in lengths)
    layout = Layout(columns, [row], width, ops=ops)
    narrowest = len(lengths) * 6 + 4 * ops
    assert cell_len(layout.line(Change("+I", row))) <= max(width, narrowest)
    if sum(max(4, length) + 2 for length in lengths) + 4 <= width:
        assert all(cell in layout.line(Change("+I", row)) for cell in row)
