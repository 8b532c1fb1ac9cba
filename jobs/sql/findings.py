"""Audits as names, and what they found as lines from one process to another. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jobs.sql.files import Statement
from udfs.core.errors import ConfigError

RESULT = "tablegate-audit: "
"""What a line of the client's output begins with that is a result, as JSON."""

COLUMNS = ("source", "problem")
"""What an audit tells of each row: ``topic[partition]@offset``, and what is wrong there."""

_NUMBER = re.compile(r"^\d+[_-]")
_RULER = re.compile(r"^-- =+$")


@dataclass(frozen=True)
class Finding:
    """What one audit returned: how many rows, and the first of them as (source, problem)."""

    name: str
    intent: str
    rows: int
    first: tuple[tuple[str, str], ...] = ()

    def line(self) -> str:
        """For another process; see :func:`findings`."""
        return RESULT + json.dumps(asdict(self))


def findings(output: str) -> list[Finding]:
    """The findings among the lines that a client printed."""
    told = [
        json.loads(line.removeprefix(RESULT))
        for line in output.splitlines()
        if line.startswith(RESULT)
    ]
    return [Finding(**one | {"first": tuple(map(tuple, one["first"]))}) for one in told]


def name_of(file: Path) -> str:
    """``10_wrong_nulls.sql`` is ``wrong_nulls``."""
    return _NUMBER.sub("", file.stem)


def intent_of(text: str) -> str:
    """What the file's banner says, "" when it has none."""
    lines = text.splitlines()
    if not lines or not _RULER.match(lines[0]):
        return ""
    said = []
    for line in lines[1:]:
        if _RULER.match(line):
            break
        said.append(line.removeprefix("--").strip())
    return " ".join(said)


def require_columns(statement: Statement, columns: Sequence[str]) -> None:
    """Raises SqlError when an audit gives other columns than ``COLUMNS``."""
    if tuple(columns) != COLUMNS:
        raise statement.error(
            f"an audit gives the columns {', '.join(COLUMNS)}, and this one {', '.join(columns)}.",
            "Name them with AS.",
        )


def chosen(found: Sequence[Statement], only: Sequence[str]) -> dict[str, Statement]:
    """The audits by name; with ``only``, these.

    Raises SqlError when two have one name, ConfigError when there is none of a name.
    """
    audits: dict[str, Statement] = {}
    for statement in found:
        name = name_of(statement.file)
        if name in audits:
            raise statement.error(
                f"there is an audit {name} already, in {audits[name].file}.",
                "An audit has a file, and a name, of its own.",
            )
        audits[name] = statement
    for name in only:
        if name not in audits:
            raise ConfigError("--only", name, f"give one of {', '.join(audits)}")
    return {name: audits[name] for name in only or audits}
