"""Compiled plans: not behind the join, whose seams are streams; over what the job has written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import PlanReference, StreamTableEnvironment
from pyflink.util.exceptions import JavaException

from jobs.rules import join_rules
from jobs.sql import run
from jobs.sql.files import of_text
from jobs.sql.names import log_names
from tests.topology.test_sql_graph import _settings

pytestmark = pytest.mark.jvm

_TABLES = """
CREATE TEMPORARY TABLE retried (k BYTES, v BYTES) WITH (${RETRY_LOG});
CREATE TEMPORARY TABLE totals (k BYTES, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'blackhole');
"""
_QUERY = "INSERT INTO totals SELECT k, COUNT(*) FROM {} GROUP BY k"


def _session() -> StreamTableEnvironment:
    settings = _settings()
    t = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment())
    names = log_names(settings, join_rules(settings))
    run.define(t, of_text(Path("tables/90_mine.sql"), _TABLES, names))
    return t


def test_what_the_join_decides_cannot_be_in_a_plan(tmp_path: Path) -> None:
    t = _session()
    raw = Types.PRIMITIVE_ARRAY(Types.BYTE())
    columns = Types.ROW_NAMED(["k", "v"], [raw, raw])
    # As `decided_events` and `table_records` are made.
    stream = t.to_append_stream(t.sql_query("SELECT k, v FROM retried"), columns)
    t.create_temporary_view("decided", t.from_data_stream(stream))
    with pytest.raises((Py4JError, JavaException), match="external inline table") as caught:
        t.execute_sql(f"COMPILE PLAN '{tmp_path}/plan.json' FOR {_QUERY.format('decided')}")
    assert "StreamTableEnvironment#fromDataStream" in str(caught.value)


def test_a_query_over_an_output_can_be_and_is_not_planned_again(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    _session().execute_sql(f"COMPILE PLAN '{plan}' FOR {_QUERY.format('retried')}")
    text = plan.read_text()
    # Tables are named and not copied, so no password stands in it.
    assert "s3cret" not in text
    nodes = {node["type"].rpartition("_")[0]: node for node in json.loads(text)["nodes"]}
    (state,) = nodes["stream-exec-group-aggregate"]["state"]
    assert state["name"] == "groupAggregateState"
    explained = _session().load_plan(PlanReference.from_file(str(plan))).explain()
    assert "GroupAggregate(groupBy=[k]" in explained
