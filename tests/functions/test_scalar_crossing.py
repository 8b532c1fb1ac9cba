"""Results of SQL's functions cross as tuples: PyFlink's own operation, without the JVM."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from pyflink.table import FunctionContext
from pyflink.table.udf import ScalarFunction

from tests.functions.test_join import RULES
from udfs.scalar_crossing import take_over
from udfs.sql_functions import Enrich

_EVENT = ("p1", b"o1", b'{"product": "p1"}', {"own": b"1"}, b'{"name": 1e2}', "NOT_FOUND")
_ENRICHED = ("HIT", None, b'{"product": "p1","product_name":1e2}', {"own": b"1"})


class Other(ScalarFunction):
    """Not ours: gives what PyFlink has to convert."""

    def open(self, function_context: FunctionContext) -> None:
        REPLACED.append(take_over(self))

    def eval(self, *_: Any) -> Any:
        return None


REPLACED: list[bool] = []


@pytest.fixture(autouse=True)
def embedded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """PyFlink's module of thread mode, which only imports with a JVM around it."""
    pemja = ModuleType("pemja")
    pemja.findClass = lambda _: SimpleNamespace(INSTANCE=None)  # type: ignore[attr-defined]
    before = set(sys.modules)
    monkeypatch.setitem(sys.modules, "pemja", pemja)
    from pyflink.fn_execution.embedded import operation_utils  # noqa: PLC0415

    yield operation_utils
    for name in set(sys.modules) - before:
        if "embedded" in name:
            del sys.modules[name]


def _field(schema: Any, *kinds: Any) -> None:
    schema.fields.add().type.type_name = kinds[0]
    if len(kinds) > 1:
        info = schema.fields[-1].type.map_info
        info.key_type.type_name, info.value_type.type_name = kinds[1:]


def _operation(embedded: Any, functions: list[Any], *, row_argument: bool = False) -> Any:
    """As the JVM has it made: arguments and the ROW of ``enrich``."""
    from pyflink.fn_execution import flink_fn_execution_pb2 as pb  # noqa: PLC0415

    names = pb.Schema
    told = pb.UserDefinedFunctions()
    for function in functions:
        one = told.udfs.add(payload=pickle.dumps(function))
        for offset in range(len(_EVENT)):
            one.inputs.add(inputOffset=offset)
    headers = (names.MAP, names.VARCHAR, names.VARBINARY)
    given, made = pb.CoderInfoDescriptor(), pb.CoderInfoDescriptor()
    arguments = given.flatten_row_type.schema
    raw = names.ROW if row_argument else names.VARBINARY
    for kinds in ((names.VARCHAR,), (names.VARBINARY,), (raw,), headers, (raw,), (names.VARCHAR,)):
        _field(arguments, *kinds)
    for _ in functions:
        result = made.flatten_row_type.schema.fields.add().type
        result.type_name = names.ROW
        for kinds in ((names.VARCHAR,), (names.VARCHAR,), (names.VARBINARY,), headers):
            _field(result.row_schema, *kinds)
    operation = embedded.create_scalar_operation_from_proto(
        told.SerializeToString(),
        given.SerializeToString(),
        made.SerializeToString(),
        False,
        len(functions) == 1,
    )
    operation.open()
    return operation


def test_a_result_is_the_tuple_that_pyflink_would_have_made_of_the_row(embedded: Any) -> None:
    operation = _operation(embedded, [Enrich(RULES)])
    assert operation.process_element is operation.func
    assert operation.process_element(_EVENT) == (0, _ENRICHED)
    # Beside another one nothing is replaced.
    pair = _operation(embedded, [Enrich(RULES), Enrich(RULES)])
    assert pair.process_element is not pair.func
    assert tuple(pair.process_element(_EVENT)) == ((0, _ENRICHED), (0, _ENRICHED))


def test_arguments_that_pyflink_converts_are_left_to_it(embedded: Any) -> None:
    REPLACED.clear()
    operation = _operation(embedded, [Other()], row_argument=True)
    assert REPLACED == [False]
    assert operation.process_element is not operation.func


def test_outside_thread_mode_nothing_is_replaced() -> None:
    assert take_over(Other()) is False
