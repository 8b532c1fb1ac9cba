"""What the SQL variant asks Python for: JSON as bytes, by the very rules of the DataStream job.

Flink SQL's JSON functions write what they read anew (``1.50`` becomes ``1.5``) and take documents
that the job refuses, so the records of the two variants would differ.

No map that crosses to Python or back may be null: in thread mode Flink's converter does not look
(``PythonTypeUtils.MapDataConverter`` of Flink 2.3.0), and the task fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from pyflink.common import Row
from pyflink.table import DataTypes, FunctionContext
from pyflink.table.types import DataType
from pyflink.table.udf import ScalarFunction, UserDefinedScalarFunctionWrapper, udf

# The first for other jobs, see udfs.join.
from udfs import code, join  # noqa: F401
from udfs.core.events import Headers, record_bytes, set_aside_headers, without_ours
from udfs.core.jsontext import BadRecord, Fields
from udfs.core.merge import AddFields, without_row
from udfs.core.model import Header, Verdict
from udfs.core.recent import Recent
from udfs.join_rules import JoinRules
from udfs.scalar_crossing import take_over

_HIT = Verdict.HIT.value
_HEADERS = DataTypes.MAP(DataTypes.STRING(), DataTypes.BYTES())


def _row_type() -> DataType:
    return DataTypes.ROW(
        [
            DataTypes.FIELD("content", DataTypes.BYTES()),
            DataTypes.FIELD("problem", DataTypes.STRING()),
        ]
    )


def _enriched_type() -> DataType:
    return DataTypes.ROW(
        [
            DataTypes.FIELD("verdict", DataTypes.STRING()),
            DataTypes.FIELD("problem", DataTypes.STRING()),
            DataTypes.FIELD("content", DataTypes.BYTES()),
            DataTypes.FIELD("headers", _HEADERS),
        ]
    )


class _Function(ScalarFunction):
    """Refuses to run with other code in memory than that of the job."""

    def __init__(self) -> None:
        # Taken on the client, compared on the worker.
        self._code = code.LOADED

    def open(self, function_context: FunctionContext) -> None:
        code.require_same("Tablegate's workers (package udfs)", self._code, code.LOADED)


class _RowFunction(_Function):
    """Gives a ROW: ``self._made(fields)``, in the form that crosses."""

    def __init__(self) -> None:
        super().__init__()
        self._made: Callable[[tuple[Any, ...]], Any] = _as_row

    def open(self, function_context: FunctionContext) -> None:
        super().open(function_context)
        if take_over(self):
            self._made = _as_tuple


def _as_row(fields: tuple[Any, ...]) -> Row:
    return Row(*fields)


def _as_tuple(fields: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
    # 0 is an inserted row.
    return (0, fields)


class ReadRow(_RowFunction):
    """``read_row(routed_key, key, value)`` of a table record: ROW<content BYTES, problem STRING>.

    ``content`` is the row's JSON text, null for a deletion; ``problem`` says why the record cannot
    be read, null when it can.
    """

    def __init__(self, rules: JoinRules) -> None:
        super().__init__()
        self._rows = rules.rows

    def eval(self, routed: str | None, key: bytes | None, value: bytes | None) -> Any:
        try:
            read, content = self._rows.read(key, value)
            if routed != read:
                raise _other_route(routed, read)
        except BadRecord as error:
            return self._made((None, str(error)))
        return self._made((content, None))


class _Rows(_Function):
    """Reads table records: vectorised, since a load is millions of them."""

    def __init__(self, rules: JoinRules) -> None:
        super().__init__()
        self._rows = rules.rows

    def _read(self, routed: str | None, key: bytes | None, value: bytes | None) -> bytes | None:
        read, content = self._rows.read(key, value)
        if routed != read:
            raise _other_route(routed, read)
        return content


class RowProblem(_Rows):
    """``row_problem(routed_key, key, value, any)``: why it cannot be read; null when it can."""

    def eval(self, routed: pd.Series, key: pd.Series, value: pd.Series, _: pd.Series) -> pd.Series:
        return pd.Series(map(self._problem, routed, key, value), dtype="object")

    def _problem(self, routed: str | None, key: bytes | None, value: bytes | None) -> str | None:
        try:
            self._read(routed, key, value)
        except BadRecord as error:
            return str(error)
        return None


class RowContent(_Rows):
    """``row_content(routed_key, key, value, any)``: the row's JSON text.

    Null for a deletion, and for a record that cannot be read.
    """

    def eval(self, routed: pd.Series, key: pd.Series, value: pd.Series, _: pd.Series) -> pd.Series:
        return pd.Series(map(self._content, routed, key, value), dtype="object")

    def _content(self, routed: str | None, key: bytes | None, value: bytes | None) -> bytes | None:
        try:
            return self._read(routed, key, value)
        except BadRecord:
            return None


class Enrich(_RowFunction):
    """``enrich(routed_key, key, value, headers, row, missed)`` of an event that may be joined.

    ``missed`` is the verdict if there is no row. Gives ROW<verdict STRING, problem STRING,
    content BYTES, headers MAP<STRING, BYTES>>: what became of the event, what is wrong with it
    (null when nothing is), and value and headers of what goes to the enriched topic, null and
    empty where nothing does.
    """

    def __init__(self, rules: JoinRules) -> None:
        super().__init__()
        self._rules = rules
        # What rows add, by their text: here nobody says when a row is replaced.
        self._recent: Recent[Any] = Recent(rules.cached_rows)

    def _prepared(self, row: bytes) -> Any:
        prepared = self._recent.get(row)
        if prepared is None:
            prepared = self._rules.merge.prepare(row)
            self._recent.put(row, prepared)
        return prepared

    def eval(
        self,
        routed: str | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        row: bytes | None,
        missed: str,
    ) -> Any:
        rules = self._rules
        try:
            read, fields = rules.events.read(key, value)
            if routed != read:
                raise _other_route(routed, read)
            # An event without a value has been refused above.
            if row and read is not None:
                content = rules.merge(value, fields, self._prepared(row))  # type: ignore[arg-type]
                own = (without_ours(headers) or {}) if headers else {}
                self._check_size(key, content, own)
                return self._made((_HIT, None, content, own))
            return self._made(self._without_row(read, fields, key, value, headers, missed))
        except BadRecord as error:
            return self._made((Verdict.BAD_RECORD.value, str(error), None, {}))

    def _without_row(
        self,
        read: str | None,
        fields: Fields,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        missed: str,
    ) -> tuple[str, str | None, bytes | None, Headers]:
        rules = self._rules
        verdict = Verdict.NO_KEY if read is None else Verdict(missed)
        problem = "join key is missing or null" if verdict is Verdict.NO_KEY else None
        if not rules.on_miss.emit_null:
            return verdict.value, problem, None, {}
        told = {rules.verdict_field: verdict.value}
        content = without_row(value, fields, rules.merge.names, told)  # type: ignore[arg-type]
        own = {**(without_ours(headers) or {}), Header.VERDICT: verdict.encode()}
        self._check_size(key, content, own)
        return verdict.value, problem, content, own

    def _check_size(self, key: bytes | None, content: bytes, own: Headers) -> None:
        limit = self._rules.max_enriched_bytes
        if limit is not None and (size := record_bytes(key, content, own)) > limit:
            raise BadRecord(
                f"enriched event would have {size} bytes, and its topic takes {limit} "
                "(max.message.bytes, less room for the envelope)"
            )


class Carries(_Function):
    """``carries(enriched, row)``: whether an enriched event has its added fields from that row.

    Null when it cannot be told: one of the two cannot be read, or only a merge function knows.
    """

    def __init__(self, rules: JoinRules) -> None:
        super().__init__()
        self._merge = rules.merge

    def eval(self, enriched: bytes | None, row: bytes | None) -> bool | None:
        if not isinstance(self._merge, AddFields) or enriched is None or row is None:
            return None
        try:
            return self._merge.carried(enriched, row)
        except BadRecord:
            return None


class SetAside(_Function):
    """``set_aside(headers, verdict, source, seen_ms, problem, ts_ms)``: for retry or dead letter.

    Headers. ``source`` is ``topic[partition]@offset``, ``seen_ms`` when the job first read the
    record (epoch milliseconds), ``problem`` what is wrong with it, null when nothing is, ``ts_ms``
    the record's own timestamp, null or negative when it has none.
    """

    def eval(
        self,
        headers: Headers,
        verdict: str,
        source: str,
        seen_ms: int,
        problem: str | None,
        ts_ms: int | None,
    ) -> Headers:
        error = None if problem is None else f"{source}: {problem}"
        timestamp_ms = -1 if ts_ms is None else ts_ms
        return set_aside_headers(
            headers, Verdict(verdict), source, seen_ms, error, timestamp_ms=timestamp_ms
        )


class SetAsideBare(_Function):
    """``set_aside_bare(verdict, source, seen_ms, problem, ts_ms)``: of a record without headers."""

    def eval(
        self, verdict: str, source: str, seen_ms: int, problem: str | None, ts_ms: int | None
    ) -> Headers:
        return SetAside().eval({}, verdict, source, seen_ms, problem, ts_ms)


def sql_functions(rules: JoinRules) -> dict[str, UserDefinedScalarFunctionWrapper]:
    """The functions by the names that SQL calls them by."""
    return {
        "read_row": udf(ReadRow(rules), result_type=_row_type(), name="read_row"),
        "row_problem": udf(
            RowProblem(rules),
            result_type=DataTypes.STRING(),
            func_type="pandas",
            name="row_problem",
        ),
        "row_content": udf(
            RowContent(rules),
            result_type=DataTypes.BYTES(),
            func_type="pandas",
            name="row_content",
        ),
        "enrich": udf(Enrich(rules), result_type=_enriched_type(), name="enrich"),
        "carries": udf(Carries(rules), result_type=DataTypes.BOOLEAN(), name="carries"),
        "set_aside": udf(SetAside(), result_type=_HEADERS, name="set_aside"),
        "set_aside_bare": udf(SetAsideBare(), result_type=_HEADERS, name="set_aside_bare"),
    }


def _other_route(routed: str | None, read: str | None) -> BadRecord:
    # As the DataStream job does: the JVM joined by the key that it read.
    return BadRecord(f"key was read as {routed!r} for routing and as {read!r} for joining")
