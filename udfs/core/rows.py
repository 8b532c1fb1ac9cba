"""What a table record does to the table: the row it leaves behind, or none.

Debezium's envelope is read by its documented ``op`` codes: ``c`` create, ``u`` update, ``r``
snapshot read, ``d`` delete, with or without the ``schema``/``payload`` wrapper.
Source: Debezium documentation, "Data change events" of the relational connectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from udfs.core.jsontext import BadRecord, Fields, decode_text, object_fields
from udfs.core.keys import KeyOrigin, KeyRule


class TableFormat(StrEnum):
    """How the values of the table topic are written."""

    JSON = "json"
    DEBEZIUM_JSON = "debezium-json"


def row_after(table_format: TableFormat, value: bytes | None) -> tuple[bytes | None, Fields | None]:
    """The row after this record and the fields that its key is read from.

    The row is the JSON object's own bytes, or None when the record deletes. The fields are None for
    a tombstone, whose key can only stand in the record key.

    Raises BadRecord for a value that is neither a row nor a deletion. JSON ``null`` and an empty
    value are not tombstones: only a null value is.
    """
    if value is None:
        return None, None
    fields = object_fields(value, "table value")
    if table_format is TableFormat.JSON:
        return value, fields
    return _debezium(fields)


def _debezium(fields: Fields) -> tuple[bytes | None, Fields]:
    if "op" not in fields and "payload" in fields:
        fields = object_fields(bytes(fields["payload"]), "Debezium payload")
    if "op" not in fields:
        raise BadRecord("Debezium value has no field op, expected one of c, u, r, d")
    op = decode_text(bytes(fields["op"]))
    if op in ("c", "u", "r"):
        after = bytes(fields["after"]) if "after" in fields else None
        return after, object_fields(after, f"Debezium after (op {op})")
    if op == "d":
        before = bytes(fields["before"]) if "before" in fields else None
        # Without a before image (REPLICA IDENTITY NOTHING, say) the key is only in the record key.
        known = before is not None and before != b"null"
        return None, object_fields(before, "Debezium before (op d)") if known else {}
    raise BadRecord(f"Debezium op is {op!r}, expected one of c, u, r, d")


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
        row, fields = row_after(self.table_format, value)
        if self.key.origin is KeyOrigin.KEY:
            join_key = self.key.in_record_key(key)
        elif fields is None:
            rule = self.tombstone_key
            join_key = None if rule is None else rule.in_record_key(key)
        else:
            join_key = self.key.in_fields(fields)
        if join_key is None:
            raise BadRecord("table record has no join key, so its row can never be met")
        return join_key, row
