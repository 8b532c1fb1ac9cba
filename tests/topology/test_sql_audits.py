"""Audits are planned before any of them runs, and told by file and line when they cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.sql import audits
from jobs.sql.files import SqlError
from tests.support.sql_files import sql_folder
from tests.topology.test_sql_graph import _settings

pytestmark = pytest.mark.jvm


@pytest.mark.parametrize(
    ("file", "text", "line", "says"),
    [
        (
            "audits/90_x.sql",
            "SELECT 1 AS source,\nnothing AS problem FROM stream_log;",
            2,
            "nothing",
        ),
        ("audits/90_x.sql", "-- x\nSELECT p, o FROM stream_log;", 2, "columns source, problem"),
        ("audits/90_x.sql", "INSERT INTO dead_log SELECT 1;", 1, "begins with SELECT"),
        ("audits/90_x.sql", "SELECT '${STREAM_OPTIONS}';", 1, "there is no name"),
        # What a job decides while it runs is not there.
        ("audits/90_x.sql", "SELECT 1 FROM decided_events;", 1, "decided_events"),
        (
            "logs/90_x.sql",
            "CREATE TEMPORARY VIEW x AS\nSELECT no_such FROM table_log;",
            2,
            "no_such",
        ),
        ("logs/90_x.sql", "SELECT 1;", 1, "begins with CREATE TEMPORARY"),
        ("settings/90_x.sql", "SET 'table.exec.state.ttl' = '1 h';", 1, "keep its promise"),
    ],
)
def test_an_audit_that_cannot_be_taken_is_told_by_file_and_line(
    tmp_path: Path, file: str, text: str, line: int, says: str
) -> None:
    root = sql_folder(tmp_path / "sql", {file: text})
    with pytest.raises(SqlError) as caught:
        audits.audit(_settings(), root, "audit")
    told = str(caught.value)
    assert told.startswith(f"{root / file}:{line}: "), told
    assert says in told
    assert "s3cret" not in told
