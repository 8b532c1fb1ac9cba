"""Key rules as Flink SQL: the same rule that udfs.core.keys applies, for routing in the JVM."""

from __future__ import annotations

from udfs.core.keys import KeyFormat, KeyOrigin, KeyRule
from udfs.core.rows import RowReader, TableFormat

# Debezium's envelope with and without the schema wrapper; after first, before for a delete.
_DEBEZIUM_IMAGES = (("payload", "after"), ("payload", "before"), ("after",), ("before",))


def key_expression(rule: KeyRule) -> str:
    """SQL for the join key of a record with columns k and v; null when it has none."""
    if rule.origin is KeyOrigin.VALUE:
        return _json_value("v", rule.path)
    if rule.format is KeyFormat.TEXT:
        return "DECODE(k, 'UTF-8')"
    return _json_value("k", rule.path)


def row_key_expression(reader: RowReader) -> str:
    """SQL for the join key of a table record, tombstones included; null when it has none."""
    rule = reader.key
    if rule.origin is KeyOrigin.KEY:
        return key_expression(rule)
    if reader.table_format is TableFormat.DEBEZIUM_JSON:
        images = (_json_value("v", (*image, *rule.path)) for image in _DEBEZIUM_IMAGES)
        from_value = f"COALESCE({', '.join(images)})"
    else:
        from_value = key_expression(rule)
    if reader.tombstone_key is None:
        return from_value
    return f"CASE WHEN v IS NULL THEN {key_expression(reader.tombstone_key)} ELSE {from_value} END"


def _json_value(column: str, path: tuple[str, ...]) -> str:
    steps = "".join(f"['{_in_json_path(step)}']" for step in path)
    literal = f"${steps}".replace("'", "''")
    found = f"JSON_VALUE(DECODE({column}, 'UTF-8'), '{literal}' NULL ON EMPTY NULL ON ERROR)"
    # There and back replaces half of a surrogate pair, which JSON can spell (\ud800) and Python's
    # bridge cannot take: the record would fail the task before any of our code sees it.
    return f"DECODE(ENCODE({found}, 'UTF-8'), 'UTF-8')"


def _in_json_path(step: str) -> str:
    return step.replace("\\", "\\\\").replace("'", "\\'")
