"""Completion: what could stand at the cursor."""

from __future__ import annotations

import pytest

from ops.sql.words import Vocabulary, suggestions

_KNOWN = Vocabulary(
    ("STREAM_TOPIC", "STREAM_OPTIONS", "DEAD_TOPIC"),
    {
        "misses": ["verdict", "join_key", "event"],
        "hit_rate": ["window_start", "hits", "misses"],
        "table_rows": ["join_key", "content"],
    },
)


def _texts(before: str, after: str = "") -> list[str]:
    return [found.text for found in suggestions(before, after, _KNOWN)]


@pytest.mark.parametrize(
    ("before", "offered"),
    [
        ("SELECT * FROM ", ["misses", "hit_rate", "table_rows"]),
        ("select *\nfrom mi", ["misses"]),
        ("SELECT * FROM misses m JOIN tab", ["table_rows"]),
        ("INSERT INTO h", ["hit_rate"]),
        ("DESCRIBE t", ["table_rows"]),
        ("SHOW CREATE VIEW h", ["hit_rate"]),
        ("\\", ["\\?", "\\jobs", "\\cancel", "\\audits", "\\q"]),
        ("\\j", ["\\jobs"]),
        ("SELECT '${STREAM", ["STREAM_TOPIC}", "STREAM_OPTIONS}"]),
        ("SELECT '${", ["STREAM_TOPIC}", "STREAM_OPTIONS}", "DEAD_TOPIC}"]),
        # Nothing was begun: no menu over what is being read.
        ("SELECT ", []),
    ],
)
def test_what_stands_before_decides(before: str, offered: list[str]) -> None:
    assert _texts(before) == offered


def test_columns_of_the_tables_in_the_statement_come_first() -> None:
    assert _texts("SELECT ver", " FROM misses")[0] == "verdict"
    assert _texts("SELECT j", " FROM misses")[:2] == ["join_key", "JOIN"]
    assert "verdict" not in _texts("SELECT ver", " FROM hit_rate")
    assert "content" in _texts("SELECT con", " FROM misses JOIN table_rows ON TRUE")


def test_behind_an_alias_come_its_tables_columns() -> None:
    after = " FROM misses AS m JOIN table_rows r ON TRUE"
    assert _texts("SELECT m.", after) == ["verdict", "join_key", "event"]
    assert _texts("SELECT R.c", after) == ["content"]
    assert _texts("SELECT x.", after) == []


def test_keywords_are_offered_and_a_whole_word_is_not() -> None:
    assert _texts("sel") == ["SELECT"]
    assert "SELECT" not in _texts("SELECT")


def test_a_brace_that_stands_there_is_not_put_twice() -> None:
    assert _texts("SELECT '${DEAD", "}'") == ["DEAD_TOPIC"]


def test_the_length_is_that_of_what_is_replaced() -> None:
    (found,) = suggestions("SELECT m.ver", " FROM misses m", _KNOWN)
    assert (found.text, found.length) == ("verdict", 3)
