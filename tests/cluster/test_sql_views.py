"""What an analyst reads: each view of ``sql/views/`` by its rows, and audits of the topics."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.cli import app
from ops.flink_run import ENRICH_SQL
from ops.stack.flink import FlinkCluster
from tests.support.deploys import status
from tests.support.join_job import JoinJob, order_of, product
from tests.support.kafka import Kafka, Message
from tests.support.sql_files import json_topic, sql_folder

_LAG_MS = 1_000
_SETTINGS: dict[str, dict[str, Any]] = {
    "gate": {"tick_interval_ms": 250, "max_table_lag_ms": _LAG_MS},
}
# View to the columns of a topic that is made of it, and the key of a view whose rows change.
_PLACE = "stream_partition INT, stream_offset BIGINT"
_EVENT = f"join_key STRING, event STRING, record_key STRING, event_time TIMESTAMP_LTZ(3), {_PLACE}"
_COUNTS = "hits BIGINT, misses BIGINT, hit_rate_bp BIGINT, not_loaded BIGINT, stale_table BIGINT"
_WINDOW = "window_start TIMESTAMP(3), window_end TIMESTAMP(3)"
_VIEWS = {
    "enriched": (_EVENT, ""),
    "misses": (f"verdict STRING, {_EVENT}", ""),
    "unreadable": (f"verdict STRING, problem STRING, event STRING, {_PLACE}", ""),
    "hit_rate": (f"{_WINDOW}, {_COUNTS}, unreadable BIGINT", ""),
    "table_now": ("join_key STRING, content STRING", "join_key"),
    "table_progress": (
        "table_partition INT, reached BIGINT, records BIGINT, unreadable BIGINT",
        "table_partition",
    ),
}
_NOON_MS = 1_700_049_600_000


class Analyst:
    """A job whose views go to topics of their own, and what stands there."""

    def __init__(self, kafka: Kafka, flink: FlinkCluster, folder: Path) -> None:
        self.stats = kafka.create_topic("stats")
        stats = {"topic": self.stats, "window_ms": 1_000}
        self.job = JoinJob(kafka, flink, folder, settings=_SETTINGS | {"stats": stats})
        self.topics = {
            view: kafka.create_topic(view.replace("_", "-"), 1, {"cleanup.policy": "compact"})
            if key
            else kafka.create_topic(view.replace("_", "-"))
            for view, (_, key) in _VIEWS.items()
        }
        self.sql = sql_folder(
            folder / "sql",
            {
                "tables/90_mine.sql": "".join(
                    json_topic(f"my_{view}", columns, self.topics[view], key=key)
                    for view, (columns, key) in _VIEWS.items()
                ),
                "inserts/90_mine.sql": "".join(
                    f"INSERT INTO my_{view} SELECT * FROM {view};\n" for view in _VIEWS
                ),
            },
        )

    def rows(self, view: str) -> list[dict[str, Any]]:
        """Of a view whose rows only come."""
        return [json.loads(r.value or b"") for r in self.job.kafka.consume_all(self.topics[view])]

    def now(self, view: str, column: str) -> dict[Any, dict[str, Any]]:
        """The newest row of each key, of a view whose rows change."""
        found: dict[Any, dict[str, Any]] = {}
        for record in self.job.kafka.consume_all(self.topics[view]):
            key = json.loads(record.key or b"")[column]
            if record.value is None:
                found.pop(key, None)
            else:
                found[key] = json.loads(record.value)
        return found

    def table(self) -> dict[str, Any]:
        """What ``table_now`` says of each key."""
        return {
            k: json.loads(row["content"]) for k, row in self.now("table_now", "join_key").items()
        }


@pytest.fixture(scope="module")
def analyst(
    kafka: Kafka, flink: FlinkCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Analyst]:
    """Three rows in two partitions, one of them deleted and one bad; four events."""
    found = Analyst(kafka, flink, tmp_path_factory.mktemp("views"))
    job = found.job
    kafka.produce(
        job.products,
        [
            Message(*product("p1", "old"), partition=0),
            Message(*product("p1", "mug"), partition=0),
            Message(*product("p2", "cup"), partition=1),
            Message(*product("p3", "jar"), partition=1),
            Message(b"p3", None, partition=1),
            Message(b"p4", b"[1]", partition=1),
        ],
    )
    kafka.produce(
        job.orders,
        [
            Message(*order_of("hit", "p1"), timestamp=_NOON_MS, partition=1),
            Message(*order_of("deleted", "p3"), timestamp=_NOON_MS, partition=1),
            Message(*order_of("unknown", "p9"), timestamp=_NOON_MS, partition=1),
            Message(b"no key", b"{}", partition=1),
            Message(b"broken", b"{", partition=1),
        ],
    )
    try:
        job.start(entry=ENRICH_SQL, job_arguments=["--sql", str(found.sql)])
        job.wait_for(6)
        yield found
    finally:
        job.cancel()


def test_each_event_is_a_row_of_the_view_of_its_outcome(analyst: Analyst) -> None:
    analyst.job.wait_until(lambda: len(analyst.rows("unreadable")) >= 2, "the views' rows")
    (hit,) = analyst.rows("enriched")
    assert json.loads(hit.pop("event")) == {"product": "p1", "product_name": "mug"}
    assert hit == {
        "join_key": "p1",
        "record_key": "hit",
        "event_time": "2023-11-15 12:00:00Z",
        "stream_partition": 1,
        "stream_offset": 0,
    }
    misses = {row["record_key"]: row for row in analyst.rows("misses")}
    assert {key: (row["verdict"], row["join_key"]) for key, row in misses.items()} == {
        "deleted": ("DELETED", "p3"),
        "unknown": ("NOT_FOUND", "p9"),
    }
    assert misses["unknown"]["event"] == order_of("unknown", "p9")[1].decode()
    problems = {row["verdict"]: row for row in analyst.rows("unreadable")}
    assert problems["NO_KEY"] == {
        "verdict": "NO_KEY",
        "problem": "join key is missing or null",
        "event": "{}",
        "stream_partition": 1,
        "stream_offset": 3,
    }
    assert "not valid JSON" in problems["BAD_RECORD"]["problem"]


def test_the_hit_rate_counts_each_event_in_one_window(analyst: Analyst) -> None:
    def totals() -> dict[str, int]:
        windows = analyst.rows("hit_rate")
        return {
            name: sum(window[name] for window in windows)
            for name in ("hits", "misses", "unreadable", "not_loaded", "stale_table")
        }

    # A window is told when something comes after its end, and the table's ticks do.
    analyst.job.wait_until(lambda: sum(totals().values()) >= 5, "windows of all events")
    assert totals() == {
        "hits": 1,
        "misses": 2,
        "unreadable": 2,
        "not_loaded": 0,
        "stale_table": 0,
    }
    for window in analyst.rows("hit_rate"):
        decided = window["hits"] + window["misses"]
        rate = window["hits"] * 10_000 // decided if decided else None
        assert window["hit_rate_bp"] == rate


def test_the_counts_of_the_other_variant_are_told_as_well(analyst: Analyst) -> None:
    job = analyst.job

    def totals() -> Counter[str]:
        told: Counter[str] = Counter()
        for record in job.kafka.consume_all(analyst.stats):
            told.update(json.loads(record.value or b"")["counts"])
        return +told

    each_once = {"HIT", "DELETED", "NOT_FOUND", "NO_KEY", "BAD_RECORD", "BAD_ROW"}
    job.wait_until(lambda: sum(totals().values()) >= len(each_once), "all counts")
    assert totals() == dict.fromkeys(each_once, 1)


def test_status_knows_where_it_stands(analyst: Analyst) -> None:
    job = analyst.job
    job.wait_until(lambda: status(job)[1].get("phase") == "ready", "a job that is ready")
    job.wait_until(lambda: status(job)[1]["decided"].get("HIT") == 1, "the hit rate's counts")
    code, found = status(job)
    assert code == 0
    assert (found["stream"]["lag"], found["join"]["held"]) == (0, 0)
    assert (found["table"]["percent"], found["decided"]["DELETED"]) == (100, 1)


def test_the_table_is_seen_as_it_is_and_how_far_it_was_read(analyst: Analyst) -> None:
    job = analyst.job
    first = {"p1": {"name": "mug"}, "p2": {"name": "cup"}}
    job.wait_until(lambda: analyst.table() == first, "the table's rows")
    progress = {
        0: {"table_partition": 0, "reached": 1, "records": 2, "unreadable": 0},
        1: {"table_partition": 1, "reached": 3, "records": 4, "unreadable": 1},
    }
    job.wait_until(
        lambda: analyst.now("table_progress", "table_partition") == progress, "the progress"
    )
    job.kafka.produce(
        job.products,
        [
            Message(*product("p1", "beaker"), partition=0),
            Message(b"p2", None, partition=1),
            Message(*product("p5", "pot"), partition=0),
        ],
    )
    changed = {"p1": {"name": "beaker"}, "p5": {"name": "pot"}}
    job.wait_until(lambda: analyst.table() == changed, "the changed table")
    assert analyst.now("table_progress", "table_partition")[0]["reached"] == 3


def test_audits_find_what_is_wrong_and_nothing_else(
    analyst: Analyst, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = analyst.job
    replaced_by = job.kafka.end_offsets(job.products)[0]
    rows = [
        Message(*product("p1", "jug"), partition=0),
        Message(*product("p7", "lid"), partition=0, timestamp=_NOON_MS + 900),
    ]
    job.kafka.produce(job.products, rows)
    # Behind the changes of the table, by more than the lag that is accepted.
    later_ms = time.time_ns() // 1_000_000 + 10 * _LAG_MS
    clean = _audit(analyst, monkeypatch)
    assert clean == (0, {"wrong_nulls": [], "stale_joins": [], "duplicates": [], "labels": []})

    (hit,) = [r for r in job.read("enriched") if r.key == b"hit"]
    also = job.kafka.create_topic("also")
    letter = f"{job.outputs['dead']}[0]@7"
    planted = {
        "retry": [
            _set_aside("had a row", "p1", "NOT_FOUND", "made-up[0]@0", later_ms),
            # None of these is wrong: no row, deleted, opened short, row younger than the lag.
            _set_aside("none", "p9", "NOT_FOUND", "made-up[0]@1", later_ms),
            _set_aside("gone", "p3", "DELETED", "made-up[0]@2", later_ms),
            _set_aside("short", "p1", "NOT_LOADED", "made-up[0]@3", later_ms),
            _set_aside("early", "p1", "NOT_FOUND", "made-up[0]@4", _NOON_MS),
            # Its row was younger than the lag by less than a second.
            _set_aside("at once", "p7", "NOT_FOUND", "made-up[0]@10", _NOON_MS + 1_500),
            Message(b"bare", order_of("bare", "p9")[1]),
            _set_aside("no source", "p9", "NOT_FOUND", "", later_ms),
            # When a first try missed is not told; a later one is set aside when it misses.
            _set_aside("waited", "p1", "NOT_FOUND", "made-up[0]@5", _NOON_MS, written_ms=later_ms),
            _set_aside(
                "tried again",
                "p1",
                "NOT_FOUND",
                "made-up[0]@5",
                _NOON_MS,
                written_ms=later_ms,
                attempt=2,
            ),
            *[_set_aside("twice", "p9", "NOT_FOUND", "made-up[0]@6", later_ms)] * 2,
            # Replayed, and once more with --again: what the replay wrote, and each of its rounds.
            _set_aside("replayed", "p9", "NOT_FOUND", "made-up[0]@7", later_ms),
            *[_replayed("replayed", "p9", "made-up[0]@7", letter)] * 2,
            *[_set_aside("replayed", "p9", "NOT_FOUND", "made-up[0]@7", later_ms, letter)] * 2,
            # Sent once, and came out twice.
            _replayed("replayed", "p9", "made-up[0]@8", letter + "1"),
            *[_set_aside("torn", "p9", "NOT_FOUND", "made-up[0]@8", later_ms, letter + "1")] * 2,
        ],
        "dead": [_set_aside("silent", "p9", "NOT_FOUND", "made-up[0]@9", later_ms)],
        "also": [
            Message(hit.key, hit.value, hit.headers, hit.timestamp),
            Message(
                *order_of("without its row", "p1"), [("tablegate-verdict", b"NOT_FOUND")], later_ms
            ),
        ],
        "enriched": [
            Message(hit.key, hit.value, hit.headers, hit.timestamp),
            _enriched("stale", "old", later_ms),
            _enriched("new", "jug", later_ms),
            # Before the row was replaced, so it may.
            _enriched("old and early", "old", _NOON_MS),
        ],
    }
    topics = job.outputs | {"also": also}
    for output, messages in planted.items():
        job.kafka.produce(topics[output], messages)
    stands: dict[tuple[str, str], str] = {}
    for output in planted:
        for record in job.kafka.consume_all(topics[output]):
            # Of several the first one, as the audits tell it.
            place = output, (record.key or b"").decode()
            stands[place] = min(stands.get(place, record.source), record.source)
    code, found = _audit(analyst, monkeypatch, "--set", f"output.also.{also}=emit_null")
    assert code == 1
    assert {name: [row["source"] for row in rows] for name, rows in found.items()} == {
        "wrong_nulls": sorted(
            [
                stands["retry", "had a row"],
                stands["retry", "tried again"],
                stands["also", "without its row"],
            ]
        ),
        "stale_joins": [stands["enriched", "stale"]],
        "duplicates": sorted(
            [stands["enriched", "hit"], stands["retry", "twice"], stands["retry", "torn"]]
        ),
        "labels": sorted(
            [stands["retry", "bare"], stands["retry", "no source"], stands["dead", "silent"]]
        ),
    }
    problems = {row["source"]: row["problem"] for rows in found.values() for row in rows}
    assert "NOT_FOUND for key p1" in problems[stands["also", "without its row"]]
    stale = found["stale_joins"][0]["problem"]
    assert f"{job.products}[0]@0, which had been replaced by @{replaced_by}" in stale
    twice = problems[stands["enriched", "hit"]]
    assert "2 records with its key and time, and 1 such events" in twice
    torn = problems[stands["retry", "torn"]]
    assert torn == f"2 records for made-up[0]@8, attempt 1, replayed from {letter}1"
    assert problems[stands["retry", "bare"]].startswith("verdict is missing, source is missing")
    assert problems[stands["retry", "no source"]] == "source is missing"
    assert problems[stands["dead", "silent"]] == "error is missing"


def _audit(
    analyst: Analyst, monkeypatch: pytest.MonkeyPatch, *more: str
) -> tuple[int, Mapping[str, list[dict[str, str]]]]:
    monkeypatch.setattr("ops.audit.cli.choose", lambda *_: analyst.job.flink)
    arguments = ["--config", str(analyst.job.config), "--sql", str(analyst.sql), "--json", *more]
    done = CliRunner().invoke(app, ["audit", *arguments])
    assert done.exit_code in {0, 1}, done.output
    told = json.loads(done.stdout)
    assert told["clean"] is (done.exit_code == 0)
    return done.exit_code, {audit["name"]: audit["first"] for audit in told["audits"]}


def _set_aside(
    name: str,
    key: str,
    verdict: str,
    source: str,
    seen_ms: int,
    replayed: str = "",
    *,
    written_ms: int = _NOON_MS,
    attempt: int = 1,
) -> Message:
    headers = {
        "tablegate-verdict": verdict,
        "tablegate-source": source,
        "tablegate-attempt": str(attempt),
        "tablegate-first-seen": str(seen_ms),
        "tablegate-timestamp": str(_NOON_MS),
    } | ({"tablegate-replayed": replayed} if replayed else {})
    told = [(header, text.encode()) for header, text in headers.items()]
    return Message(*order_of(name, key), told, written_ms)


def _replayed(name: str, key: str, source: str, letter: str) -> Message:
    """What `tablegate retry replay` sends to the retry topic (docs/retry.md)."""
    headers = {
        "tablegate-source": source,
        "tablegate-first-seen": str(_NOON_MS),
        "tablegate-timestamp": str(_NOON_MS),
        "tablegate-replayed": letter,
    }
    told = [(header, text.encode()) for header, text in headers.items()]
    return Message(*order_of(name, key), told, _NOON_MS)


def _enriched(name: str, carried: str, event_ms: int) -> Message:
    value = json.dumps({"product": "p1", "product_name": carried}).encode()
    return Message(name.encode(), value, (), event_ms)
