"""The SQL variant's graph: one join for all queries, identities, errors with their line."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jobs.settings import Settings, from_mapping
from jobs.sql import uids
from jobs.sql.assembly import build
from jobs.sql.files import SqlError
from ops.paths import ROOT
from tests.support.facts import HEALTHY
from udfs.core.gate import Target

pytestmark = pytest.mark.jvm

_SQL = ROOT / "sql"
_TARGETS = {0: Target(0, 10, 9), 1: Target(0, 0, None)}

# Frozen. Lines may be added at the end; changing or removing one loses state at the next deploy.
FROZEN_UIDS = (
    "sql-table-records",
    "sql-table-columns",
    "table-watermark",
    "table-rowtime",
    "table-from-gate",
    "table-to-gate",
    "table-gate",
    "table-restored",
    "table-progress",
    "table-key",
    "table-source",
    "tick-columns",
    "tick-partitions",
    "tick-zero",
    "tick-window",
    "tick-time",
    "tick-source",
    "sql-decided-records",
    "sql-decided-columns",
    "sql-verdict",
    "sql-enrich",
    "sql-joined",
    "sql-join",
    "sql-stream-route",
    "sql-stream-source",
    "sql-rows",
    "sql-rows-from-records",
    "sql-counted-decided",
    "sql-counted-decided-records",
    "sql-counted-rows",
    "sql-counted-rows-records",
)


class Node(NamedTuple):
    uid: str | None
    name: str
    parallelism: int


def _settings(**changes: Any) -> Settings:
    tables: dict[str, Any] = {
        "job": {"name": "orders-enrich", "parallelism": 2, "max_parallelism": 64},
        "kafka": {
            "bootstrap_servers": "localhost:1",
            "properties": {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": (
                    "org.apache.kafka.common.security.plain.PlainLoginModule required "
                    'username="u" password="s3cret";'
                ),
            },
        },
        "stream": {"topic": "orders", "key": {"from": "value", "path": "customer_id"}},
        "table": {"topic": "customers", "fields": {"tier": "customer_tier"}},
        "output": {"enriched": "e", "retry": "r", "dead": "d"},
        "miss": {"grace_ms": 0, "retry_after": ""},
    }
    return from_mapping(tables | changes)


def _nodes(settings: Settings, root: Path = _SQL) -> list[Node]:
    graph = build(settings, HEALTHY, _TARGETS, root)._generate_stream_graph()
    return [
        Node(n.getTransformationUID(), n.getOperatorName(), n.getParallelism())
        for n in graph.getStreamNodes().toArray()
    ]


@pytest.fixture(scope="module")
def nodes() -> list[Node]:
    return _nodes(_settings())


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return shutil.copytree(_SQL, tmp_path / "sql")


def test_uids_are_frozen() -> None:
    listed = [operator.uid for operator in (*uids.TABLE_RECORDS, *uids.DECIDED, *uids.COUNTED)]
    assert listed == list(FROZEN_UIDS)
    assert len(set(listed)) == len(listed)


def test_every_operator_of_the_graph_has_a_uid(nodes: list[Node]) -> None:
    assert [n.name for n in nodes if n.uid is None] == []
    named = (*uids.TABLE_RECORDS, *uids.DECIDED, *uids.COUNTED)
    assert {n.uid for n in nodes} >= {operator.uid for operator in named}


def test_the_table_side_is_one_subtask(nodes: list[Node]) -> None:
    listed = {operator.uid for operator in uids.TABLE_RECORDS}
    assert {n.parallelism for n in nodes if n.uid in listed} == {1}
    assert {n.parallelism for n in nodes if n.uid == "sql-join"} == {2}


def test_a_query_more_reads_the_join_that_is_there(nodes: list[Node], files: Path) -> None:
    (files / "tables" / "90_mine.sql").write_text(
        "CREATE TEMPORARY TABLE mine (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)\n"
        "WITH ('connector' = 'blackhole');"
    )
    (files / "inserts" / "90_mine.sql").write_text(
        "INSERT INTO mine SELECT join_key, COUNT(*) FROM misses GROUP BY join_key;"
    )
    more = _nodes(_settings(), files)
    assert {n.uid for n in nodes} < {n.uid for n in more}
    own = {str(n.uid) for n in more} - {str(n.uid) for n in nodes}
    assert all(uid.startswith("query-mine-") for uid in own)
    assert sum("GroupAggregate" in uid for uid in own) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"gate": {"consistency": "continuous"}},
        {"gate": {"pause_stream": False}},
        {"output": {"enriched": "e", "retry": "r", "dead": "d", "on_miss": "emit_null"}},
        {
            "table": {
                "topic": "customers",
                "fields": {"tier": "t"},
                "format": "debezium-json",
                "key": {"from": "value", "path": "id"},
                "tombstone_key": {"format": "json", "path": "id"},
            }
        },
        {"stream": {"topic": "orders", "key": {"from": "key", "format": "text"}}},
        {"job": {"name": "x", "delivery": "exactly-once", "transactional_id_prefix": "x"}},
    ],
)
def test_no_setting_changes_what_an_operator_is_called(
    nodes: list[Node], change: dict[str, Any]
) -> None:
    assert {n.uid for n in _nodes(_settings(**change))} == {n.uid for n in nodes}


@pytest.mark.parametrize(
    ("file", "text", "line", "says"),
    [
        (
            "views/90_x.sql",
            "-- x\nCREATE TEMPORARY VIEW x AS\nSELECT *\nFROM nowhere;",
            4,
            "nowhere",
        ),
        ("views/90_x.sql", "CREATE TEMPORARY VIEW x AS\nSELECT FROM misses;", 2, "FROM"),
        ("views/90_x.sql", "CREATE TEMPORARY VIEW x AS SELECT\nno_such FROM misses;", 2, "no_such"),
        ("views/90_x.sql", "\nDROP TEMPORARY VIEW misses;", 2, "begins with CREATE TEMPORARY VIEW"),
        ("inserts/90_x.sql", "INSERT INTO nowhere\nSELECT 1;", 1, "nowhere"),
        ("inserts/90_x.sql", "INSERT INTO retry_topic SELECT 1;", 1, "schema"),
        ("tables/90_x.sql", "CREATE TEMPORARY TABLE x (a INT) WITH (${STREAM_OPTION});", 1, "${"),
        ("tables/90_x.sql", "CREATE TEMPORARY TABLE x (a INT) WITH (,${STREAM_OPTIONS});", 1, ","),
        ("audits/90_x.sql", "SELECT 1;\nSELECT\nnothing FROM misses;", 3, "nothing"),
        ("audits/90_x.sql", "SELECT 1 AS a;", 1, "columns source, problem"),
        ("settings/90_x.sql", "\nSET 'table.exec.state.ttl' = '1 h';", 2, "keep its promise"),
        ("settings/90_x.sql", "SET x = 1;", 1, "quotes"),
        ("settings/90_x.sql", "SET ' table.exec.state.ttl ' = '1 h';", 1, "keep its promise"),
        (
            "settings/90_x.sql",
            "\nSET 'table.local-time-zone' = 'Asia/Kolkata';",
            2,
            "keep its promise",
        ),
        ("settings/90_x.sql", "\nSET 'execution.runtime-mode' = 'batch';", 2, "not to be set"),
        (
            "settings/90_x.sql",
            "\nSET 'table.exec.uid.generation' = 'ALWAYS';",
            2,
            "not to be set",
        ),
        (
            "settings/90_x.sql",
            "\nSET 'table.exec.mini-batch.size' = 'abc';",
            2,
            "cannot read abc as table.exec.mini-batch.size",
        ),
    ],
)
def test_a_statement_that_cannot_be_taken_is_told_by_file_and_line(
    files: Path, file: str, text: str, line: int, says: str
) -> None:
    (files / file).write_text(text)
    with pytest.raises(SqlError) as caught:
        _nodes(_settings(), files)
    told = str(caught.value)
    assert told.startswith(f"{files / file}:{line}: "), told
    assert says in told
    assert "s3cret" not in told
    assert "\tat " not in told
    # The file's line is the only one.
    assert not re.search(r"line \d", told)


def test_the_joins_state_is_of_the_same_types_under_either_consistency() -> None:
    found = [
        _types_of_the_join(_settings(gate={"consistency": consistency}))
        for consistency in ("startup", "continuous")
    ]
    assert "`rt` TIMESTAMP_LTZ(3) *ROWTIME*" in found[0][0]
    assert found[0] == found[1]


def _types_of_the_join(settings: Settings) -> list[str]:
    env = build(settings, HEALTHY, _TARGETS, _SQL)
    seen: set[int] = set()
    left = list(env._j_stream_execution_environment.getTransformations())
    while left:
        one = left.pop()
        if one.getUid() == "sql-join":
            return [str(source.getOutputType().toString()) for source in one.getInputs()]
        if one.getId() not in seen:
            seen.add(one.getId())
            left += list(one.getInputs())
    raise AssertionError("there is no join")
