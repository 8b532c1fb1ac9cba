"""A table environment in which the gated tables exist, and statements made ready to run in it.

A statement is made ready before anything is run: names, types and the plan are checked, and what
concerns the session alone (tables, views, settings) is done. Only ``Query.submit`` and
``Insert.submit`` reach the cluster. So a file can be checked whole before its first query runs, and
each query still means the views that there were where it stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyflink.java_gateway import get_gateway
from pyflink.table import ExplainDetail
from pyflink.table.table_result import TableResult
from pyflink.util.exceptions import JavaException

from jobs.preflight.facts import ClusterFacts
from jobs.settings import Settings
from jobs.sql import run
from jobs.sql.assembly import define, known_names
from jobs.sql.files import Statement, of_text, statements
from jobs.sql.masking import Masks
from jobs.sql.topics import require_topics
from ops.sql.kinds import Kind, ends_after, kind_of
from ops.sql.results import NULL, Change, Column, readable
from ops.sql.running import SILENT_S
from ops.sql.session import for_reading
from ops.sql.steps import Insert, Jobs, Option, Query, Ready, Submitted, Told
from udfs.core.gate import Target

_FROM_FLINK = (Py4JError, JavaException)
_MODE = re.compile(r"changelogMode=\[([A-Z,]*)\]")
_PLAN = "== Optimized Physical Plan =="
_NAME = "pipeline.name"
_UNNAMED = "UnnamedTable$"
_RESTARTS = "restart-strategy.type"
_ATTACHED = "execution.attached"
_WITH_CLIENT = "execution.shutdown-on-attached-exit"
_SILENCE = "client.heartbeat.timeout"


class Engine:
    """The session's table environment.

    Args:
        settings: those of the session, see ``ops.sql.session.for_session``.
        facts: the brokers' answers.
        targets: the table topic's targets of now.
        root: the folder of the SQL files.
        masks: what must not be shown.

    Raises:
        SqlError: a statement of the files cannot be taken.
    """

    def __init__(
        self,
        settings: Settings,
        facts: ClusterFacts,
        targets: Mapping[int, Target],
        root: Path,
        masks: Masks,
    ) -> None:
        self.names = for_reading(known_names(settings, facts))
        self._settings, self._root, self._masks = settings, root, masks
        self._columns: dict[str, list[str]] | None = None
        self._env, self._t, _ = define(settings, facts, targets, root, self.names)
        self._java = self._env._j_stream_execution_environment
        # A query's state is worth nothing beyond it: no savepoint will ever look for its operators.
        self._t.get_config().set("pipeline.auto-generate-uids", "true")
        self._checkpoint_ms = int(self._java.getCheckpointConfig().getCheckpointInterval())
        self._own: dict[str, str | None] = {
            name: self._java.getConfiguration().getString(name, None)
            for name in (_RESTARTS, _ATTACHED, _WITH_CLIENT, _SILENCE)
        }

    # ------------------------------------------------------------------ statements

    def read(self, text: str, file: Path) -> list[Statement]:
        """The statements of a text, names filled in. Raises SqlError."""
        return of_text(file, text, self.names)

    def audits(self) -> list[Statement]:
        """The statements of the folder ``audits``. Raises SqlError."""
        return statements(run.folder(self._root, "audits"), self.names)

    def ready(self, statement: Statement) -> Ready:
        """Check a statement, and do it if it starts nothing. Raises SqlError."""
        kind = kind_of(statement)
        if kind is Kind.DEFINE:
            self._columns = None
            require_topics(self._settings, [statement])
        if kind is Kind.JOBS:
            return Jobs()
        try:
            if kind is Kind.QUERY:
                return self._query(statement)
            if kind is Kind.INSERT:
                return self._insert(statement)
            if kind is Kind.SET:
                return self._set(statement)
            return self._told(self._t.execute_sql(statement.text))
        except _FROM_FLINK as error:
            raise run.explained(statement, error, self._masks) from None

    def _query(self, statement: Statement) -> Query:
        table = self._t.sql_query(statement.text)
        mode = self._changelog_mode(table.explain(ExplainDetail.CHANGELOG_MODE))

        def submit(name: str) -> Submitted:
            self._be_query(name)
            return self._submitted(table.execute())

        columns = tuple(table.get_resolved_schema().get_column_names())
        return Query(statement, columns, mode == "I", ends_after(statement.text), submit)

    def _insert(self, statement: Statement) -> Insert:
        inserts = self._t.create_statement_set()
        inserts.add_insert_sql(statement.text)
        inserts.explain()
        found = re.match(r"INSERT\s+INTO\s+(`[^`]+`|[\w.]+)", statement.text, re.IGNORECASE)
        tables = (found[1].strip("`"),) if found else ()

        def submit(name: str) -> str:
            self._be_job(name)
            return _job_id(inserts.execute())

        return Insert(statement, tables, submit)

    def _set(self, statement: Statement) -> Told | Option:
        if statement.text.strip().upper() != "SET":

            def apply() -> None:
                run.set_option(self._t, statement)

            apply()
            return Option(statement, apply)
        values = dict(self._java.getConfiguration().toMap()) | self.options()
        columns = [Column("name", "STRING"), Column("value", "STRING")]
        listed = sorted(values.items())
        return Told(columns, [Change("+I", (k, self._masked_option(k, v))) for k, v in listed])

    def _masked_option(self, name: str, value: str) -> str:
        quoted = f"'{name}' = '{value}'"
        masked = self._masks(quoted)
        return value if masked == quoted else "***"

    # ------------------------------------------------------------------ settings

    def options(self) -> dict[str, str]:
        """The planner's settings that were made in this session, by the files or by hand."""
        return dict(self._options().toMap())

    def restore(self, options: Mapping[str, str]) -> None:
        """Set the planner's settings back to what they were."""
        for name in self.options().keys() - options.keys():
            self._options().removeKey(name)
        for name, value in options.items():
            self._t.get_config().set(name, value)

    def _options(self) -> Any:
        return self._t.get_config()._j_table_config.getConfiguration()

    # ------------------------------------------------------------------ what there is

    def columns(self) -> dict[str, list[str]]:
        """Columns of each table and view, for completion."""
        if self._columns is None:
            self._columns = {
                name: list(self._t.from_path(f"`{name}`").get_resolved_schema().get_column_names())
                for name in self._t.list_tables()
                if not name.startswith(_UNNAMED)
            }
        return self._columns

    # ------------------------------------------------------------------ inside

    def _be_query(self, name: str) -> None:
        """What is submitted next answers somebody who waits.

        Without checkpoints, since with them each row would be told only after the next one
        (source: ``CheckpointedCollectResultBuffer``); and without a restart, which would begin
        the answer anew.
        """
        self._java.getCheckpointConfig().disableCheckpointing()
        self._configure(
            {
                _RESTARTS: "none",
                # These three make the JobManager end a job from which nobody hears any more.
                _ATTACHED: "true",
                _WITH_CLIENT: "true",
                _SILENCE: f"{SILENT_S} s",
            }
        )
        self._t.get_config().set(_NAME, name)

    def _be_job(self, name: str) -> None:
        """What is submitted next stays, with what the cluster's configuration gives to jobs."""
        if self._checkpoint_ms > 0:
            self._java.getCheckpointConfig().setCheckpointInterval(self._checkpoint_ms)
        self._configure(self._own)
        self._t.get_config().set(_NAME, name)

    def _configure(self, values: Mapping[str, str | None]) -> None:
        configuration = self._java.getConfiguration()
        for name, value in values.items():
            if value is None:
                configuration.removeKey(name)
            else:
                configuration.setString(name, value)

    @staticmethod
    def _changelog_mode(plan: str) -> str:
        """``I`` for a result that only grows, else more letters, of a plan with all its modes."""
        found = _MODE.search(plan.partition(_PLAN)[2])
        return found[1] if found else "I"

    def _submitted(self, result: TableResult) -> Submitted:
        columns = _columns(result)
        return Submitted(_job_id(result), columns, self._changes(result, columns))

    def _told(self, result: TableResult) -> Told:
        columns = _columns(result)
        # What CREATE and DROP say is no more than OK; and some views are Flink's own.
        rows = [
            change
            for change in self._changes(result, columns)
            if change.row != ("OK",) and not (change.row[0] or "").startswith(_UNNAMED)
        ]
        masked = [
            Change(r.op, tuple(None if c is None else self._masks(c) for c in r.row)) for r in rows
        ]
        return Told(columns if rows else [], masked)

    def _changes(self, result: TableResult, columns: Sequence[Column]) -> Iterator[Change]:
        """The result's rows as Flink's own SQL client prints them, secrets masked.

        PyFlink's ``collect`` cannot read a TIMESTAMP_LTZ, which most views here have.
        """
        java = result._j_table_result
        converter = java.getRowDataToStringConverter()
        rows = java.collectInternal()
        jackson = get_gateway().jvm.org.apache.flink.shaded.jackson2.com.fasterxml.jackson
        as_json = jackson.databind.ObjectMapper()
        types = [column.type for column in columns]
        while rows.hasNext():
            row = rows.next()
            # One call for all cells; the array would be asked for each of them.
            texts: list[str] = json.loads(as_json.writeValueAsString(converter.convert(row)))
            cells = tuple(
                None if text == NULL else self._masks.values(readable(text, sql_type))
                for text, sql_type in zip(texts, types, strict=True)
            )
            yield Change(row.getRowKind().shortString(), cells)


def _job_id(result: TableResult) -> str:
    client = result.get_job_client()
    return "" if client is None else str(client.get_job_id())


def _columns(result: TableResult) -> list[Column]:
    schema = result._j_table_result.getResolvedSchema()
    return [
        Column(column.getName(), column.getDataType().getLogicalType().asSummaryString())
        for column in schema.getColumns()
    ]
