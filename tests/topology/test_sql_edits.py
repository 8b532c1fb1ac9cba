"""Which edits of a query keep its state, told from the graph; sql/README.md has them as a table.

Flink gives state to the operator that has its uid. An edit keeps a query's state when the operators
that hold some have the same uids, and is refused when one of them is gone; savepoints say the same
(tests/cluster/test_sql_restarts.py). No operator gets the state of one that does something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum, auto
from pathlib import Path
from typing import Any

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
        Fate.REFUSED,
    ),
    "what it reads is another view": (
        _insert("SELECT join_key, COUNT(*) FROM enriched GROUP BY join_key"),
        Fate.REFUSED,
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


def _by_key(aggregate: str, read: str = "misses") -> str:
    return f"SELECT join_key, {aggregate} FROM {read} GROUP BY join_key"


# What the operator with the state says of itself is the same in both.
BELOW = {
    "what is summed": (
        _by_key("SUM(CASE WHEN verdict = 'DELETED' THEN 1 ELSE 0 END)"),
        _by_key("SUM(CASE WHEN verdict = 'NOT_FOUND' THEN 100 ELSE 0 END)"),
    ),
    "which rows are counted": (
        _by_key("COUNT(*) FILTER (WHERE verdict = 'DELETED')"),
        _by_key("COUNT(*) FILTER (WHERE verdict = 'NOT_FOUND')"),
    ),
    "what they are grouped by": (
        "SELECT UPPER(join_key), COUNT(*) FROM misses GROUP BY UPPER(join_key)",
        "SELECT SUBSTRING(event, 1, 3), COUNT(*) FROM misses GROUP BY SUBSTRING(event, 1, 3)",
    ),
    "whose maximum it is": (
        _by_key("MAX(stream_offset + 1)"),
        _by_key("MAX(stream_offset * -1)"),
    ),
    "what is read": (_by_key("COUNT(*)"), _by_key("COUNT(*)", "table_rows")),
}


def _several(queries: Iterable[str]) -> dict[str, str]:
    """Each query with a table of its own."""
    numbered = list(enumerate(queries))
    return {
        "tables/90_mine.sql": "".join(
            f"CREATE TEMPORARY TABLE mine_{n} (k STRING, n BIGINT) "
            "WITH ('connector' = 'blackhole');\n"
            for n, _ in numbered
        ),
        "inserts/90_mine.sql": "".join(f"INSERT INTO mine_{n} {q};\n" for n, q in numbered),
    }


def _stateful(root: Path, **settings: Any) -> dict[str, str]:
    """Uid of each operator with state, to what it does."""
    graph = build(_settings(**settings), HEALTHY, _TARGETS, root)._generate_stream_graph()
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


def test_an_edit_of_what_comes_before_the_state_is_refused_as_well(tmp_path: Path) -> None:
    counts = []
    for number in (0, 1):
        files = _several(pair[number] for pair in BELOW.values())
        found = _stateful(sql_folder(tmp_path / f"sql-{number}", files))
        counts.append({uid for uid in found if uid.startswith("query-mine")})
    assert [len(uids) for uids in counts] == [len(BELOW), len(BELOW)]
    assert counts[0] & counts[1] == set()


def test_another_consistency_keeps_the_state_of_a_query(
    before: dict[str, str], tmp_path: Path
) -> None:
    files = sql_folder(tmp_path / "sql", _BASE)
    assert _stateful(files, gate={"consistency": "continuous"}).keys() == before.keys()
