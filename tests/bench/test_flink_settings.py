"""What the systems on Flink are told, without starting any of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.systems import flink
from bench.systems.contract import Work
from bench.systems.flink_peers import FlinkSqlTemporal
from bench.systems.tablegate import TablegateSql, job_settings, overrides

WORK = Work(
    brokers="127.0.0.1:9",
    name="run-1",
    stream="events",
    table="rows",
    enriched="enriched",
    place=Path("place"),
    parallelism=2,
)


def test_a_state_backend_of_another_name_is_refused() -> None:
    with pytest.raises(RuntimeError, match="'rocks', expected one of rocksdb, hashmap"):
        flink.cluster_settings(Path("here"), {"state": "rocks"})


def test_state_on_the_heap_takes_what_rocksdb_would_have() -> None:
    told = flink.cluster_settings(Path("here"), {"state": "hashmap"})
    assert told["state.backend.type"] == "hashmap"
    assert "taskmanager.memory.managed.size" in told
    kept = flink.cluster_settings(Path("here"), {})
    assert kept["state.backend.type"] == "rocksdb"
    assert "taskmanager.memory.managed.size" not in kept


def test_an_option_that_nobody_looks_at_is_refused_before_a_cluster_is_started() -> None:
    work = replace(WORK, options={"set.gate.tick_interval_ms": "100"})
    with pytest.raises(RuntimeError, match=r"'set\.gate\.tick_interval_ms' is unknown"):
        FlinkSqlTemporal().start(work)
    flink.refuse_unknown(work.options, TablegateSql.more_options)
    flink.refuse_unknown({"state": "hashmap", "flink.web.timeout": "1 s"}, ())


def test_flink_options_and_settings_of_the_job_are_told_apart() -> None:
    options = {"state": "hashmap", "flink.web.timeout": "1 s", "set.job.parallelism": "1"}
    assert flink.flink_options(options) == {"web.timeout": "1 s"}
    assert overrides(options) == ["job.parallelism=1"]


def test_our_job_gets_the_topics_of_the_work_and_two_of_its_own() -> None:
    settings = job_settings(WORK)
    assert settings.job.name == "run-1"
    assert settings.job.parallelism == 2
    topics = (settings.stream.topic, settings.table.topic, settings.output.enriched)
    assert topics == ("events", "rows", "enriched")
    assert (settings.output.retry, settings.output.dead) == ("enriched-retry", "enriched-dead")


def test_every_flink_system_batches_its_output_alike() -> None:
    for file in ("temporal.sql", "passthrough.sql"):
        text = flink.sql_of(file, WORK, None)
        for name, value in flink.PRODUCER.items():
            assert text.count(f"'properties.{name}' = '{value}'") == 1
    assert job_settings(WORK).kafka.properties.plain() == flink.PRODUCER


def test_statements_start_from_a_savepoint_only_when_there_is_one() -> None:
    assert "state-recovery" not in flink.sql_of("temporal.sql", WORK, None)
    text = flink.sql_of("temporal.sql", WORK, "file:/saved")
    assert text.startswith("SET 'execution.state-recovery.path' = 'file:/saved';\n")
