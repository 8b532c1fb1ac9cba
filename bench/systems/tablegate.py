"""Ours: both variants of the join, each also without its gate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from bench.systems.contract import Work
from bench.systems.flink import JOBS, PRODUCER, SUBMIT_S, FlinkSystem
from jobs.settings import Settings, from_mapping
from ops import flink_run
from ops.demo import topics
from ops.paths import ROOT, SQL
from ops.stack.flink import FlinkCluster

_SET = "set."
_CONFIG = "settings.toml"
_UNGATED = ROOT / "ops" / "demo" / "ungated.py"
# What the SQL variant does not keep is off.
_SQL_MISS = ("miss.grace_ms=0", "miss.retry_after=")


class TablegateDatastream(FlinkSystem):
    """jobs/enrich.py. An option ``set.NAME`` is a setting of the job, as with ``--set``."""

    name: ClassVar[str] = "tablegate-datastream"
    about: ClassVar[str] = "ours: jobs/enrich.py, gated, Python in thread mode"
    gated: ClassVar[bool] = True
    more_options: ClassVar[frozenset[str]] = frozenset({_SET})
    entry: ClassVar[Path] = flink_run.ENRICH
    arguments: ClassVar[tuple[str, ...]] = ()
    overrides: ClassVar[tuple[str, ...]] = ()

    def submit(self, cluster: FlinkCluster, work: Work, savepoint: str | None) -> str:
        """Write the settings, make the topics that only this system has, and submit."""
        settings = job_settings(work)
        own = (settings.output.retry, settings.output.dead)
        if savepoint is None:
            topics.create(work.brokers, dict.fromkeys(own, topics.KEEP), work.partitions)
        config = work.place / _CONFIG
        config.write_text(settings.describe())
        return flink_run.submit(
            cluster,
            timeout_s=SUBMIT_S,
            config=config,
            entry=self.entry,
            from_savepoint=savepoint,
            overrides=[*self.overrides, *overrides(work.options)],
            job_arguments=self.arguments,
        )


class TablegateDatastreamBroadcast(TablegateDatastream):
    """The same with the whole table on the heap of every subtask."""

    name: ClassVar[str] = "tablegate-datastream-broadcast"
    about: ClassVar[str] = 'the same with join.lookup_state = "broadcast": the table on the heap'
    overrides: ClassVar[tuple[str, ...]] = ("join.lookup_state=broadcast",)


class TablegateDatastreamNoGate(TablegateDatastream):
    """ops/demo/ungated.py: the same sources, state and outputs."""

    name: ClassVar[str] = "tablegate-datastream-no-gate"
    about: ClassVar[str] = "the same job without gate, hold and retries, as in the demo"
    gated: ClassVar[bool] = False
    entry: ClassVar[Path] = _UNGATED


class TablegateSql(TablegateDatastream):
    """jobs/enrich_sql.py with the repository's SQL files."""

    name: ClassVar[str] = "tablegate-sql"
    about: ClassVar[str] = "ours: jobs/enrich_sql.py, gated; the join in Flink SQL"
    entry: ClassVar[Path] = flink_run.ENRICH_SQL
    arguments: ClassVar[tuple[str, ...]] = ("--sql", str(SQL))
    overrides: ClassVar[tuple[str, ...]] = _SQL_MISS


class TablegateSqlNoGate(TablegateSql):
    """flink_jobs/sql_no_gate.py: the same graph, whose gate lets everything through."""

    name: ClassVar[str] = "tablegate-sql-no-gate"
    about: ClassVar[str] = "the same graph; what would be the gate asks nobody and is always open"
    gated: ClassVar[bool] = False
    entry: ClassVar[Path] = JOBS / "sql_no_gate.py"
    overrides: ClassVar[tuple[str, ...]] = (*_SQL_MISS, "gate.pause_stream=false")


def job_settings(work: Work) -> Settings:
    """The job's settings for one run, before what its options change.

    Raises:
        ConfigErrors: something in the work cannot be.
    """
    return from_mapping(
        {
            "job": {"name": work.name, "parallelism": work.parallelism},
            "kafka": {"bootstrap_servers": work.brokers, "properties": PRODUCER},
            "stream": {"topic": work.stream, "key": {"from": "value", "path": "id"}},
            "table": {"topic": work.table, "fields": {"tier": "tier"}},
            "output": {
                "enriched": work.enriched,
                "retry": f"{work.enriched}-retry",
                "dead": f"{work.enriched}-dead",
            },
        }
    )


def overrides(options: Mapping[str, str]) -> list[str]:
    """The options that are settings of the job, as ``--set`` takes them."""
    return [
        f"{name.removeprefix(_SET)}={value}"
        for name, value in options.items()
        if name.startswith(_SET)
    ]
