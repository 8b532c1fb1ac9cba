"""Statements of a SQL session, made ready by Flink's planner; nothing is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.settings import from_mapping
from jobs.sql.files import SqlError
from jobs.sql.findings import COLUMNS
from jobs.sql.masking import Masks
from ops.paths import ROOT
from ops.sql.engine import Engine
from ops.sql.session import for_session
from ops.sql.steps import Insert, Query, Ready, Told
from tests.support.facts import HEALTHY
from udfs.core.gate import Target

pytestmark = pytest.mark.jvm

_SETTINGS = from_mapping(
    {
        "job": {"name": "orders-enrich"},
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
    }
)
_FILE = Path("a.sql")
_UPDATING = """INSERT INTO dead_topic SELECT k, v, h, ts FROM (
SELECT k, LAST_VALUE(v) AS v, LAST_VALUE(h) AS h, MAX(ts) AS ts FROM stream_topic GROUP BY k);"""


@pytest.fixture(scope="module")
def engine() -> Engine:
    own = for_session(_SETTINGS, "sql-abc123", None)
    targets = {0: Target(0, 10, 9)}
    return Engine(own, HEALTHY, targets, ROOT / "sql", Masks.of(_SETTINGS))


def _ready(engine: Engine, text: str) -> list[Ready]:
    return [engine.ready(statement) for statement in engine.read(text, _FILE)]


def _told(engine: Engine, text: str) -> str:
    told = _ready(engine, text)[-1]
    assert isinstance(told, Told)
    return "\n".join(str(change.row) for change in told.rows)


def test_a_result_that_only_grows_is_told_from_one_that_changes(engine: Engine) -> None:
    text = """
        SELECT * FROM enriched LIMIT 3;
        SELECT verdict, COUNT(*) FROM misses GROUP BY verdict;
        SELECT * FROM hit_rate;
        WITH m AS (SELECT * FROM misses) SELECT * FROM m;
    """
    queries = [query for query in _ready(engine, text) if isinstance(query, Query)]
    assert [query.insert_only for query in queries] == [True, False, True, True]
    assert [query.ends_after for query in queries] == [3, None, None, None]


def test_audits_are_queries(engine: Engine) -> None:
    ready = [engine.ready(statement) for statement in engine.audits()]
    assert ready
    assert all(isinstance(query, Query) and query.columns == COLUMNS for query in ready)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("SELECT 1;\nSELEKT 2;", 2, "the shell takes no SELEKT"),
        ("SELECT\n *\nFROM nothing;", 3, "'nothing' not found"),
        ("SELECT nothing\nFROM misses;", 1, "'nothing' not found"),
        ("SELECT a FRM\n b;", 2, "Encountered"),
        ("SELECT ${STREAM_TOPIK};", 1, "Did you mean ${STREAM_TOPIC}?"),
        ("SET 'table.exec.state.ttl' = '1 h';", 1, "would not keep its promise"),
        # What only the plan tells.
        (
            _UPDATING,
            1,
            "doesn't support consuming update changes",
        ),
    ],
)
def test_what_cannot_be_run_is_told_with_its_line(
    engine: Engine, text: str, line: int, says: str
) -> None:
    with pytest.raises(SqlError) as caught:
        _ready(engine, text)
    assert str(caught.value).startswith(f"a.sql:{line}: "), caught.value
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "SHOW CREATE TABLE stream_topic;",
        "SHOW CREATE TABLE dead_topic;",
        "EXPLAIN SELECT * FROM stream_topic WHERE k = ENCODE('s3cret', 'UTF-8');",
        "SET 'my.password' = 'mine'; SET;",
    ],
)
def test_no_secret_is_told(engine: Engine, text: str) -> None:
    told = _told(engine, text)
    assert "s3cret" not in told
    assert "mine" not in told
    assert "***" in told


def test_nor_in_an_error(engine: Engine) -> None:
    text = "CREATE TEMPORARY TABLE t (a INT) WITH (${DEAD_OPTIONS}, 'no.such' = 'x');\n"
    with pytest.raises(SqlError) as caught:
        _ready(engine, text + "SELECT * FROM t;")
    assert "no.such" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_query_keeps_the_views_that_there_were_where_it_stands(engine: Engine) -> None:
    text = """
        CREATE TEMPORARY VIEW mine AS SELECT join_key FROM misses;
        SELECT join_key FROM mine;
        DROP TEMPORARY VIEW mine;
    """
    assert isinstance(_ready(engine, text)[1], Query)
    with pytest.raises(SqlError, match="'mine' not found"):
        _ready(engine, "SELECT join_key FROM mine;")


def test_an_insert_names_the_table_that_it_writes(engine: Engine) -> None:
    (insert,) = _ready(engine, "INSERT INTO dead_topic (k, v) SELECT k, v FROM stream_topic;")
    assert isinstance(insert, Insert)
    assert insert.tables == ("dead_topic",)


def test_settings_are_put_back(engine: Engine) -> None:
    before = engine.options()
    _ready(engine, "SET 'table.exec.sink.not-null-enforcer' = 'DROP'; SET 'parallelism' = '3';")
    assert engine.options() != before
    engine.restore(before)
    assert engine.options() == before


def test_completion_knows_columns_and_no_view_of_flinks_own(engine: Engine) -> None:
    columns = engine.columns()
    assert columns["misses"][:2] == ["verdict", "join_key"]
    assert "stream_topic" in columns
    assert not any("Unnamed" in name for name in columns)
    assert "Unnamed" not in _told(engine, "SHOW VIEWS;")
    # What cannot be read takes nothing else with it.
    _ready(engine, "CREATE TEMPORARY TABLE broken (a INT) WITH ('connector' = 'none');")
    assert engine.columns().keys() >= columns.keys()
