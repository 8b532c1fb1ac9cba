"""How a join key is read: one explicit rule for each side, one canonical form for both.

The canonical form is text. A JSON string stands for itself, an integer for its decimal digits, a
boolean for ``true`` or ``false``; so ``603`` and ``"603"`` are the same key. A number with a
fraction or an exponent is refused as unreadable rather than looked up: ``604.0`` would never meet
``604`` and look like a missing row. The empty string is a key like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from udfs.core.jsontext import (
    BadRecord,
    Fields,
    decode_text,
    dig,
    object_fields,
    one_value,
    text_at,
)


class KeyOrigin(StrEnum):
    """Which part of the record holds the key."""

    VALUE = "value"
    KEY = "key"


class KeyFormat(StrEnum):
    """How a record key is written; a value is always JSON."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class KeyRule:
    """Where the join key stands in a record.

    ``path`` is empty for the whole record key. With ``origin`` VALUE the format is JSON.
    """

    origin: KeyOrigin
    format: KeyFormat
    path: tuple[str, ...] = ()

    def in_record_key(self, key: bytes | None) -> str | None:
        """The canonical key from a record key, or None when it is missing or null.

        Raises BadRecord when the record key cannot be read by this rule.
        """
        if key is None:
            return None
        if self.format is KeyFormat.TEXT:
            try:
                return key.decode()
            except UnicodeDecodeError as error:
                raise BadRecord(f"record key is not UTF-8 text: {error}") from error
        if self.path:
            return self.in_fields(object_fields(key, "record key"))
        return _canonical(one_value(key, "record key"), "record key")

    def in_fields(self, fields: Fields) -> str | None:
        """The canonical key from the fields of a JSON object, or None when missing or null.

        Raises BadRecord when there is a value that cannot be a key.
        """
        text = text_at(fields, self.path)
        if text is not None:
            return text
        return _canonical(dig(fields, self.path), ".".join(self.path))


def _canonical(raw: bytes | None, what: str) -> str | None:
    if raw is None or raw == b"null":
        return None
    first = raw[:1]
    if first == b'"':
        return decode_text(raw)
    if raw in (b"true", b"false"):
        return raw.decode()
    if first in b"{[":
        kind = "an object" if first == b"{" else "an array"
        raise BadRecord(f"key {what} is {kind}, expected a string or an integer")
    if raw.strip(b"-0123456789"):
        raise BadRecord(
            f"key {what} is the number {raw.decode()}, expected a string or an integer: "
            "a fraction or an exponent has no canonical text"
        )
    return "0" if raw == b"-0" else raw.decode()
