"""What can be typed next, for the prompt's completion. Pure.

The last word decides, and the one before it: behind FROM, JOIN, INTO or DESCRIBE come tables,
within ``${`` come names, behind a backslash the shell's own commands; elsewhere the columns of the
tables that the statement names, all tables, keywords and functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

COMMANDS = {
    "\\?": "help",
    "\\jobs": "jobs of the cluster",
    "\\cancel": "cancel a job of a shell by its id",
    "\\audits": "run the queries of sql/audits one after another",
    "\\q": "leave",
}
_KEYWORDS = (
    "SELECT FROM WHERE GROUP BY ORDER BY HAVING LIMIT DISTINCT AS AND OR NOT NULL IS IN LIKE "
    "BETWEEN CASE WHEN THEN ELSE END CAST COUNT SUM MIN MAX AVG COALESCE FILTER OVER PARTITION "
    "UNION ALL JOIN LEFT INNER ON FOR SYSTEM_TIME OF WITH VALUES INTERVAL TUMBLE HOP TABLE "
    "DESCRIPTOR DECODE ENCODE JSON_VALUE JSON_QUERY JSON_EXISTS TO_TIMESTAMP_LTZ "
    "CURRENT_TIMESTAMP INSERT INTO CREATE DROP TEMPORARY VIEW SHOW TABLES VIEWS JOBS FUNCTIONS "
    "DESCRIBE EXPLAIN PLAN SET"
)
_WORD = re.compile(r"[\w.]*$")
_NAME = re.compile(r"\$\{(\w*)$")
_TABLE_NEXT = re.compile(r"\b(?:FROM|JOIN|INTO|DESCRIBE|DESC|TABLE|VIEW)\s+[\w.]*$", re.IGNORECASE)
# What stands behind a table and is no alias of it.
_GOES_ON = r"(?!(?:JOIN|LEFT|RIGHT|FULL|INNER|CROSS|ON|FOR|WHERE|GROUP|HAVING|ORDER|LIMIT|UNION)\b)"
_TABLES = re.compile(
    rf"\b(?:FROM|JOIN|INTO)\s+(\w+)(?:\s+(?:AS\s+)?{_GOES_ON}(\w+))?", re.IGNORECASE
)


@dataclass(frozen=True)
class Vocabulary:
    """What there is: names of ``${...}``, and tables and views with their columns."""

    names: Sequence[str] = ()
    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Suggestion:
    """A text for what stands ``length`` characters before the cursor, and what it is."""

    text: str
    length: int
    what: str


def suggestions(before: str, after: str, known: Vocabulary) -> list[Suggestion]:
    """What could stand at the cursor, between ``before`` and ``after``; best first, each once."""
    line = before.rpartition("\n")[2]
    if before.lstrip().startswith("\\"):
        return _beginning(before.lstrip(), COMMANDS.items())
    if name := _NAME.search(line):
        # The brace stands there already when somebody goes back into a name.
        brace = "" if after.startswith("}") else "}"
        return [
            Suggestion(f"{n}{brace}", len(name[1]), "name")
            for n in known.names
            if n.lower().startswith(name[1].lower())
        ]
    word = _last_word(before)
    if _TABLE_NEXT.search(before):
        return _beginning(word, ((table, "table") for table in known.tables))
    if "." in word:
        alias, _, begun = word.rpartition(".")
        columns = known.tables.get(_aliases(before + after, known).get(alias.lower(), ""), ())
        return _beginning(begun, ((column, "column") for column in columns))
    if not word:
        return []
    return _beginning(word, _anything(before + after, known))


def _anything(statement: str, known: Vocabulary) -> Iterator[tuple[str, str]]:
    for table in _aliases(statement, known).values():
        yield from ((column, f"column of {table}") for column in known.tables[table])
    yield from ((table, "table") for table in known.tables)
    yield from ((keyword, "") for keyword in _KEYWORDS.split())


def _aliases(statement: str, known: Vocabulary) -> dict[str, str]:
    """The tables that a statement names, also by their alias."""
    found: dict[str, str] = {}
    for table, alias in _TABLES.findall(statement):
        if table in known.tables:
            found[table.lower()] = table
            if alias:
                found[alias.lower()] = table
    return found


def _beginning(word: str, listed: Iterable[tuple[str, str]]) -> list[Suggestion]:
    found = {
        text: Suggestion(text, len(word), what)
        for text, what in listed
        if text.lower().startswith(word.lower()) and text != word
    }
    return list(found.values())


def _last_word(text: str) -> str:
    found = _WORD.search(text)
    return found[0] if found else ""
