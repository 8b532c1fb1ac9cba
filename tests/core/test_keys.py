"""Key rules: what counts as the same key, what as none, and what is refused."""

import pytest

from udfs.core.jsontext import BadRecord, object_fields
from udfs.core.keys import KeyFormat, KeyOrigin, KeyRule

TEXT = KeyRule(KeyOrigin.KEY, KeyFormat.TEXT)
JSON_KEY = KeyRule(KeyOrigin.KEY, KeyFormat.JSON)
JSON_KEY_FIELD = KeyRule(KeyOrigin.KEY, KeyFormat.JSON, ("payload", "id"))
FIELD = KeyRule(KeyOrigin.VALUE, KeyFormat.JSON, ("product",))
NESTED = KeyRule(KeyOrigin.VALUE, KeyFormat.JSON, ("customer", "id"))


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b'{"product":603}', "603"),
        (b'{"product":"603"}', "603"),
        (b'{"product":-0}', "0"),
        (b'{"product":-17}', "-17"),
        (b'{"product":123456789012345678901234567890}', "123456789012345678901234567890"),
        (b'{"product":true}', "true"),
        (b'{"product":""}', ""),
        (b'{"product":" a "}', " a "),
        (b'{"product":"caf\\u00e9"}', "café"),
        (b'{"product":1,"product":2}', "2"),
        (b'{"product":null}', None),
        (b"{}", None),
    ],
)
def test_a_field_has_one_canonical_key(value: bytes, key: str | None) -> None:
    assert FIELD.in_fields(object_fields(value, "value")) == key


@pytest.mark.parametrize("number", [b"604.0", b"1e3", b"0.5", b"-1.0"])
def test_a_fraction_is_refused_rather_than_missed(number: bytes) -> None:
    with pytest.raises(BadRecord, match="fraction or an exponent"):
        FIELD.in_fields(object_fields(b'{"product":' + number + b"}", "value"))


@pytest.mark.parametrize(("value", "kind"), [(b"{}", "an object"), (b"[1]", "an array")])
def test_a_structure_is_no_key(value: bytes, kind: str) -> None:
    with pytest.raises(BadRecord, match=kind):
        FIELD.in_fields(object_fields(b'{"product":' + value + b"}", "value"))


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b'{"customer":{"id":"c1"}}', "c1"),
        (b'{"customer":{"id":null}}', None),
        (b'{"customer":{}}', None),
        (b'{"customer":"c1"}', None),
        (b'{"customer":null}', None),
    ],
)
def test_a_path_goes_down_through_objects(value: bytes, key: str | None) -> None:
    assert NESTED.in_fields(object_fields(value, "value")) == key


def test_a_text_key_is_taken_as_it_stands() -> None:
    assert TEXT.in_record_key(b'"603"') == '"603"'
    assert TEXT.in_record_key(b"") == ""
    assert TEXT.in_record_key(None) is None


def test_a_text_key_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(BadRecord, match="not UTF-8"):
        TEXT.in_record_key(b"\xff\xfe")


@pytest.mark.parametrize(
    ("raw", "key"), [(b'"603"', "603"), (b" 603 ", "603"), (b"null", None), (b"false", "false")]
)
def test_a_json_key_loses_its_quotes(raw: bytes, key: str | None) -> None:
    assert JSON_KEY.in_record_key(raw) == key


@pytest.mark.parametrize("raw", [b"abc", b"", b'1,"x":2', b'{"a":1}', b"1 2"])
def test_a_json_key_that_is_no_single_scalar_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRecord):
        JSON_KEY.in_record_key(raw)


def test_a_json_key_may_hold_the_key_in_a_field() -> None:
    assert JSON_KEY_FIELD.in_record_key(b'{"schema":{},"payload":{"id":7}}') == "7"
