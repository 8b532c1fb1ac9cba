"""The graph that is submitted: identities for ever, one subtask on the table side, no surprises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from jobs import assembly, uids
from jobs.assembly import build, ticked_partitions
from jobs.preflight.facts import ClusterFacts
from jobs.settings import Settings, from_mapping
from tests.support.facts import HEALTHY, topic
from udfs.core.errors import ConfigError
from udfs.core.gate import Target

pytestmark = pytest.mark.jvm

TARGETS = {0: Target(0, 10, 9), 1: Target(0, 0, None)}

# Frozen. Lines may be added at the end; changing or removing one loses state at the next deploy.
FROZEN_UIDS = (
    "gated-join",
    "stream-records",
    "stream-route",
    "stream-source",
    "table-records",
    "table-route",
    "table-watermark",
    "table-rowtime",
    "table-from-gate",
    "table-to-gate",
    "table-gate",
    "table-progress",
    "table-key",
    "table-source",
    "tick-columns",
    "tick-partitions",
    "tick-source",
    "enriched-sink",
    "enriched-columns",
    "enriched-table",
    "retry-sink",
    "retry-columns",
    "retry-table",
    "retry-side-output",
    "dead-sink",
    "dead-columns",
    "dead-table",
    "dead-side-output",
    "table-restored",
    "tick-zero",
    "tick-window",
    "tick-time",
    "retry-records",
    "retry-route",
    "retry-source",
    "retry-delay",
    "nulls-side-output",
    "verdict-counts",
    "verdict-rows",
    "verdict-seconds",
    "verdict-of-enriched",
    "verdict-from-enriched",
    "verdict-of-retry",
    "verdict-from-retry",
    "verdict-of-dead",
    "verdict-from-dead",
    "verdict-of-nulls",
    "verdict-from-nulls",
    "hit-rate",
    "stats-table",
    "stats-columns",
    "stats-sink",
    "broadcast-join",
)


_RETRIES = (*uids.RETRY_SIDE, uids.RETRY_DELAY)


class Node(NamedTuple):
    uid: str | None
    name: str
    parallelism: int
    max_parallelism: int
    inputs: int


def _nodes(settings: Settings, facts: ClusterFacts = HEALTHY, **how: Any) -> list[Node]:
    graph = build(settings, facts, TARGETS, **how)._generate_stream_graph()
    return [
        Node(
            n.getTransformationUID(),
            n.getOperatorName(),
            n.getParallelism(),
            n.getMaxParallelism(),
            n.getInEdges().size(),
        )
        for n in graph.getStreamNodes().toArray()
    ]


@pytest.fixture(scope="module")
def nodes() -> list[Node]:
    return _nodes(_settings())


def _settings(**more: Any) -> Settings:
    return from_mapping(
        more
        | {
            "job": {"name": "orders-enrich", "parallelism": 2, "max_parallelism": 64},
            "kafka": {"bootstrap_servers": "localhost:1"},
            "stream": {"topic": "orders", "key": {"from": "value", "path": "customer_id"}},
            "table": {"topic": "customers", "fields": {"tier": "customer_tier"}},
            "output": {"enriched": "e", "retry": "r", "dead": "d"},
        }
    )


def test_uids_are_frozen() -> None:
    listed = [
        operator.uid
        for operator in (
            uids.JOIN,
            uids.BROADCAST_JOIN,
            uids.RETRY_DELAY,
            *uids.RETRY_SIDE,
            *uids.STREAM_SIDE,
            *uids.TABLE_SIDE,
            *uids.ENRICHED_OUTPUT,
            *uids.RETRY_OUTPUT,
            *uids.DEAD_OUTPUT,
            *uids.SIDE_OUTPUTS.values(),
            *uids.VERDICT_COUNTS,
            *uids.VERDICT_FIELDS,
            uids.HIT_RATE,
            *uids.STATS_OUTPUT,
        )
    ]
    assert set(listed) == set(FROZEN_UIDS)
    assert len(set(listed)) == len(listed)


def test_every_operator_of_the_graph_has_its_uid(nodes: list[Node]) -> None:
    # A sink becomes a writer and a committer; Flink derives the latter's identity from the uid.
    named = {n.uid.removeprefix("Sink Committer: ") for n in nodes if n.uid is not None}
    assert [n.name for n in nodes if n.uid is None] == []
    assert named == set(FROZEN_UIDS) - {uids.BROADCAST_JOIN.uid}


def test_the_table_side_is_one_subtask_and_the_join_as_many_as_set(nodes: list[Node]) -> None:
    by_uid = {n.uid: n for n in nodes}
    one = {by_uid[operator.uid].parallelism for operator in uids.TABLE_SIDE}
    assert one == {1}
    assert by_uid["gated-join"].parallelism == 2
    assert by_uid["stream-source"].parallelism == 2


def test_max_parallelism_is_pinned(nodes: list[Node]) -> None:
    # One subtask for ever: an autoscaler that asks for two is refused.
    counts = (*uids.VERDICT_COUNTS, uids.HIT_RATE, *uids.STATS_OUTPUT)
    single = {operator.uid for operator in (*uids.TABLE_SIDE, *counts)}
    assert {n.max_parallelism for n in nodes if n.uid in single} == {1}
    assert {n.max_parallelism for n in nodes if n.uid not in single} == {64}


def test_a_further_output_has_operators_of_its_own_and_the_others_keep_theirs(
    nodes: list[Node],
) -> None:
    tables = _settings().model_dump(by_alias=True, exclude_unset=True)
    tables["output"] |= {"also": {"orders.live": "emit_null", "orders.copy": "route"}}
    facts = replace(HEALTHY, also=(topic("orders.live"), topic("orders.copy")))
    found = {n.uid: n for n in _nodes(from_mapping(tables), facts)}
    # The hits, and with emit_null also the events without their row.
    assert found["also-orders.live-table"].inputs == 2
    assert found["also-orders.copy-table"].inputs == found["enriched-table"].inputs == 1
    more = found.keys() - {n.uid for n in nodes}
    assert {str(uid).removeprefix("Sink Committer: ") for uid in more} == {
        f"also-{name}-{part}"
        for name in ("orders.live", "orders.copy")
        for part in ("table", "columns", "sink")
    }


def test_statistics_go_to_a_topic_when_one_is_named(nodes: list[Node]) -> None:
    tables = _settings().model_dump(by_alias=True, exclude_unset=True)
    told = _nodes(from_mapping(tables | {"stats": {"topic": "orders.stats"}}))
    # A topic's sink has a committer as well.
    assert {n.uid for n in told} - {n.uid for n in nodes} == {"Sink Committer: stats-sink"}


@pytest.mark.parametrize(
    "change",
    [
        {"gate": {"pause_stream": False}},
        {"table": {"topic": "customers", "fields": {"tier": "t"}, "format": "debezium-json"}},
        {
            "table": {
                "topic": "customers",
                "fields": {"tier": "t"},
                "key": {"from": "value", "path": "id"},
                "tombstone_key": {"format": "json", "path": "id"},
            }
        },
        {"stream": {"topic": "orders", "key": {"from": "key", "format": "text"}}},
        {"stream": {"topic": "orders", "key": {"from": "key", "format": "json", "path": "a.b"}}},
        {"job": {"name": "x", "delivery": "exactly-once", "transactional_id_prefix": "x"}},
        {"job": {"name": "x", "parallelism": 1}},
    ],
)
def test_no_setting_changes_what_an_operator_is_called(change: dict[str, Any]) -> None:
    tables = _settings().model_dump(by_alias=True, exclude_unset=True)
    changed = _nodes(from_mapping(tables | change))
    assert {n.uid for n in changed} == {n.uid for n in _nodes(_settings())}


def test_the_ungated_graph_is_the_same_graph_but_for_the_retries() -> None:
    retries = {operator.uid for operator in _RETRIES}
    ungated = {n.uid for n in _nodes(_settings(), gated=False)}
    assert ungated == {n.uid for n in _nodes(_settings())} - retries


def test_without_retries_nobody_reads_the_retry_topic() -> None:
    tables = _settings().model_dump(by_alias=True, exclude_unset=True)
    without = _nodes(from_mapping(tables | {"miss": {"retry_after": ""}}))
    retries = {operator.uid for operator in _RETRIES}
    assert {n.uid for n in without} == {n.uid for n in _nodes(_settings())} - retries


def test_a_run_for_the_table_only_has_the_same_operators_but_for_the_stream(
    nodes: list[Node],
) -> None:
    table_only = _nodes(_settings(), table_only=True)
    stream = {operator.uid for operator in (*uids.STREAM_SIDE, *_RETRIES)}
    nothing = {operator.uid for operator in uids.NO_STREAM}
    # Nor does it count: its savepoint is where another job's counts begin.
    counts = (*uids.VERDICT_COUNTS, *uids.VERDICT_FIELDS, uids.HIT_RATE, *uids.STATS_OUTPUT)
    counted = {operator.uid for operator in counts}
    assert {n.uid for n in table_only} == {n.uid for n in nodes} - stream - counted | nothing


def test_a_graph_with_an_operator_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.sides.STREAM_SIDE", uids.STREAM_SIDE[:-1])
    with pytest.raises(RuntimeError, match=r"3 operators where jobs/uids\.py lists 2"):
        _nodes(_settings())


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the cluster's configuration says so."""
    monkeypatch.setitem(assembly.JOB_CONFIG, "python.execution-mode", "thread")


@pytest.mark.usefixtures("in_threads")
def test_with_the_table_broadcast_the_join_is_another_one_and_all_else_the_same(
    nodes: list[Node],
) -> None:
    broadcast = _nodes(_settings(join={"lookup_state": "broadcast"}))
    by_uid = {n.uid: n for n in broadcast}
    join = by_uid.pop("broadcast-join")
    keyed = {n.uid: n for n in nodes}
    assert join._replace(uid="gated-join") == keyed.pop("gated-join")
    assert by_uid == keyed


def test_where_python_runs_in_worker_processes_no_table_is_broadcast() -> None:
    with pytest.raises(ConfigError, match=r"^join\.lookup_state = .*execution-mode: thread"):
        _nodes(_settings(join={"lookup_state": "broadcast"}))


def test_ticks_speak_for_more_partitions_than_there_are() -> None:
    assert ticked_partitions(4) > 8
