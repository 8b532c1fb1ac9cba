"""What state belongs to, as a stamp that is kept in it."""

from dataclasses import fields, replace
from typing import Any

import pytest

from jobs.rules import identity
from jobs.settings import from_mapping
from tests.support.facts import HEALTHY
from udfs.core.identity import Identity

ONE = Identity("c", "orders 1", "value json a", "products 1", "json key")


def test_a_stamp_is_the_same_for_the_same_facts_and_for_ever() -> None:
    # Frozen: stamps are in the savepoints of running jobs.
    assert ONE.stamp == "4aff292c-245b9526-e3d2c438-dd8050e1-4d4a60ed"
    assert ONE.differences(ONE.stamp) == []


@pytest.mark.parametrize("name", [field.name for field in fields(Identity)])
def test_each_fact_is_told_apart(name: str) -> None:
    other = replace(ONE, **{name: "other"})
    (difference,) = ONE.differences(other.stamp)
    assert name.partition("_")[0] in difference


def test_what_may_change_with_a_savepoint_is_no_part_of_it() -> None:
    tables: dict[str, dict[str, Any]] = {
        "job": {"name": "orders-enrich"},
        "kafka": {"bootstrap_servers": "a:9092"},
        "stream": {"topic": "orders", "key": {"from": "key"}},
        "table": {"topic": "customers", "fields": {"tier": "tier"}},
        "output": {"enriched": "e", "retry": "r", "dead": "d"},
    }
    before = identity(from_mapping(tables), HEALTHY)
    tables["job"] = {"name": "renamed", "parallelism": 4}
    tables["kafka"] = {"bootstrap_servers": "b:9093"}
    tables["table"] = {"topic": "customers", "fields": {"city": "city"}}
    assert identity(from_mapping(tables), HEALTHY) == before
    tables["table"]["key"] = {"from": "key", "format": "json"}
    assert identity(from_mapping(tables), HEALTHY) != before
    broadcast = from_mapping(tables | {"join": {"lookup_state": "broadcast"}})
    assert identity(broadcast, HEALTHY).join_rows == "broadcast"
    recreated = replace(HEALTHY, stream=replace(HEALTHY.stream, topic_id="BBBB"))
    assert identity(from_mapping(tables), recreated).stream != before.stream
