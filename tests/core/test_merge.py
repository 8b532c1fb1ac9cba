"""What an enriched event looks like."""

import json

import pytest

from tests.support import merges
from udfs.core.jsontext import BadRecord, object_fields
from udfs.core.merge import AddFields, CustomMerge, Merge

EVENT = b'{"order_id": 7, "amount": 12.50}'


def _merged(merge: Merge, row: bytes, event: bytes = EVENT) -> bytes:
    return merge(event, object_fields(event, "event"), merge.prepare(row))


def test_fields_are_added_under_their_names_with_their_own_bytes() -> None:
    merge = AddFields(((("tier",), "customer_tier"), (("address", "city"), "city")))
    row = b'{"tier": "gold", "address": {"city": "K\\u00f6ln"}, "limit": 1.50}'
    assert _merged(merge, row) == (
        b'{"order_id": 7, "amount": 12.50,"customer_tier":"gold","city":"K\\u00f6ln"}'
    )


def test_null_is_added_and_absent_is_left_out() -> None:
    merge = AddFields(((("price",), "price"),))
    assert json.loads(_merged(merge, b'{"price":null}')) == json.loads(EVENT) | {"price": None}
    assert json.loads(_merged(merge, b"{}")) == json.loads(EVENT)


def test_a_user_s_function_gets_plain_dicts_and_decides() -> None:
    merged = _merged(CustomMerge("tests.support.merges:add_tier_in_capitals"), b'{"tier":"gold"}')
    assert json.loads(merged) == json.loads(EVENT) | {"tier": "GOLD"}


@pytest.mark.parametrize(
    ("function", "reason"),
    [("raises", "ZeroDivisionError"), ("returns_none", "returned NoneType, expected a dict")],
)
def test_a_user_s_function_that_fails_condemns_only_its_event(function: str, reason: str) -> None:
    assert callable(getattr(merges, function))
    with pytest.raises(BadRecord, match=reason):
        _merged(CustomMerge(f"tests.support.merges:{function}"), b"{}")
