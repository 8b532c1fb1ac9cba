"""Records cross as plain tuples: PyFlink's own operation and converters, without the JVM."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from types import GeneratorType, ModuleType, SimpleNamespace
from typing import Any

import pytest
from pyflink.common import Types
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import OutputTag
from pyflink.datastream.functions import KeyedBroadcastProcessFunction, KeyedCoProcessFunction

from udfs.crossing import Contexts, take_over, take_over_broadcast
from udfs.records import (
    Record,
    crossed,
    crossing_output,
    output,
    output_type,
    pair_type,
    read_record,
)

EVENT = ("c1", b"o1", b'{"id":"c1"}', {"h": b"1"}, 1_700_000_000_000, 2, 34)
# As the JVM hands it over: row kinds, and tuples of fields.
CROSSING = (0, ("c1", (0, EVENT)))
NOTHING = object()
"""In the place of Java's empty iterator."""


class Single:
    """In the place of Java's iterator of one element."""

    def set(self, element: Any) -> None:
        self.element = element


class JavaClass:
    """In the place of what pemja finds for a class of Java's."""

    INSTANCE = None
    EMPTY_INSTANCE = NOTHING

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self) -> Single:
        assert self.name.endswith("SingleElementIterator")
        return Single()

    @staticmethod
    def adapterForIterator(iterator: Single) -> Single:  # noqa: N802  (Java's name)
        return iterator


@pytest.fixture
def pyflink(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """PyFlink's modules of thread mode, which only import with a JVM around them."""
    pemja = ModuleType("pemja")
    pemja.findClass = JavaClass  # type: ignore[attr-defined]
    before = set(sys.modules)
    monkeypatch.setitem(sys.modules, "pemja", pemja)
    from pyflink.fn_execution.embedded import converters, operations  # noqa: PLC0415

    yield SimpleNamespace(converters=converters, operations=operations)
    for name in set(sys.modules) - before:
        if "embedded" in name:
            del sys.modules[name]


def message(of: TypeInformation) -> Any:
    """A type as PyFlink's JVM side tells it to Python."""
    from pyflink.fn_execution import flink_fn_execution_pb2  # noqa: PLC0415

    names = flink_fn_execution_pb2.TypeInfo
    # Not by the types' own methods, which would start a JVM.
    plain = {"STRING": names.STRING, "LONG": names.LONG, "INT": names.INT}
    made = names()
    fields = getattr(of, "_field_types", None)
    if fields is not None:
        made.type_name = names.ROW
        for number, field in enumerate(fields):
            name = of._field_names[number] if of._field_names else f"f{number}"
            made.row_type_info.fields.add(field_name=name, field_type=message(field))
    elif hasattr(of, "_key_type_info"):
        made.type_name = names.MAP
        made.map_type_info.key_type.CopyFrom(message(of._key_type_info))
        made.map_type_info.value_type.CopyFrom(message(of._value_type_info))
    else:
        basic = getattr(of, "_basic_type", None)
        made.type_name = plain[basic.name] if basic else names.PRIMITIVE_ARRAY
    return made


class Function(KeyedCoProcessFunction):
    """Takes over when it is opened, as the join does; what it is given goes to ``GOT``."""

    def open(self, runtime_context: Any) -> None:
        REPLACED.append(take_over())

    def process_element1(self, value: Any, ctx: Any) -> Any:
        GOT.append(value)
        return GIVES[0]

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self.process_element1(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return iter(GIVES[0])


class BroadcastFunction(KeyedBroadcastProcessFunction):
    """The same with a second input that is broadcast."""

    def open(self, runtime_context: Any) -> None:
        REPLACED.append(take_over_broadcast())

    def process_element(self, value: Any, ctx: Any) -> Any:
        GOT.append((value, ctx))
        return GIVES[0]

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return self.process_element(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return iter(GIVES[0])


REPLACED: list[Any] = []
GOT: list[Any] = []
GIVES: list[Any] = []
SIDE = OutputTag("side", output_type())


class Joined:
    """PyFlink's operation around the function, made as PyFlink makes it; opened."""

    kind = "KEYED_CO_PROCESS"
    function: Any = Function

    def __init__(
        self, pyflink: SimpleNamespace, of: TypeInformation | None = None, **converters: Any
    ) -> None:
        from pyflink.fn_execution import flink_fn_execution_pb2  # noqa: PLC0415

        REPLACED.clear()
        GOT.clear()
        kinds = flink_fn_execution_pb2.UserDefinedDataStreamFunction
        proto = flink_fn_execution_pb2.UserDefinedDataStreamFunction(
            function_type=getattr(kinds, self.kind),
            payload=pickle.dumps(self.function()),
            key_type_info=message(Types.STRING()),
        )
        told = pyflink.converters.from_type_info_proto
        side_type = message(output_type()).SerializeToString()
        self.side: list[Any] = []
        java = SimpleNamespace(
            timerService=lambda: None,
            getAllSideOutputTypeInfoPayloads=lambda: {"side": side_type},
            collectSideOutputById=lambda tag, value: self.side.append((tag, value)),
        )
        pair = told(message(of or pair_type()))
        made = {"input1": pair, "input2": pair, "output": told(message(output_type()))} | converters
        self.converters = made
        self.operation = pyflink.operations.TwoInputFunctionOperation(
            [proto],
            made["input1"],
            made["input2"],
            made["output"],
            java,
            java,
            java,
            java,
            {},
            java,
            java,
        )
        self.operation.open()
        (self.took_over,) = REPLACED

    def given(self, results: Any, number: int = 1) -> Any:
        """What the JVM gets for a record for which the function returns ``results``."""
        GIVES[:] = [results]
        name = f"process_element{number}"
        # As the JVM calls it: by its name, on the object.
        found = getattr(self.operation, name)(CROSSING)
        if isinstance(found, Single):
            return [found.element]
        if found is NOTHING:
            return found
        # What pemja makes a Java iterator of; of a tuple's it makes an object without methods.
        assert isinstance(found, GeneratorType)
        return list(found)


class BroadcastJoined(Joined):
    kind = "KEYED_CO_BROADCAST_PROCESS"
    function = BroadcastFunction


def test_records_and_results_are_those_that_pyflink_would_have_made(
    pyflink: SimpleNamespace,
) -> None:
    joined = Joined(pyflink)
    assert joined.took_over
    record = output(b"k", b"v", {"h": b"1"}, 5, "HIT")
    for number in (1, 2):
        given = joined.given((crossing_output(b"k", b"v", {"h": b"1"}, 5, "HIT"),), number)
        assert given == [joined.converters["output"].to_external(record)]
    assert [crossed(one) for one in GOT] == [Record(*EVENT)] * 2
    assert crossed(GOT[0]) == read_record(joined.converters["input1"].to_internal(CROSSING)[1])


def test_nothing_is_javas_empty_iterator_and_no_generator_that_has_to_end(
    pyflink: SimpleNamespace,
) -> None:
    joined = Joined(pyflink)
    assert joined.given(()) is NOTHING
    assert joined.given((), 2) is NOTHING


def test_side_outputs_and_whatever_comes_with_them_take_pyflinks_way(
    pyflink: SimpleNamespace,
) -> None:
    joined = Joined(pyflink)
    aside, main = output(b"k", b"aside", None, 5), crossing_output(b"k", b"main", None, 5)
    told = joined.converters["output"].to_external(aside)
    assert joined.given(((SIDE, aside),)) == []
    assert joined.given([(SIDE, aside), main]) == [main]
    assert joined.given((main, (SIDE, aside))) == [main]
    assert joined.given(one for one in [main, (SIDE, aside), main]) == [main, main]
    assert joined.side == [("side", told)] * 4


def test_what_a_timer_gives_crosses_in_the_same_form(pyflink: SimpleNamespace) -> None:
    joined = Joined(pyflink)
    main = crossing_output(b"k", b"main", None, 5)
    GIVES[:] = [[main]]
    assert list(joined.operation.on_timer(7)) == [main]


@pytest.mark.parametrize("place", ["input1", "input2", "output"])
def test_what_looks_different_is_left_alone(pyflink: SimpleNamespace, place: str) -> None:
    joined = Joined(pyflink, **{place: pyflink.converters.PickleDataConverter()})
    assert not joined.took_over
    operation = joined.operation
    assert operation._input_data_converter1 is joined.converters["input1"]
    assert operation._input_data_converter2 is joined.converters["input2"]
    assert operation._output_data_converter is joined.converters["output"]
    assert "process_element1" not in vars(operation)


def test_a_row_in_a_record_is_not_handed_over_as_a_tuple(pyflink: SimpleNamespace) -> None:
    nested = Types.ROW([Types.STRING(), Types.ROW([Types.ROW([Types.STRING()])])])
    assert not Joined(pyflink, of=nested).took_over


def test_without_pyflinks_operation_nothing_happens() -> None:
    assert not take_over()


# ---------------------------------------------------------------------- a second input broadcast


def test_a_broadcast_record_comes_with_what_it_was_routed_by_and_a_keyed_one_without(
    pyflink: SimpleNamespace,
) -> None:
    joined = BroadcastJoined(pyflink)
    contexts: Contexts = joined.took_over
    given = joined.given((crossing_output(b"k", b"v", None, 5),))
    assert given == [joined.converters["output"].to_external(output(b"k", b"v", None, 5))]
    assert joined.given((), 2) is NOTHING
    assert [((0, EVENT), contexts.keyed), (("c1", (0, EVENT)), contexts.broadcast)] == GOT
    assert contexts.keyed.timer_service() is not None


@pytest.mark.parametrize("number", [1, 2])
def test_of_either_input_side_outputs_take_pyflinks_way(
    pyflink: SimpleNamespace, number: int
) -> None:
    joined = BroadcastJoined(pyflink)
    aside, main = output(b"k", b"aside", None, 5), crossing_output(b"k", b"main", None, 5)
    assert joined.given([(SIDE, aside), main], number) == [main]
    assert joined.side == [("side", joined.converters["output"].to_external(aside))]


def test_what_a_timer_gives_to_a_side_output_goes_there(pyflink: SimpleNamespace) -> None:
    joined = BroadcastJoined(pyflink)
    aside, main = output(b"k", b"aside", None, 5), crossing_output(b"k", b"main", None, 5)
    GIVES[:] = [[(SIDE, aside), main]]
    assert list(joined.operation.on_timer(7)) == [main]
    assert joined.side == [("side", joined.converters["output"].to_external(aside))]


def test_the_other_kind_of_function_is_not_taken_for_it(
    pyflink: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Function, "open", BroadcastFunction.open)
    assert Joined(pyflink).took_over is None


@pytest.mark.parametrize("place", ["input1", "input2", "output"])
def test_of_a_broadcast_function_too_what_looks_different_is_left_alone(
    pyflink: SimpleNamespace, place: str
) -> None:
    joined = BroadcastJoined(pyflink, **{place: pyflink.converters.PickleDataConverter()})
    assert joined.took_over is None
    assert "process_element1" not in vars(joined.operation)
