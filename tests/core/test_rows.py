"""What table records do: rows, deletions, Debezium's envelope, and what is refused."""

import pytest

from udfs.core.jsontext import BadRecord
from udfs.core.keys import KeyFormat, KeyOrigin, KeyRule
from udfs.core.rows import RowReader, TableFormat

BY_KEY = KeyRule(KeyOrigin.KEY, KeyFormat.TEXT)
BY_ID = KeyRule(KeyOrigin.VALUE, KeyFormat.JSON, ("id",))
PLAIN = RowReader(TableFormat.JSON, BY_KEY)
PLAIN_BY_ID = RowReader(TableFormat.JSON, BY_ID, KeyRule(KeyOrigin.KEY, KeyFormat.JSON))
CDC = RowReader(TableFormat.DEBEZIUM_JSON, BY_KEY)
CDC_BY_ID = RowReader(
    TableFormat.DEBEZIUM_JSON, BY_ID, KeyRule(KeyOrigin.KEY, KeyFormat.JSON, ("id",))
)


def test_a_row_is_the_value_s_own_bytes() -> None:
    assert PLAIN.read(b"p1", b'{ "name" : "mug" }') == ("p1", b'{ "name" : "mug" }')


def test_an_empty_object_is_a_row() -> None:
    assert PLAIN.read(b"p3", b"{}") == ("p3", b"{}")


def test_a_null_value_deletes() -> None:
    assert PLAIN.read(b"p1", None) == ("p1", None)


@pytest.mark.parametrize("value", [b"null", b"", b"{not json", b"[]", b'"x"'])
def test_only_a_null_value_deletes(value: bytes) -> None:
    with pytest.raises(BadRecord):
        PLAIN.read(b"p1", value)


def test_a_record_without_key_is_refused() -> None:
    with pytest.raises(BadRecord, match=r"no join key \(record key is missing or null\)"):
        PLAIN.read(None, b'{"name":"mug"}')
    with pytest.raises(BadRecord, match=r"\(value\.id is missing or null\)"):
        PLAIN_BY_ID.read(b"1", b'{"name":"mug"}')
    with pytest.raises(BadRecord, match=r"\(record key\.id is missing or null\)"):
        CDC_BY_ID.read(b'{"payload":{"id":1}}', None)


def test_a_key_in_the_value_and_its_tombstone_meet() -> None:
    assert PLAIN_BY_ID.read(b'"603"', b'{"id":603}') == ("603", b'{"id":603}')
    assert PLAIN_BY_ID.read(b'"603"', None) == ("603", None)


@pytest.mark.parametrize("op", [b"c", b"u", b"r"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_debezium_rows_are_the_after_image(op: bytes, wrapped: bool) -> None:
    envelope = b'{"before":null,"after":{"id":1,"n": 1.50},"op":"' + op + b'","ts_ms":5}'
    value = b'{"schema":{"type":"struct"},"payload":' + envelope + b"}" if wrapped else envelope
    assert CDC.read(b"1", value) == ("1", b'{"id":1,"n": 1.50}')
    assert CDC_BY_ID.read(None, value) == ("1", b'{"id":1,"n": 1.50}')


def test_a_debezium_delete_and_the_tombstone_behind_it_delete() -> None:
    delete = b'{"before":{"id":1},"after":null,"op":"d"}'
    assert CDC.read(b"1", delete) == ("1", None)
    assert CDC.read(b"1", None) == ("1", None)
    assert CDC_BY_ID.read(b'{"id":1}', delete) == ("1", None)
    assert CDC_BY_ID.read(b'{"id":1}', None) == ("1", None)


def test_a_debezium_delete_needs_no_before_image_when_the_key_is_the_record_key() -> None:
    assert CDC.read(b"1", b'{"before":null,"after":null,"op":"d"}') == ("1", None)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"id":1}', "no field op"),
        (b'{"op":"t"}', "op is 't'"),
        (b'{"op":"c","after":null}', "has no after"),
        (b'{"op":"c","after":[1]}', "not an object"),
        (b'{"op":3}', "not a JSON string"),
        (b'{"payload":null}', "not an object"),
    ],
)
def test_what_is_no_change_record_is_refused(value: bytes, reason: str) -> None:
    with pytest.raises(BadRecord, match=reason):
        CDC.read(b"1", value)


def test_a_record_that_moves_a_row_to_another_key_is_refused() -> None:
    with pytest.raises(BadRecord, match="from join key '1' to '2'"):
        CDC_BY_ID.read(None, b'{"before":{"id":1},"after":{"id":2},"op":"u"}')
