"""The JVM routes by the key that the join reads: two JSON readers, one rule."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyflink.table import EnvironmentSettings, TableEnvironment

from jobs.kafka_tables import pause_watermark
from jobs.routing import key_expression, row_key_expression
from udfs.core.events import EventReader
from udfs.core.jsontext import BadRecord
from udfs.core.keys import KeyFormat, KeyOrigin, KeyRule
from udfs.core.rows import RowReader, TableFormat

pytestmark = pytest.mark.jvm

Records = Sequence[tuple[bytes | None, bytes | None]]


Ask = Callable[[str, Records], list[str | None]]


@pytest.fixture
def jvm_keys(tmp_path: Path) -> Ask:
    """What Flink SQL reads: a key, or None, for each record; expression over columns k and v."""

    def ask(expression: str, records: Records) -> list[str | None]:
        # As a file, since a VALUES list becomes one task for each of its rows. In hexadecimal,
        # since the bytes may be anything.
        lines = (f"{n},{_hex(k)},{_hex(v)}" for n, (k, v) in enumerate(records))
        (tmp_path / "records.csv").write_text("\n".join(lines))
        t = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
        columns = ("n INT", "k STRING", "v STRING")
        options = {
            "connector": "filesystem",
            "path": (tmp_path / "records.csv").as_uri(),
            "format": "csv",
            "csv.null-literal": "NULL",
        }
        pairs = ", ".join(f"'{name}'='{value}'" for name, value in options.items())
        t.execute_sql(f"CREATE TEMPORARY TABLE records ({', '.join(columns)}) WITH ({pairs})")
        raw = "SELECT n, UNHEX(k) AS k, UNHEX(v) AS v FROM records"
        with t.execute_sql(f"SELECT n, {expression} FROM ({raw})").collect() as results:
            return [key for _, key in sorted((row[0], row[1]) for row in results)]

    return ask


def _hex(raw: bytes | None) -> str:
    return "NULL" if raw is None else raw.hex()


def _documents(seed: int) -> list[bytes]:
    random.seed(seed)
    scalars = [
        "x", "", " a ", "é", "日本", 'a"b\\c/d', "null", 0, -1, 603, 2**63, 10**30, 1.5, 604.0,
        True, False, None, [], [1], {}, {"id": 1}, "x" * 300,
    ]  # fmt: skip
    documents = [json.dumps({"customer": {"id": s}, "n": 1.50}).encode() for s in scalars]
    documents += [json.dumps({"customer": {"id": s}}, ensure_ascii=False).encode() for s in scalars]
    for _ in range(150):
        nested = {random.choice(["id", "other", "i'd"]): random.choice(scalars) for _ in range(2)}
        outer = {random.choice(["customer", "x"]): random.choice([nested, random.choice(scalars)])}
        text = json.dumps(outer, indent=random.choice([None, 1])).encode()
        if random.random() < 0.2:
            cut = random.randrange(len(text))
            text = text[:cut]
        documents.append(text)
    documents += [
        b'{"customer":{"id":1,"id":2}}', b'{"customer":{"id":-0}}', b'{"customer":{"id":1e3}}',
        b'{"customer":{"id":"\xff"}}', b"", b"null", b"[]", b'{"customer":{"id":"\\u0041\\n"}}',
        b'{"customer":{"id":"\\ud83d\\ude00"}}', b'{"customer":{"id":"a\\ud800"}}',
    ]  # fmt: skip
    return documents


def test_a_field_of_the_value_routes_as_it_joins(jvm_keys: Ask) -> None:
    rule = KeyRule(KeyOrigin.VALUE, KeyFormat.JSON, ("customer", "id"))
    documents = _documents(seed=1)
    routed = jvm_keys(key_expression(rule), [(None, d) for d in documents])
    compared = 0
    for document, jvm_key in zip(documents, routed, strict=True):
        try:
            key, _ = EventReader(rule).read(None, document)
        except BadRecord:
            continue  # goes to the dead-letter topic, however it was routed
        assert jvm_key == key, document
        compared += key is not None
    assert compared > 30


def test_a_quote_in_a_field_name_is_no_way_out_of_the_path(jvm_keys: Ask) -> None:
    rule = KeyRule(KeyOrigin.VALUE, KeyFormat.JSON, ("i'd\\",))
    assert jvm_keys(key_expression(rule), [(None, json.dumps({"i'd\\": "a"}).encode())]) == ["a"]


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        (KeyRule(KeyOrigin.KEY, KeyFormat.TEXT), '"603"'),
        (KeyRule(KeyOrigin.KEY, KeyFormat.JSON), "603"),
    ],
)
def test_the_record_key_routes_by_its_format(jvm_keys: Ask, rule: KeyRule, key: str) -> None:
    records: Records = [(b'"603"', b"{}"), (None, b"{}"), (b"", b"{}")]
    first, none, _ = jvm_keys(key_expression(rule), records)
    assert first == rule.in_record_key(b'"603"') == key
    assert none is None


def test_debezium_and_tombstones_route_as_they_join(jvm_keys: Ask) -> None:
    reader = RowReader(
        TableFormat.DEBEZIUM_JSON,
        KeyRule(KeyOrigin.VALUE, KeyFormat.JSON, ("id",)),
        KeyRule(KeyOrigin.KEY, KeyFormat.JSON, ("id",)),
    )
    records: Records = [
        (b'{"id":1}', b'{"op":"c","before":null,"after":{"id":1}}'),
        (b'{"id":2}', b'{"op":"d","before":{"id":2},"after":null}'),
        (b'{"id":3}', b'{"payload":{"op":"u","before":{"id":3},"after":{"id":3}},"schema":{}}'),
        (b'{"id":4}', b'{"payload":{"op":"d","before":{"id":4},"after":null}}'),
        (b'{"id":5}', None),
    ]
    routed = jvm_keys(row_key_expression(reader), records)
    assert routed == [reader.read(k, v)[0] for k, v in records] == ["1", "2", "3", "4", "5"]


def test_only_a_partition_that_is_short_of_its_offset_keeps_the_stream_waiting() -> None:
    expression = pause_watermark({0: 99, 1: 7})
    t = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    # Short, reached, past, short, reached, and a partition that nobody knew of.
    records = [(0, 98), (0, 99), (0, 500), (1, 6), (1, 7), (2, 0)]
    rows = ", ".join(f"({n}, {p}, {o})" for n, (p, o) in enumerate(records))
    query = f"SELECT n, EXTRACT(YEAR FROM {expression}) FROM (VALUES {rows}) AS r(n, p, o)"
    with t.execute_sql(query).collect() as results:
        years = [year for _, year in sorted((row[0], row[1]) for row in results)]
    assert [year > 2000 for year in years] == [False, True, True, False, True, True]


def test_a_table_that_was_empty_at_submission_keeps_nothing_waiting() -> None:
    assert "CASE" not in pause_watermark({})
