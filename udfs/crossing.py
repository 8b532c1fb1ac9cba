"""Lets records cross between the JVM and the join with as little in between as possible.

PyFlink 2.3.0 in thread mode makes a ``Row`` of each record that comes, and another of each row in
it, setting checked attributes by name; runs four generators, one in the other, for what the
function returns; and has a Java exception thrown at the end of each. All of that costs more than
the join itself (docs/performance.md), and there is no option for any of it. But what the JVM hands
over is a plain tuple already, it takes one back, and it takes any Java object with ``hasNext``,
``next`` and ``close`` for the results (source: ``EmbeddedPythonIterator`` of Flink 2.3.0).

So the join, when it is opened, looks for the operation that calls it and puts itself in the place
of the converters and the generators that it finds there: for this operator only, other jobs of the
TaskManager keep theirs. Where anything looks different from what is written here (worker processes,
another PyFlink), it is left as it is, and the join works with rows, as documented.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

log = logging.getLogger(__name__)

_OPERATION = "TwoInputFunctionOperation"
# In the steps that PyFlink makes for each input, what the function and its context are called: of a
# keyed join, and of one whose second input is broadcast.
_KEYED = (("process_element1", "function_context"), ("process_element2", "function_context"))
_BROADCAST = (
    ("process_element", "read_only_broadcast_ctx"),
    ("process_broadcast_element", "broadcast_ctx"),
)
# From open() of a function: PyFlink's open_func, the operation of one function, that of the chain.
_FRAMES = 6

Process = Callable[[Any, Any], Iterable[Any]]


class _Incoming:
    """Hands over a pair's content as it came: (routed by, (row kind, the record's fields))."""

    def to_internal(self, value: Any) -> Any:
        return value[1]


class _Outgoing:
    """Gives back what has the JVM's form already, see ``udfs.records.crossing_output``."""

    def to_external(self, value: Any) -> Any:
        return value


def take_over() -> bool:
    """To be called in ``open`` of a two-input function of pairs; whether records cross as tuples.

    Then both inputs are what ``udfs.records.crossed`` reads, and the main output is what
    ``udfs.records.crossing_output`` makes. Side outputs stay rows. A function that gives nothing
    should return an empty tuple, and one that gives one record a tuple of it: these two forms have
    a short way back.
    """
    operation = calling_operation(_OPERATION, _FRAMES)
    if operation is None or not _replace_converters(operation):
        return False
    back, steps = _way_back(), [_step(operation, number, _KEYED) for number in (1, 2)]
    if back is None or None in steps:
        log.info("records cross as tuples, by PyFlink's own calls")
        return True
    for number, step in enumerate(steps, start=1):
        setattr(operation, f"process_element{number}", _short(step, back, keyed=True))
    log.info("records cross as tuples, by calls of our own")
    return True


class Contexts(NamedTuple):
    """PyFlink's contexts of a keyed function whose second input is broadcast."""

    keyed: Any
    """Of the first input: has the timers of the current key."""
    broadcast: Any
    """Of the second: broadcast state can be written by it."""


def take_over_broadcast() -> Contexts | None:
    """As :func:`take_over`, where the second input is broadcast; None when it cannot be done.

    The second input is (routed by, what ``udfs.records.crossed`` reads). What a timer gives to a
    side output goes there; PyFlink 2.3.0 has no way for it, and puts it into the main output.
    """
    operation, back = calling_operation(_OPERATION, _FRAMES), _way_back()
    if operation is None or back is None:
        return None
    steps = [_step(operation, number, _BROADCAST) for number in (1, 2)]
    on_timer = getattr(operation._main_operation, "_on_timer_func", None)  # noqa: SLF001
    known = inspect.getclosurevars(on_timer).nonlocals if inspect.isfunction(on_timer) else {}
    if None in steps or not {"on_timer", "timer_context"} <= known.keys():
        return None
    if not _replace_converters(operation):
        return None
    events, rows = steps
    operation.process_element1 = _short(events, back, keyed=True)
    operation.process_element2 = _short(rows, back, keyed=False)
    route: Callable[[Iterable[Any]], Iterable[Any]] = events.route
    fire, context = known["on_timer"], known["timer_context"]

    def fired(timestamp: int) -> Iterable[Any]:
        return route(fire(timestamp, context))

    operation._main_operation._on_timer_func = fired  # noqa: SLF001
    log.info("records cross as tuples, by calls of our own; the table is broadcast")
    return Contexts(events.context, rows.context)


def _replace_converters(operation: Any) -> bool:
    try:
        pairs = (operation._input_data_converter1, operation._input_data_converter2)  # noqa: SLF001
        made = operation._output_data_converter  # noqa: SLF001
    except AttributeError:
        return False
    if not all(_is_pair(converter) for converter in pairs) or not _is_flat(made):
        return False
    operation._input_data_converter1 = operation._input_data_converter2 = _Incoming()  # noqa: SLF001
    operation._output_data_converter = _Outgoing()  # noqa: SLF001
    return True


class _WayBack(NamedTuple):
    """Java objects that the JVM takes for results, made once.

    Of Python's iterators it takes generators only, and each of them ends with a Java exception.
    """

    nothing: Any
    """An iterator without elements."""
    put: Callable[[Any], None]
    """Puts the one element of ``single``."""
    single: Any
    """An iterator with one element, again and again."""


def _way_back() -> _WayBack | None:
    """None where there is no JVM around this process, or another Flink."""
    try:
        from pemja import findClass  # noqa: PLC0415  (there is none outside thread mode)

        iterators = findClass("org.apache.flink.util.CloseableIterator")
        element = findClass("org.apache.flink.runtime.util.SingleElementIterator")()
        return _WayBack(
            iterators.EMPTY_INSTANCE, element.set, iterators.adapterForIterator(element)
        )
    except (ImportError, AttributeError, TypeError, RuntimeError):
        return None


class _Step(NamedTuple):
    """What PyFlink does with a record of one input."""

    process: Process
    """The function's method."""
    context: Any
    """What it is given beside the record."""
    route: Callable[[Iterable[Any]], Iterable[Any]]
    """PyFlink's: gives side outputs away and passes the main output on."""


def _step(operation: Any, number: int, names: Sequence[tuple[str, str]]) -> Any:
    """The :class:`_Step` of one input; None when it is not as PyFlink 2.3.0 makes it."""
    step = getattr(operation._main_operation, f"_process_element_func{number}", None)  # noqa: SLF001
    if operation._other_operations or not inspect.isfunction(step):  # noqa: SLF001
        return None
    known = inspect.getclosurevars(step).nonlocals
    try:
        return _Step(*(known[name] for name in (*names[number - 1], "process_func")))
    except KeyError:
        return None


def _short(step: _Step, back: _WayBack, *, keyed: bool) -> Callable[[Any], Any]:
    """What the JVM calls with (row kind, (routed by, (row kind, fields))).

    A ``keyed`` input's function is not told what its records are routed by.
    """
    process, context, route = step
    nothing, put, single = back

    def called(value: Any) -> Any:
        results = process(value[1][1] if keyed else value[1], context)
        if results == ():
            return nothing
        if type(results) is tuple and len(results) == 1 and type(results[0][0]) is int:
            # A row kind is in front: one record of the main output.
            put(results[0])
            return single
        return route(results)

    return called


def calling_operation(kind: str, frames: int) -> Any:
    """The object of class ``kind`` that calls the caller, at most ``frames`` up, or None."""
    frame = inspect.currentframe()
    for _ in range(frames):
        frame = None if frame is None else frame.f_back
        if frame is None:
            return None
        caller = frame.f_locals.get("self")
        if type(caller).__name__ == kind:
            return caller
    return None


def _is_pair(converter: Any) -> bool:
    """Whether it makes a Row of a text and a Row of plain values."""
    fields = _fields_of(converter)
    return fields is not None and len(fields) == len(("key", "record")) and _is_flat(fields[1])


def _is_flat(converter: Any) -> bool:
    """Whether it makes a Row whose values are handed over as they are, or as dicts of such."""
    plain = {"IdentityDataConverter", "DictDataConverter"}
    fields = _fields_of(converter)
    return fields is not None and all(type(field).__name__ in plain for field in fields)


def _fields_of(converter: Any) -> Any:
    if type(converter).__name__ != "RowDataConverter":
        return None
    return getattr(converter, "_field_data_converters", None)
