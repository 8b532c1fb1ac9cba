"""`tablegate plan --config` on real topics: what is counted, sampled and timed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from jobs.settings import from_mapping
from ops.cli import app
from ops.stack.ports import free_ports
from tests.support.kafka import Kafka, Message, unique
from udfs.core.errors import PreflightError, TablegateError

COMPACT = {"cleanup.policy": "compact"}


def config(
    folder: Path,
    kafka: Kafka,
    stream: str,
    table: str,
    start: str = "earliest",
    brokers: str = "",
) -> Path:
    tables: dict[str, Any] = {
        "job": {"name": "plan", "parallelism": 2},
        "kafka": {"bootstrap_servers": brokers or kafka.bootstrap_servers},
        "stream": {"topic": stream, "start": start, "key": {"from": "key"}},
        "table": {"topic": table, "fields": {"name": "name"}},
        "output": {name: f"{stream}.{name}" for name in ("enriched", "retry", "dead")},
    }
    path = folder / f"{start}.toml"
    path.write_text(from_mapping(tables).describe())
    return path


def told(*arguments: str) -> Mapping[str, Any]:
    done = CliRunner().invoke(app, ["plan", "--json", *arguments])
    if done.exception is not None:
        raise done.exception
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def values(found: Mapping[str, Any], *names: str) -> list[float]:
    return [found["inputs"][name]["value"] for name in names]


def test_numbers_that_are_not_given_are_those_of_the_topics(kafka: Kafka, tmp_path: Path) -> None:
    stream = kafka.create_topic("orders", 2, {"retention.ms": "30000"})
    table = kafka.create_topic("products", 2, COMPACT)
    now_ms = time.time_ns() // 1_000_000
    # Each row with 10 bytes; each event with 2 + 8 + header (1 + 3 + 10) = 24.
    rows = [Message(f"p{n:03}".encode(), b"{}____") for n in range(900)]
    kafka.produce(table, [*rows, Message(b"p000", None)])
    old = [Message(b"k1", b"12345678", timestamp=now_ms - 3_600_000, partition=0)] * 50
    new = [Message(b"k1", b"12345678", [("h", b"abc")], now_ms - 1_000, n % 2) for n in range(600)]
    kafka.produce(stream, [*old, *new])
    path = config(tmp_path, kafka, stream, table)

    found = told("--config", str(path), "--window", "1")
    names = ("rows", "backlog", "row_bytes", "event_bytes", "parallelism", "retention")
    assert values(found, *names) == [901, 650, 10, 24, 2, 30]
    # 600 events in a minute; the older ones are not in it.
    assert values(found, "events_per_s") == [pytest.approx(10, rel=0.01)]
    origins = [found["inputs"][name]["origin"] for name in (*names, "events_per_s")]
    assert origins == ["measured"] * 4 + ["given"] + ["measured"] * 2
    assert table in found["inputs"]["rows"]["source"]
    assert "upper bound" in found["inputs"]["rows"]["source"]

    # What is given is not asked for, and a restart has no backlog of a first start.
    given = ("--delta-rows", "7", "--events-per-second", "3", "--event-bytes", "5")
    found = told("--config", str(path), *given)
    assert values(found, "rows", "events_per_s", "event_bytes", "backlog") == [7, 3, 5, 0]
    latest = config(tmp_path, kafka, stream, table, start="latest")
    assert values(told("--config", str(latest), "--window", "1"), "backlog") == [0]


def test_markers_and_tombstones_at_the_end_are_no_rows_to_measure(
    kafka: Kafka, tmp_path: Path
) -> None:
    stream = kafka.create_topic("orders")
    table = kafka.create_topic("products", 1, COMPACT)
    kafka.produce(table, [Message(b"p1", b"12345678")], transactional=True)
    kafka.produce(table, [Message(b"p1", None)], transactional=True)
    found = told(
        "--config", str(config(tmp_path, kafka, stream, table)), "--events-per-second", "1"
    )
    # Offsets 0 and 2 are records, 1 and 3 markers; the gate waits for offset 2.
    assert values(found, "rows", "row_bytes") == [3, 10]
    # An empty stream: nothing to measure, and nothing in its place.
    assert "event_bytes" not in found["inputs"]


def test_a_silent_stream_has_no_rate_and_the_option_is_named(kafka: Kafka, tmp_path: Path) -> None:
    stream, table = kafka.create_topic("orders"), kafka.create_topic("products", 1, COMPACT)
    with pytest.raises(PreflightError, match=rf"stream topic {stream} .* --events-per-second"):
        told("--config", str(config(tmp_path, kafka, stream, table)))


def test_a_topic_that_is_not_there_and_brokers_that_are_not_are_said(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ops.plan.topics.TIMEOUT_S", 1.0)
    stream, absent = kafka.create_topic("orders"), unique("absent")
    with pytest.raises(TablegateError, match=f"Topic {absent} cannot be read"):
        told("--config", str(config(tmp_path, kafka, stream, absent)))
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(TablegateError, match="The brokers did not say"):
        told("--config", str(config(tmp_path, kafka, stream, absent, brokers=nobody)))
