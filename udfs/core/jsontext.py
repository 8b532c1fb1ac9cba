"""JSON as text: looked into, never rewritten.

A field that is only passed on keeps its bytes (``1.50`` stays ``1.50``, an integer of thirty digits
stays whole), because values are taken as :class:`msgspec.Raw` slices and not as Python numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

Fields = dict[str, msgspec.Raw]

_OBJECT = msgspec.json.Decoder(Fields)
_VALUE = msgspec.json.Decoder(msgspec.Raw)
_TEXT = msgspec.json.Decoder(str)
_ANY = msgspec.json.Decoder()

_BRACE = ord("}")
_NAMES_KEPT = 1024


class BadRecord(Exception):
    """A record that cannot be read; the message says what was expected and what was there.

    Not a :class:`~udfs.core.errors.TablegateError`: it never reaches a user as an exception, it
    becomes the ``tablegate-error`` header of a dead letter.
    """


def object_fields(value: bytes | None, what: str) -> Fields:
    """The top-level fields of one JSON object, each as the bytes it is written in.

    Strict by RFC 8259 (no NaN, no trailing text, valid UTF-8). Of a name given twice the last one
    counts, as in Flink's own JSON functions.

    Raises BadRecord for null, empty, malformed or any other JSON than an object.
    """
    if value is None:
        raise BadRecord(f"{what} is null, expected a JSON object")
    if not value:
        raise BadRecord(f"{what} is empty, expected a JSON object")
    try:
        # Raw slices are skipped over without a look at their UTF-8, so that is checked first.
        value.decode()
        return _OBJECT.decode(value)
    except msgspec.ValidationError as error:
        raise BadRecord(f"{what} is JSON but not an object: {_short(error)}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRecord(f"{what} is not valid JSON: {_short(error)}") from error


def one_value(text: bytes, what: str) -> bytes:
    """The bytes of the one JSON value that ``text`` is, without the white space around it.

    Raises BadRecord when it is not exactly one value.
    """
    try:
        text.decode()
        return bytes(_VALUE.decode(text))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRecord(f"{what} is not valid JSON: {_short(error)}") from error


def dig(fields: Mapping[str, msgspec.Raw], path: Sequence[str]) -> bytes | None:
    """The bytes of the value at ``path``, None when a step of it is absent or no object."""
    raw = fields.get(path[0])
    for step in path[1:]:
        if raw is None:
            return None
        try:
            raw = _OBJECT.decode(raw).get(step)
        except (msgspec.MsgspecError, RecursionError):
            return None
    return None if raw is None else bytes(raw)


def text_at(fields: Mapping[str, msgspec.Raw], path: Sequence[str]) -> str | None:
    """The string at ``path``; None when something else is there, or nothing.

    What :func:`dig` and :func:`decode_text` say of most keys, at a third of their cost.
    """
    try:
        raw = fields[path[0]]
        for step in path[1:]:
            raw = _OBJECT.decode(raw)[step]
        return _TEXT.decode(raw)
    except (KeyError, msgspec.MsgspecError, RecursionError):
        return None


def decode_text(raw: bytes) -> str:
    """The string that a JSON string stands for. Raises BadRecord when it is none."""
    try:
        return _TEXT.decode(raw)
    except msgspec.MsgspecError as error:
        raise BadRecord(f"not a JSON string: {_short(error)}") from error


def decode_any(raw: bytes) -> object:
    """Plain Python values. Raises BadRecord."""
    try:
        return _ANY.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRecord(f"not valid JSON: {_short(error)}") from error


def with_fields(event: bytes, fields: Fields, additions: Mapping[str, bytes]) -> bytes:
    """The event's JSON object with ``additions`` (name to JSON text) added at its end.

    ``fields`` are the event's own, as :func:`object_fields` gave them. The event's text stays as it
    is unless a name is there already: then the addition replaces it and the object is written anew,
    every other value still with the bytes that it came with.
    """
    return with_members(event, fields, members(additions))


class Members(NamedTuple):
    """Fields ready to be added to an object: their names, and their text without braces."""

    names: frozenset[str]
    text: bytes


def members(additions: Mapping[str, bytes]) -> Members:
    """Fields by name, to be added with :func:`with_members`."""
    text = b",".join(_name(name) + b":" + text for name, text in additions.items())
    return Members(_set_of(tuple(additions)), text)


def with_members(event: bytes, fields: Fields, added: Members) -> bytes:
    """What :func:`with_fields` does, for fields that are prepared once and added often."""
    names, text = added
    if not names:
        return event
    if fields.keys().isdisjoint(names):
        # A JSON object ends with its brace, whatever white space follows.
        body = event[:-1] if event[-1] == _BRACE else event.rstrip()[:-1]
        return b"%b,%b}" % (body, text) if fields else b"%b%b}" % (body, text)
    merged = {name: bytes(raw) for name, raw in fields.items()}
    merged |= {name: bytes(raw) for name, raw in _OBJECT.decode(b"{%b}" % text).items()}
    return b"{" + b",".join(_name(n) + b":" + text for n, text in merged.items()) + b"}"


@functools.lru_cache(_NAMES_KEPT)
def _set_of(names: tuple[str, ...]) -> frozenset[str]:
    # Rows have the same few combinations of fields: one set for all of them.
    return frozenset(names)


_names: dict[str, bytes] = {}


def _name(name: str) -> bytes:
    # Added names come from the settings, a handful; events' own names only on the rare rewrite.
    known = _names.get(name)
    if known is None:
        known = msgspec.json.encode(name)
        if len(_names) < _NAMES_KEPT:
            _names[name] = known
    return known


def _short(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__
