"""Statements to Flink's planner: each is checked where it stands, and none starts a job by itself.

Everything here happens on the client: settings, tables and views go into the session's own catalog,
inserts are planned. So an error in the last file leaves nothing behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from py4j.protocol import Py4JError
from pyflink.table import StreamTableEnvironment, Table
from pyflink.util.exceptions import JavaException

from jobs.sql.files import SqlError, Statement
from jobs.sql.masking import Masks
from jobs.sql.options import can_be_read

_FOLDERS = {
    "settings": (r"SET\s", "SET 'name' = 'value'"),
    "tables": (r"CREATE\s+TEMPORARY\s+TABLE\s", "CREATE TEMPORARY TABLE"),
    "logs": (r"CREATE\s+TEMPORARY\s+(TABLE|VIEW)\s", "CREATE TEMPORARY TABLE or VIEW"),
    "join": (r"CREATE\s+TEMPORARY\s+VIEW\s", "CREATE TEMPORARY VIEW"),
    "views": (r"CREATE\s+TEMPORARY\s+VIEW\s", "CREATE TEMPORARY VIEW"),
    "inserts": (r"INSERT\s+INTO\s", "INSERT INTO"),
    "audits": (r"(SELECT|WITH)\s", "SELECT or WITH"),
}
"""What a folder's statements begin with. Nothing else is taken: a DROP or a STATEMENT SET of its
own would undo what the job promises."""

_SETTING = re.compile(r"SET\s+'([^']+)'\s*=\s*'((?:[^']|'')*)'", re.IGNORECASE)
_PROMISED = {
    "table.exec.state.ttl": "0",
    "table.exec.source.idle-timeout": "0",
    "table.exec.mini-batch.enabled": "false",
    "table.optimizer.reuse-sub-plan-enabled": "false",
    "table.local-time-zone": "UTC",
}
_FIXED = {
    "execution.runtime-mode": "a job is a stream that goes on, and audits come to an end.",
    "table.exec.uid.generation": "what an operator is called decides what it finds in a savepoint.",
}
_CAUSE = re.compile(
    r"^(?:Caused by: |: )?[\w.$]+(?:Exception|Error): (.+?)(?=^\s+at |^Caused by|\Z)",
    re.MULTILINE | re.DOTALL,
)
_LINE = re.compile(r"(?:[Ff]rom |[Aa]t )?line (\d+)")
_POSITION = r"line \d+, column \d+"
_PLACE = re.compile(rf"(?:From {_POSITION} to|At) {_POSITION}: |,? at {_POSITION}\b(?=[\s.,;:]|$)")
_LENGTH = 600
_NOTHING_HIDDEN = Masks(())
_FROM_FLINK = (Py4JError, JavaException)


def define(
    t: StreamTableEnvironment, statements: Iterable[Statement], masks: Masks = _NOTHING_HIDDEN
) -> None:
    """Apply settings, and create tables and views.

    ``masks`` hide secrets in what Flink says. Raises SqlError.
    """
    for statement in statements:
        _require_kind(statement)
        try:
            if statement.text[:3].upper() == "SET":
                set_option(t, statement)
            else:
                t.execute_sql(statement.text)
        except _FROM_FLINK as error:
            raise explained(statement, error, masks) from None


def attach(
    t: StreamTableEnvironment, statements: Sequence[Statement], masks: Masks = _NOTHING_HIDDEN
) -> None:
    """Plan all inserts as one set and add them to the graph, which is not started. Raises SqlError.

    In one set, so that what they share is read once.
    """
    for statement in statements:
        _require_kind(statement)
    try:
        _attach(t, statements)
    except _FROM_FLINK:
        # Of a set it is not told which statement is at fault. The graph is lost anyway.
        for statement in statements:
            try:
                _attach(t, [statement])
            except _FROM_FLINK as error:
                raise explained(statement, error, masks) from None
        raise


def _attach(t: StreamTableEnvironment, statements: Iterable[Statement]) -> None:
    gathered = t.create_statement_set()
    for statement in statements:
        gathered.add_insert_sql(statement.text)
    gathered.attach_as_datastream()


def check(
    t: StreamTableEnvironment, statements: Iterable[Statement], masks: Masks = _NOTHING_HIDDEN
) -> list[Table]:
    """See that queries which nobody runs now could be run. Raises SqlError."""
    queries = []
    for statement in statements:
        _require_kind(statement)
        try:
            queries.append(t.sql_query(statement.text))
        except _FROM_FLINK as error:
            raise explained(statement, error, masks) from None
    return queries


def explained(statement: Statement, error: Exception, masks: Masks) -> SqlError:
    """What Flink says of a statement, with the file's own line."""
    trace = str(error)
    # The innermost cause that says something names the place; those around it say "failed".
    told = [cause.strip() for cause in _CAUSE.findall(trace)]
    what = next((cause for cause in reversed(told) if _LINE.search(cause)), "")
    what = what or (told[-1] if told else trace)
    lines = [int(number) for number in _LINE.findall(what)]
    # The file's line is told, and is another one where something was put in for a name.
    what = _PLACE.sub("", masks(what))
    what = " ".join(what.split())[:_LENGTH].rstrip(".")
    return statement.error(
        f"Flink refuses this statement: {what}.",
        "Correct it; nothing was submitted.",
        lines[-1] if lines else 1,
    )


def _require_kind(statement: Statement) -> None:
    folder = statement.file.parent.name
    begin, shown = _FOLDERS[folder]
    if not re.match(begin, statement.text + " ", re.IGNORECASE):
        raise statement.error(
            f"a statement in {folder}/ begins with {shown}, this one with "
            f"{' '.join(statement.text.split()[:2])}.",
            "Put it into the folder that is for it (sql/README.md).",
        )


def set_option(t: StreamTableEnvironment, statement: Statement) -> None:
    """Apply ``SET 'name' = 'value'``. Raises SqlError for one that would break a promise."""
    match = _SETTING.fullmatch(statement.text)
    if match is None:
        raise statement.error(
            "a setting needs a name and a value in quotes.", "Write SET 'name' = 'value';"
        )
    name, value = match[1].strip(), match[2].replace("''", "'")
    if name in _FIXED:
        raise statement.error(f"{name} is not to be set here: {_FIXED[name]}", "Take it away.")
    if _PROMISED.get(name, value) != value:
        raise statement.error(
            f"with {name} = {value} the join would not keep its promise.",
            f"Leave it at {_PROMISED[name]}.",
        )
    if not can_be_read(name, value):
        raise statement.error(
            f"Flink cannot read {value} as {name}.", "Give a value that it takes."
        )
    t.get_config().set(name, value)


def folder(root: Path, name: str) -> Path:
    """A folder of SQL files. Raises SqlError when there is none."""
    found = root / name
    if not found.is_dir():
        raise SqlError(found, 1, "there is no such folder.", "Give the path of sql/ with --sql.")
    return found
