"""SQL files: what is a statement, what a name stands for, and where an error is."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from jobs.sql.files import SqlError, is_open, literal, of_text, option_list, statements

_FILE = Path("sql/views/a.sql")
_NAMES = {"TOPIC": "orders", "OPTIONS": "'a' = 'b'"}


def _texts(text: str) -> list[str]:
    return [statement.text for statement in of_text(_FILE, text, _NAMES)]


def test_statements_end_with_semicolons() -> None:
    assert _texts("SELECT 1;\n\nSELECT 2;\n") == ["SELECT 1", "SELECT 2"]


def test_a_semicolon_in_quotes_or_comments_ends_nothing() -> None:
    text = "SELECT ';', 'it''s;', `a;b` -- not; here\n FROM t /* nor; \n here */ WHERE 1 = 1;"
    (only,) = _texts(text)
    assert "';', 'it''s;', `a;b`" in only
    assert "not" not in only
    assert "here" not in only


def test_two_dashes_in_quotes_are_no_comment() -> None:
    assert _texts("SELECT 'a--b';") == ["SELECT 'a--b'"]


def test_a_hint_is_no_comment() -> None:
    hint = "/*+ OPTIONS('scan.bounded.mode' = 'latest-offset') */"
    assert _texts(f"SELECT 1 /* not this */ FROM t {hint};") == [f"SELECT 1   FROM t {hint}"]


@pytest.mark.parametrize(
    "text", ["SELECT 1", "SELECT 1; SELECT", "SELECT ';'", "SELECT '", "/* ;", "SELECT `a;"]
)
def test_what_has_begun_and_not_ended_is_open(text: str) -> None:
    assert is_open(text)


@pytest.mark.parametrize(
    "text", ["", " \n", "SELECT 1;", "SELECT ';' ; -- done", "-- ; ' `", "/* ' */", "a; /* b */"]
)
def test_what_has_ended_is_not_open(text: str) -> None:
    assert not is_open(text)


def test_each_statement_knows_its_lines() -> None:
    text = "-- banner\n\nSELECT\n  1;\n/* more\n   comment */ SELECT\n 2;"
    first, second = of_text(_FILE, text, _NAMES)
    assert (first.lines, second.lines) == ((3, 4), (6, 7))


def test_a_name_is_replaced_also_within_quotes() -> None:
    assert _texts("SELECT '${TOPIC}' WITH (${OPTIONS});") == ["SELECT 'orders' WITH ('a' = 'b')"]


def test_a_name_in_a_comment_need_not_exist() -> None:
    assert _texts("-- ${WHATEVER}\nSELECT 1;") == ["SELECT 1"]


def test_what_is_put_in_may_have_lines_and_the_count_stays() -> None:
    (statement,) = of_text(_FILE, "SELECT\n'${PEM}',\nx;", {"PEM": "a\nb\nc"})
    assert statement.lines == (1, 2, 2, 2, 3)
    assert str(statement.error("what.", "remedy.", line=5)).startswith("sql/views/a.sql:3: ")
    assert str(statement.error("what.", "remedy.", line=99)).startswith("sql/views/a.sql:3: ")


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("SELECT 1;\nSELECT ${TOPICS};", 2, "no name ${TOPICS}. Did you mean ${TOPIC}?"),
        ("SELECT 1,\n  ${x};", 2, "no name ${x}. Known are TOPIC, OPTIONS."),
        ("SELECT 1;\n\nSELECT 2", 3, "does not end"),
        ("SELECT 1,\n 'a;\n", 2, "quote (') is not closed"),
        ("SELECT 1; /* a;\n", 1, "comment (/*) is not closed"),
        ("SELECT `a;\n", 1, "quote (`) is not closed"),
    ],
)
def test_an_error_says_where(text: str, line: int, says: str) -> None:
    with pytest.raises(SqlError) as caught:
        of_text(_FILE, text, _NAMES)
    assert str(caught.value).startswith(f"sql/views/a.sql:{line}: ")
    assert says in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301


def test_a_quote_in_a_value_is_no_way_out_of_the_text() -> None:
    assert literal("it's") == "'it''s'"
    assert option_list({"a": "x', 'b' = 'y"}) == "'a' = 'x'', ''b'' = ''y'"


def test_a_file_of_other_bytes_than_utf_8_is_told_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_bytes(b"-- one\r\n-- \xe9t\xe9\nSELECT 1;")
    with pytest.raises(SqlError, match=r"a\.sql:2: this is not UTF-8: byte 0xe9"):
        statements(tmp_path, {})


def test_a_byte_order_mark_is_no_part_of_a_statement(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_bytes(b"\xef\xbb\xbfSELECT 1;\r\nSELECT\r\n2;")
    assert [s.text for s in statements(tmp_path, {})] == ["SELECT 1", "SELECT\n2"]


def test_files_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name, text in (("20_b.sql", "B;"), ("10_a.sql", "A;"), ("notes.md", "not SQL")):
        (tmp_path / name).write_text(text)
    assert [s.text for s in statements(tmp_path, {})] == ["A", "B"]
