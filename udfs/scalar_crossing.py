"""Lets the results of SQL's Python functions cross as tuples, as ``udfs.crossing`` does a join's.

PyFlink 2.3.0 in thread mode goes over each argument with a converter, of which those for text,
bytes and maps of such give the same again, and takes a ``Row`` for a ROW, of which it makes the
tuple that the JVM takes (source: ``create_scalar_operation_from_proto``). So a function, when it is
opened, looks for the operation that calls it and takes the converters away, if it is the only one
there and they are such; then it gives tuples itself. Elsewhere (worker processes, another PyFlink)
all stays as it is, and the function gives a ``Row``.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any

from udfs.crossing import calling_operation

log = logging.getLogger(__name__)

_OPERATION = "ScalarFunctionOperation"
# From open() of a function: a subclass's, ours, the operation.
_FRAMES = 4
_CONVERTERS = ("input_data_converter", "output_data_converter")


def take_over(function: Any) -> bool:
    """To be called in ``open`` of a function that gives a ROW; whether it is to give tuples.

    A tuple is the number of the row kind (0: INSERT) and a tuple of the fields.
    """
    operation = calling_operation(_OPERATION, _FRAMES)
    if operation is None:
        return False
    # PyFlink sets a function of its own over the method, with the converters bound to it.
    step = getattr(operation, "process_element", None)
    functions = getattr(operation, "user_defined_funcs", None)
    if not inspect.isfunction(step) or functions != [function]:
        return False
    bound = inspect.getclosurevars(step).nonlocals
    incoming, outgoing = (bound.get(name) for name in _CONVERTERS)
    if not _changes_nothing(incoming) or not _is_plain_row(outgoing):
        return False
    operation.process_element = operation.func
    log.info("%s: what it gives crosses as tuples", type(function).__name__)
    return True


def _changes_nothing(converter: Any) -> bool:
    """Whether it takes a tuple of arguments and gives an equal one."""
    fields = getattr(converter, "_field_data_converters", None)
    name = type(converter).__name__
    return name == "FlattenRowDataConverter" and fields is not None and _are_plain(fields)


def _is_plain_row(converter: Any) -> bool:
    fields = getattr(converter, "_field_data_converters", None)
    name = type(converter).__name__
    return name == "RowDataConverter" and fields is not None and _are_plain(fields)


def _are_plain(converters: Any) -> bool:
    return all(_is_plain(converter) for converter in converters)


def _is_plain(converter: Any) -> bool:
    kind = type(converter).__name__
    if kind == "DictDataConverter":
        # Its parts have to be plain too: a map of rows is not the same again.
        parts = vars(converter).values()
        return all(type(part).__name__ == "IdentityDataConverter" for part in parts)
    return kind == "IdentityDataConverter"
