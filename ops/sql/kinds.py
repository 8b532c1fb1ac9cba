"""What a statement asks of the shell, told by its words. Pure text; Flink's parser judges the rest.

The texts are those of ``jobs.sql.files.Statement``: without comments, without a semicolon.
"""

from __future__ import annotations

import re
from enum import Enum

from jobs.sql.files import Statement


class Kind(Enum):
    """What is to be done with a statement."""

    QUERY = "SELECT"
    """Runs as a job of its own, which ends with the query."""
    INSERT = "INSERT INTO"
    """Runs as a job that goes on without the session."""
    DEFINE = "CREATE TEMPORARY TABLE or VIEW, DROP TEMPORARY TABLE or VIEW"
    SET = "SET"
    SHOW = "SHOW, DESCRIBE"
    JOBS = "SHOW JOBS"
    EXPLAIN = "EXPLAIN"


_BEGIN = {
    Kind.QUERY: r"SELECT\b|WITH\b|VALUES\b|\(",
    Kind.INSERT: r"INSERT\s+INTO\b",
    # Not without TEMPORARY: CREATE TABLE ... AS SELECT would start a job.
    Kind.DEFINE: r"(CREATE|DROP)\s+TEMPORARY\s+(TABLE|VIEW)\b",
    Kind.SET: r"SET\b",
    Kind.JOBS: r"SHOW\s+JOBS\s*$",
    Kind.SHOW: r"(SHOW|DESCRIBE|DESC)\b",
    Kind.EXPLAIN: r"EXPLAIN\b",
}
_QUOTED = re.compile(r"'(?:[^']|'')*'|`[^`]*`")
_HINT = re.compile(r"/\*\+.*?\*/", re.DOTALL)
_INNERMOST = re.compile(r"\([^()]*\)")
_ORDER = re.compile(r"\bORDER\s+BY\b", re.IGNORECASE)
_LIMIT = re.compile(
    r"\bLIMIT\s+(\d+)(?:\s+OFFSET\s+\d+(?:\s+ROWS?)?)?\s*$"
    r"|\bFETCH\s+(?:FIRST|NEXT)\s+(\d+)\s+ROWS?\s+ONLY\s*$",
    re.IGNORECASE,
)


def kind_of(statement: Statement) -> Kind:
    """What is to be done. Raises SqlError for what the shell does not take."""
    for kind, begin in _BEGIN.items():
        if re.match(begin, statement.text, re.IGNORECASE):
            return kind
    begins = " ".join(statement.text.split()[:2])
    remedy = f"It takes {'; '.join(kind.value for kind in Kind)}."
    if re.match(r"(CREATE|DROP)\s+(TABLE|VIEW)\b", statement.text, re.IGNORECASE):
        remedy = "Put TEMPORARY before TABLE or VIEW: what a session makes ends with it."
    raise statement.error(f"the shell takes no {begins}.", remedy)


def ends_after(query: str) -> int | None:
    """With how many rows a query is over, None when it goes on.

    On a stream Flink lets a query with a LIMIT run on. With ORDER BY it has to: the first rows of
    an order are known only when all have been seen.
    """
    text = _outermost(query)
    found = _LIMIT.search(text)
    if found is None or _ORDER.search(text):
        return None
    return int(found[1] or found[2])


def _outermost(query: str) -> str:
    """The text without what stands in quotes and parentheses."""
    text = _unwrapped(_HINT.sub(" ", _QUOTED.sub("?", query)))
    while (shorter := _INNERMOST.sub("?", text)) != text:
        text = shorter
    return text


def _unwrapped(text: str) -> str:
    """The query itself, if parentheses stand around all of it."""
    text = text.strip()
    depth = 0
    for place, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            around = text.startswith("(") and place == len(text) - 1
            return _unwrapped(text[1:-1]) if around else text
    return text


def title(template: str, longest: int = 60) -> str:
    """A statement as the name of its job: one line, from the text as it was typed."""
    line = " ".join(template.split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."
