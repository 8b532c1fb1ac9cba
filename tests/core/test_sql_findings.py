"""Audits by name, and what they found from one process to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.sql.files import SqlError, of_text
from jobs.sql.findings import Finding, chosen, findings, intent_of, name_of, require_columns
from ops.paths import SQL
from udfs.core.errors import ConfigError


def test_an_audit_is_called_as_its_file_without_the_number() -> None:
    assert name_of(Path("sql/audits/10_wrong_nulls.sql")) == "wrong_nulls"
    assert name_of(Path("sql/audits/mine.sql")) == "mine"


def test_what_an_audit_is_for_stands_in_its_banner() -> None:
    assert intent_of("-- ====\n-- Never this:\n-- or that.\n-- ====\n\nSELECT 1;") == (
        "Never this: or that."
    )
    assert intent_of("-- a comment\nSELECT 1;") == ""
    assert intent_of("") == ""


def test_every_audit_of_ours_says_what_it_is_for() -> None:
    ours = sorted((SQL / "audits").glob("*.sql"))
    assert ours
    assert all(intent_of(file.read_text()) for file in ours)


def test_findings_are_told_from_all_else_that_a_client_prints() -> None:
    told = [
        Finding("a", "Never.", 2, (("t[0]@1", "x\ny"), ("t[0]@2", ""))),
        Finding("b", "", 0),
    ]
    printed = "\n".join(["Job has been submitted", *(one.line() for one in told), "done"])
    assert findings(printed) == told


def test_audits_are_chosen_by_name() -> None:
    found = of_text(Path("10_a.sql"), "SELECT 1;", {}) + of_text(Path("20_b.sql"), "SELECT 2;", {})
    assert list(chosen(found, [])) == ["a", "b"]
    assert list(chosen(found, ["b"])) == ["b"]
    with pytest.raises(ConfigError, match="give one of a, b"):
        chosen(found, ["c"])


def test_two_audits_in_a_file_are_refused_by_line() -> None:
    with pytest.raises(SqlError, match=r"10_a.sql:2: there is an audit a already") as caught:
        chosen(of_text(Path("10_a.sql"), "SELECT 1;\nSELECT 2;", {}), [])
    assert caught.value.line == 2


@pytest.mark.parametrize("columns", [["a"], ["problem", "source"], ["source", "problem", "n"], []])
def test_an_audit_of_other_columns_is_refused_by_line(columns: list[str]) -> None:
    (statement,) = of_text(Path("10_a.sql"), "\nSELECT 1 AS a;", {})
    require_columns(statement, ["source", "problem"])
    with pytest.raises(SqlError, match=r"10_a.sql:2: an audit gives the columns source, problem"):
        require_columns(statement, columns)
