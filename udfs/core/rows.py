"""What a table record does to the table: the row it leaves behind, or none.

Debezium's envelope is read by its documented ``op`` codes: ``c`` create, ``u`` update, ``r``
snapshot read, ``d`` delete, with or without the ``schema``/``payload`` wrapper.
Source: Debezium documentation, "Data change events" of the relational connectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from udfs.core.jsontext import BadRecord, Fields, decode_text, object_fields
from udfs.core.keys import KeyOrigin, KeyRule


class TableFormat(StrEnum):
    """How the values of the table topic are written."""

    JSON = "json"
    DEBEZIUM_JSON = "debezium-json"


class Change(NamedTuple):
    """What a table record says: the row after it, and where its key can be read.

    ``row`` is the JSON object's own bytes, None when the record deletes. ``fields`` are those that
    the key is read from, None for a tombstone, whose key can only stand in the record key.
    ``before`` are the fields of the row that this one replaces, where the record tells.
    """

    row: bytes | None
    fields: Fields | None
    before: Fields | None = None


def change_of(table_format: TableFormat, value: bytes | None) -> Change:
    """Read the value of a table record.

    Raises BadRecord for a value that is neither a row nor a deletion. JSON ``null`` and an empty
    value are not tombstones: only a null value is.
    """
    if value is None:
        return Change(None, None)
    fields = object_fields(value, "table value")
    if table_format is TableFormat.JSON:
        return Change(value, fields)
    return _debezium(fields)


def _debezium(fields: Fields) -> Change:
    if "op" not in fields and "payload" in fields:
        fields = object_fields(bytes(fields["payload"]), "Debezium payload")
    if "op" not in fields:
        raise BadRecord("Debezium value has no field op, expected one of c, u, r, d")
    op = decode_text(bytes(fields["op"]))
    before = _image(fields, "before", op)
    if op in ("c", "u", "r"):
        after = _image(fields, "after", op)
        if after is None:
            raise BadRecord(f"Debezium record with op {op} has no after, expected the row")
        return Change(bytes(fields["after"]), after, before)
    if op == "d":
        # Without a before image (REPLICA IDENTITY NOTHING, say) the key is only in the record key.
        return Change(None, before or {})
    raise BadRecord(f"Debezium op is {op!r}, expected one of c, u, r, d")


def _image(fields: Fields, name: str, op: str) -> Fields | None:
    raw = bytes(fields[name]) if name in fields else b"null"
    return None if raw == b"null" else object_fields(raw, f"Debezium {name} (op {op})")


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads table records: the join key, and the row that the record leaves behind.

    ``tombstone_key`` is needed when ``key`` looks into the value, which a tombstone has none of.
    """

    table_format: TableFormat
    key: KeyRule
    tombstone_key: KeyRule | None = None

    def read(self, key: bytes | None, value: bytes | None) -> tuple[str, bytes | None]:
        """The canonical join key and the row, None for a deletion.

        Raises BadRecord when either cannot be read; a table record without a key is one of these.
        """
        change = change_of(self.table_format, value)
        if self.key.origin is KeyOrigin.KEY:
            join_key = self.key.in_record_key(key)
        elif change.fields is None:
            rule = self.tombstone_key
            join_key = None if rule is None else rule.in_record_key(key)
        else:
            join_key = self.key.in_fields(change.fields)
            self._refuse_moved_row(change, join_key)
        if join_key is None:
            raise BadRecord(
                f"table record has no join key ({self._where(value)} is missing or null), so its "
                "row can never be met"
            )
        return join_key, change.row

    def _where(self, value: bytes | None) -> str:
        rule = self.key
        if rule.origin is KeyOrigin.VALUE and value is None and self.tombstone_key is not None:
            rule = self.tombstone_key
        part = "value" if rule.origin is KeyOrigin.VALUE else "record key"
        return ".".join((part, *rule.path)) if rule.path else part

    def _refuse_moved_row(self, change: Change, join_key: str | None) -> None:
        if not change.before:
            return
        old_key = self.key.in_fields(change.before)
        if old_key is not None and old_key != join_key:
            # One record, two keys: the old row lives on another subtask and would stay for ever.
            raise BadRecord(
                f"table record moves a row from join key {old_key!r} to {join_key!r}; a join key "
                "other than the primary key must not change"
            )
