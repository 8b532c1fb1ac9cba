"""Which edits of a query keep its state, told from the graph; sql/README.md has them as a table.

Flink gives state to the operator that has its uid. An edit keeps a query's state when the operators
that hold some have the same uids, and is refused when one of them is gone; savepoints say the same
(tests/cluster/test_sql_restarts.py). No operator gets the state of one that does something else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum, auto
from pathlib import Path

import pytest

from jobs.sql.assembly import build
from tests.support.facts import HEALTHY
from tests.support.sql_files import sql_folder
from tests.topology.test_sql_graph import _TARGETS, _settings

pytestmark = pytest.mark.jvm

_HOLDS_STATE = re.compile(
    r"Aggregate|Rank|Deduplicate|Join|Over|Normalize|Source|table-progress|tick-window|sql-join"
)
_NUMBERS = re.compile(r"\[\d+\]:?|_\d+")


class Fate(StrEnum):
    """What becomes of the state of the query when the job starts from its savepoint."""

    KEPT = auto()
    REFUSED = auto()
    """An operator with state is gone: Flink refuses, unless non-restored state is allowed."""


_TABLES = """
CREATE TEMPORARY TABLE totals (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'blackhole');
"""
_MORE = """
CREATE TEMPORARY TABLE totals (k STRING, n BIGINT, m STRING, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'blackhole');
"""
_SECOND = """
CREATE TEMPORARY TABLE others (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'blackhole');
"""
_COUNT = "SELECT join_key, COUNT(*) FROM misses GROUP BY join_key"
_BASE = {
    "tables/90_mine.sql": _TABLES,
    "inserts/90_mine.sql": f"INSERT INTO totals {_COUNT};",
}


def _insert(query: str) -> dict[str, str]:
    return {"inserts/90_mine.sql": f"INSERT INTO totals {query};"}


EDITS: dict[str, tuple[Mapping[str, str | None], Fate]] = {
    "nothing": ({}, Fate.KEPT),
    "a comment, or other line breaks": (
        _insert("-- counts\nSELECT\n join_key,\n COUNT(*)\nFROM misses\nGROUP BY join_key"),
        Fate.KEPT,
    ),
    "the file has another name": (
        {"inserts/90_mine.sql": None, "inserts/10_a.sql": f"INSERT INTO totals {_COUNT};"},
        Fate.KEPT,
    ),
    "a query is added before it": (
        {
            "tables/05_others.sql": _SECOND,
            "inserts/05_others.sql": f"INSERT INTO others {_COUNT};",
        },
        Fate.KEPT,
    ),
    "a query is added that reads the same with a filter": (
        {
            "tables/95_others.sql": _SECOND,
            "inserts/95_others.sql": (
                "INSERT INTO others SELECT join_key, COUNT(*) FROM misses "
                "WHERE verdict = 'DELETED' GROUP BY join_key;"
            ),
        },
        Fate.KEPT,
    ),
    "what it reads is put into a view": (
        {
            "views/90_mine.sql": "CREATE TEMPORARY VIEW mine AS SELECT * FROM misses;",
            **_insert("SELECT join_key, COUNT(*) FROM mine GROUP BY join_key"),
        },
        Fate.KEPT,
    ),
    "another WHERE": (
        _insert(
            "SELECT join_key, COUNT(*) FROM misses WHERE verdict = 'DELETED' GROUP BY join_key"
        ),
        Fate.KEPT,
    ),
    "a column computed from the key or the count": (
        {
            "tables/90_mine.sql": _MORE,
            **_insert("SELECT join_key, COUNT(*), UPPER(join_key) FROM misses GROUP BY join_key"),
        },
        Fate.KEPT,
    ),
    "a condition on the count": (
        _insert(f"{_COUNT} HAVING COUNT(*) > 1"),
        Fate.KEPT,
    ),
    "another name for a counted column": (
        _insert("SELECT join_key, COUNT(*) AS c FROM misses GROUP BY join_key"),
        Fate.REFUSED,
    ),
    "another aggregate": (
        _insert("SELECT join_key, MAX(stream_offset) FROM misses GROUP BY join_key"),
        Fate.REFUSED,
    ),
    "an aggregate more": (
        {
            "tables/90_mine.sql": _MORE,
            **_insert("SELECT join_key, COUNT(*), MIN(verdict) FROM misses GROUP BY join_key"),
        },
        Fate.REFUSED,
    ),
    "another GROUP BY": (
        _insert("SELECT verdict, COUNT(*) FROM misses GROUP BY verdict"),
        Fate.REFUSED,
    ),
    "it writes to a table of another name": (
        {
            "tables/90_mine.sql": _SECOND,
            "inserts/90_mine.sql": f"INSERT INTO others {_COUNT};",
        },
        Fate.REFUSED,
    ),
    "it is taken away": (
        {"tables/90_mine.sql": None, "inserts/90_mine.sql": None},
        Fate.REFUSED,
    ),
}


def _stateful(root: Path) -> dict[str, str]:
    """Uid of each operator with state, to what it does."""
    graph = build(_settings(), HEALTHY, _TARGETS, root)._generate_stream_graph()
    return {
        n.getTransformationUID(): _NUMBERS.sub("", n.getOperatorDescription() or "")
        for n in graph.getStreamNodes().toArray()
        if _HOLDS_STATE.search(f"{n.getTransformationUID()} {n.getOperatorName()}")
    }


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    found = _stateful(sql_folder(tmp_path_factory.mktemp("before") / "sql", _BASE))
    assert any("GroupAggregate" in uid for uid in found)
    assert "sql-join" in found
    return found


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_a_query_does_to_its_state_what_the_table_says(
    edit: str, before: dict[str, str], tmp_path: Path
) -> None:
    changes, fate = EDITS[edit]
    files = {name: text for name, text in {**_BASE, **changes}.items() if text is not None}
    after = _stateful(sql_folder(tmp_path / "sql", files))
    # Whatever is edited behind the join, the join keeps its state.
    assert before["sql-join"] == after["sql-join"]
    gone = before.keys() - after.keys()
    assert (Fate.REFUSED if gone else Fate.KEPT) == fate, gone
    assert {uid: before[uid] for uid in before.keys() & after.keys()} == {
        uid: after[uid] for uid in before.keys() & after.keys()
    }
