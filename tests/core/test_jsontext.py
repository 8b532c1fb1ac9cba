"""JSON is passed on with the bytes that it came with, and refused when it is none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.core.jsontext import BadRecord, dig, object_fields, with_fields


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "is null"),
        (b"", "is empty"),
        (b"{broken", "not valid JSON"),
        (b'{"a":1} x', "not valid JSON"),
        (b'{"a":NaN}', "not valid JSON"),
        (b'{"a":01}', "not valid JSON"),
        (b'{"a":"\xff"}', "not valid JSON"),
        (b"\x00\x01", "not valid JSON"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not valid JSON"),
        (b"null", "not an object"),
        (b"[1]", "not an object"),
        (b'"text"', "not an object"),
        (b"12", "not an object"),
    ],
)
def test_what_is_no_json_object_is_refused_with_its_reason(value: bytes, reason: str) -> None:
    with pytest.raises(BadRecord, match=reason):
        object_fields(value, "event value")


def test_added_fields_follow_the_event_s_own_untouched_text() -> None:
    event = b' {"amount": 12.50, "big": 123456789012345678901234567890, "e": "\\u00e9"} \n'
    enriched = with_fields(event, object_fields(event, "event"), {"tier": b'"gold"', "n": b"null"})
    assert enriched == event.rstrip()[:-1] + b',"tier":"gold","n":null}'


def test_an_empty_event_gets_its_fields() -> None:
    assert with_fields(b"{ }", {}, {"tier": b"1.50"}) == b'{ "tier":1.50}'


def test_nothing_to_add_leaves_the_event_as_it_was() -> None:
    assert with_fields(b'{"a":1} ', object_fields(b'{"a":1}', "event"), {}) == b'{"a":1} '


def test_a_field_of_the_same_name_is_replaced_and_never_doubled() -> None:
    event = b'{"tier": null, "amount": 12.50}'
    enriched = with_fields(event, object_fields(event, "event"), {"tier": b'"gold"'})
    assert enriched == b'{"tier":"gold","amount":12.50}'


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
_OBJECTS = st.dictionaries(st.text(max_size=4), _JSON, max_size=5)


@given(_OBJECTS, _OBJECTS, st.sampled_from([None, 2]))
def test_adding_is_a_dict_update(event: dict, row: dict, indent: int | None) -> None:  # type: ignore[type-arg]
    text = json.dumps(event, indent=indent).encode()
    additions = {name: json.dumps(value).encode() for name, value in row.items()}
    enriched = with_fields(text, object_fields(text, "event"), additions)
    assert json.loads(enriched) == event | row


@given(_OBJECTS)
def test_every_field_is_found_by_its_path(event: dict) -> None:  # type: ignore[type-arg]
    fields = object_fields(json.dumps({"in": event}, ensure_ascii=False).encode(), "event")
    for name, value in event.items():
        raw = dig(fields, ("in", name))
        assert raw is not None
        assert json.loads(raw) == value
