"""The main job on a real broker and a real cluster, submitted with `flink run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ops import flink_run
from ops.stack.flink import FlinkCluster
from tests.cluster.conftest import NewJob
from tests.support import merges
from tests.support.join_job import JoinJob, names, order, product
from tests.support.kafka import Kafka, Message
from udfs.core.errors import StackError

OURS = "tablegate-"


def test_every_event_gets_its_verdict_and_leaves_exactly_once(
    kafka: Kafka, new_job: NewJob
) -> None:
    job = new_job()
    kafka.produce(
        job.products,
        [
            product("p1", "mug"),
            product("p2", "cup"),
            product("p1", "jar"),
            Message(b"p2", None),
            Message(b"p3", b'{"name":null}'),
            Message(b"p4", b"{}"),
            Message(b"p5", b"{not json"),
        ],
    )
    kafka.produce(
        job.orders,
        [
            # Older than any row: the gate is by offset, not by timestamp.
            Message(b"o1", b'{"product": "p1", "price": 12.50}', [("trace", b"t1")], 1_000),
            Message(b"o2", b'{"product":"p2"}', [("trace", b"t2")], 2_000),
            Message(b"o3", b'{"product":"p3"}'),
            Message(b"o4", b'{"product":"p4"}'),
            Message(b"o5", b'{"product":"p5"}'),
            Message(b"o6", b'{"product":null}'),
            Message(b"o7", b"{}"),
            Message(b"o8", b"{broken"),
            Message(b"o9", None),
            Message(None, b'{"product":"p1"}'),
            Message(b"o11", b'{"product":604.0}'),
            # Half of a surrogate pair, and the time that says that there is none.
            Message(b"o12", b'{"product":"\\ud800"}'),
            Message(b"o13", b'{"product":"p1"}', timestamp=-1),
        ],
    )
    job.start(by_command_line=True)
    job.wait_for(13 + 1)

    enriched = {r.key: r for r in job.read("enriched")}
    assert set(enriched) == {b"o1", b"o3", b"o4", None, b"o13"}
    first = enriched[b"o1"]
    assert first.value == b'{"product": "p1", "price": 12.50,"product_name":"jar"}'
    assert (first.headers, first.timestamp) == ((("trace", b"t1"),), 1_000)
    assert json.loads(enriched[b"o3"].value or b"") == {"product": "p3", "product_name": None}
    assert json.loads(enriched[b"o4"].value or b"") == {"product": "p4"}

    retry = {r.key: r for r in job.read("retry")}
    assert {k: r.header(f"{OURS}verdict") for k, r in retry.items()} == {
        b"o2": "DELETED",
        b"o5": "NOT_FOUND",
    }
    miss = retry[b"o2"]
    assert (miss.value, miss.header(f"{OURS}timestamp")) == (b'{"product":"p2"}', "2000")
    assert miss.timestamp > 1_700_000_000_000
    assert miss.header("trace") == "t2"
    assert miss.header(f"{OURS}attempt") == "1"
    assert int(miss.header(f"{OURS}first-seen") or 0) > 1_700_000_000_000
    sources = {r.source: (r.key, r.value) for r in kafka.consume_all(job.orders)}
    assert sources[miss.header(f"{OURS}source") or ""] == (b"o2", b'{"product":"p2"}')

    dead = {(r.key, r.value): r for r in job.read("dead")}
    verdicts = {record: r.header(f"{OURS}verdict") for record, r in dead.items()}
    assert verdicts == {
        (b"o6", b'{"product":null}'): "NO_KEY",
        (b"o7", b"{}"): "NO_KEY",
        (b"o8", b"{broken"): "BAD_RECORD",
        (b"o9", None): "BAD_RECORD",
        (b"o11", b'{"product":604.0}'): "BAD_RECORD",
        (b"o12", b'{"product":"\\ud800"}'): "BAD_RECORD",
        (b"p5", b"{not json"): "BAD_RECORD",
    }
    rows = {r.source: (r.key, r.value) for r in kafka.consume_all(job.products)}
    for record, letter in dead.items():
        source = letter.header(f"{OURS}source") or ""
        assert (sources | rows)[source] == record
        assert (letter.header(f"{OURS}error") or "").startswith(f"{source}: ")

    # The events above were held. These come to an open gate; and a job that fails at each of them
    # would bring them out as well, by its restarts.
    kafka.produce(job.orders, [order(14, "p1"), order(15, "p5")])
    job.wait_for(13 + 1 + 2)
    assert flink_run.failure(job.flink, job.job_id) == ""


def test_debezium_a_merge_function_and_keys_in_json(kafka: Kafka, new_job: NewJob) -> None:
    settings: dict[str, dict[str, Any]] = {
        "job": {"merge": "merges:name_and_ids"},
        "table": {
            "format": "debezium-json",
            "fields": {},
            "key": {"from": "value", "path": "id"},
            "tombstone_key": {"format": "json", "path": "id"},
        },
        "stream": {"key": {"from": "key", "format": "json", "path": "product.id"}},
    }
    job = new_job(settings=settings)
    kafka.produce(
        job.products,
        [
            Message(b'{"id":1}', b'{"op":"r","before":null,"after":{"id":1,"name":"mug"}}'),
            Message(b'{"id":2}', b'{"op":"c","before":null,"after":{"id":2,"name":"cup"}}'),
            Message(
                b'{"id":1}',
                b'{"schema":{},"payload":{"op":"u","before":{"id":1},"after":{"id":1,"name":"jar"}}}',
            ),
            Message(b'{"id":2}', b'{"op":"d","before":{"id":2},"after":null}'),
            Message(b'{"id":2}', None),
        ],
    )
    kafka.produce(
        job.orders,
        [Message(f'{{"product":{{"id":{n}}}}}'.encode(), b'{"order":7}') for n in (1, 2, 3)],
    )
    job.start(python_files=[Path(merges.__file__)])
    job.wait_for(3)
    (hit,) = job.read("enriched")
    assert json.loads(hit.value or b"") == {"order": 7, "id": 1, "name": "jar"}
    assert hit.key == b'{"product":{"id":1}}'
    assert sorted(str(r.header(f"{OURS}verdict")) for r in job.read("retry")) == [
        "DELETED",
        "NOT_FOUND",
    ]
    # Again in the same TaskManagers, whose Python has the module in memory and its file no more.
    savepoint = job.stop()
    kafka.produce(job.orders, [Message(b'{"product":{"id":1}}', b'{"order":8}')])
    job.start(from_savepoint=savepoint, python_files=[Path(merges.__file__)])
    job.wait_for(4)
    assert [json.loads(r.value or b"")["order"] for r in job.read("enriched")] == [7, 8]


def test_a_table_written_in_transactions_opens_the_gate_and_exactly_once_output_is_committed(
    kafka: Kafka, new_job: NewJob
) -> None:
    name = "exactly-once-test"
    settings = {"job": {"delivery": "exactly-once", "transactional_id_prefix": name}}
    job = new_job(settings=settings)
    kafka.produce(job.products, [product("p1", "mug")], transactional=True)
    kafka.produce(job.products, [product("p1", "ghost")], transactional=True, abort=True)
    kafka.produce(job.orders, [order(1, "p1"), order(2, "p2")])
    job.start(by_command_line=True)
    job.wait_until(lambda: len(job.read("enriched") + job.read("retry")) == 2, "committed output")
    assert names(job.read("enriched")) == {b"o1": "mug"}


def test_a_missing_topic_is_named_and_nothing_is_submitted(
    kafka: Kafka, flink: FlinkCluster, tmp_path: Path
) -> None:
    job = JoinJob(kafka, flink, tmp_path)
    before = len(flink_run.jobs(flink))
    with pytest.raises(StackError, match="no-such-table"):
        job.start(overrides=["table.topic=no-such-table"], by_command_line=True)
    assert len(flink_run.jobs(flink)) == before
