"""What a statement asks of the shell, and when a query is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.sql.files import SqlError, Statement
from ops.sql.kinds import Kind, ends_after, kind_of, title


def _statement(text: str) -> Statement:
    return Statement(Path("a.sql"), text, (3,))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("select * from t", Kind.QUERY),
        ("WITH a AS (SELECT 1) SELECT * FROM a", Kind.QUERY),
        ("VALUES (1)", Kind.QUERY),
        ("(SELECT 1) UNION ALL (SELECT 2)", Kind.QUERY),
        ("INSERT\n INTO t SELECT 1", Kind.INSERT),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", Kind.DEFINE),
        ("create temporary\n table t (a INT) WITH ('connector' = 'blackhole')", Kind.DEFINE),
        ("DROP TEMPORARY VIEW IF EXISTS v", Kind.DEFINE),
        ("SET", Kind.SET),
        ("SET 'a' = 'b'", Kind.SET),
        ("SHOW TABLES", Kind.SHOW),
        ("SHOW CREATE TABLE t", Kind.SHOW),
        ("DESC t", Kind.SHOW),
        ("SHOW JOBS", Kind.JOBS),
        ("EXPLAIN SELECT 1", Kind.EXPLAIN),
    ],
)
def test_the_first_words_tell_the_kind(text: str, kind: Kind) -> None:
    assert kind_of(_statement(text)) is kind


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("STOP JOB 'x'", "takes no STOP JOB"),
        ("INSERT OVERWRITE t SELECT 1", "takes no INSERT OVERWRITE"),
        # Flink would start a job.
        ("CREATE TABLE t AS SELECT 1", "Put TEMPORARY before"),
        ("DROP VIEW v", "Put TEMPORARY before"),
        ("SELECTED", "takes no SELECTED"),
        ("CREATE CATALOG c WITH ('type' = 'jdbc')", "takes no CREATE CATALOG"),
    ],
)
def test_what_the_shell_does_not_take_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(SqlError, match=r"a\.sql:3: ") as caught:
        kind_of(_statement(text))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT * FROM t LIMIT 5", 5),
        ("SELECT * FROM t limit 5 offset 2 rows", 5),
        ("SELECT * FROM t FETCH FIRST 3 ROWS ONLY", 3),
        ("SELECT a, ROW_NUMBER() OVER (ORDER BY a) FROM t LIMIT 2", 2),
        ("SELECT * FROM (SELECT * FROM t ORDER BY a LIMIT 9) LIMIT 2", 2),
        ("SELECT * FROM t", None),
        ("SELECT * FROM (SELECT * FROM t LIMIT 5)", None),
        ("SELECT ' LIMIT 5' FROM t", None),
        ("SELECT * FROM t WHERE a = ' LIMIT 5'", None),
        # Which rows are the first is known at the end alone, and a stream has none.
        ("SELECT * FROM t ORDER BY a LIMIT 5", None),
        ("SELECT limit5 FROM t", None),
        ("(SELECT a FROM t LIMIT 3)", 3),
        (" ( (SELECT a FROM (SELECT 1) LIMIT 3) )", 3),
        ("(SELECT a FROM t) LIMIT 3", 3),
        ("(SELECT a FROM t LIMIT 3) UNION ALL (SELECT a FROM t LIMIT 3)", None),
        ("(SELECT a FROM t ORDER BY a LIMIT 3)", None),
        ("SELECT a FROM t LIMIT 3 /*+ OPTIONS('a' = 'b') */", 3),
        ("SELECT a FROM t /*+ OPTIONS('a' = ') LIMIT 3') */", None),
    ],
)
def test_a_query_ends_with_the_rows_that_its_own_limit_names(text: str, rows: int | None) -> None:
    assert ends_after(text) == rows


def test_a_job_is_named_by_the_begin_of_its_statement() -> None:
    assert title("SELECT *\n  FROM t") == "SELECT * FROM t"
    assert title("SELECT " + "a" * 100) == "SELECT " + "a" * 50 + "..."
