"""The outputs in other SQL clients: Flink's gateway by REST, and Flink's SQL client."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.settings import load
from ops.sqlclient import ddl
from ops.stack.flink import FlinkCluster
from ops.stack.gateway import SqlGateway
from tests.support.join_job import JoinJob
from tests.support.kafka import Kafka
from tests.support.sql_gateway import GatewayError, SqlSession

pytestmark = pytest.mark.cluster

# Each verdict of interest once, by event: product, or what makes it unreadable.
EVENTS = {
    b"o1": b'{"product":"p1","n":1}',
    b"o2": b'{"product":"nowhere","n":2}',
    b"o3": b'{"product":"p2","n":3}',
    b"o4": b"no json",
    b"o5": b'{"n":5}',
}


@pytest.fixture(scope="module")
def written(kafka: Kafka, flink: FlinkCluster, tmp_path_factory: pytest.TempPathFactory) -> JoinJob:
    """A job that ran and wrote its outputs; it does not run any more."""
    job = JoinJob(kafka, flink, tmp_path_factory.mktemp("written"))
    kafka.produce(job.products, [(b"p1", b'{"name":"mug"}'), (b"p2", b'{"name":"cup"}')])
    kafka.produce(job.orders, EVENTS.items())
    job.start()
    try:
        job.wait_until(
            lambda: sum(len(job.read(name)) for name in job.outputs) == len(EVENTS), "outputs"
        )
    finally:
        job.cancel()
    return job


@pytest.fixture
def session(sql_gateway: SqlGateway, written: JoinJob) -> Iterator[SqlSession]:
    session = SqlSession(sql_gateway.url)
    session.run_all(ddl.outputs_ddl(load(written.config), with_secrets=True).text)
    yield session
    session.close()


def test_the_gateway_reads_what_the_job_wrote(session: SqlSession) -> None:
    hits = session.run(
        "SELECT record_key, JSON_VALUE(event, '$.product_name'), JSON_VALUE(event, '$.n') "
        "FROM enriched"
    )
    assert sorted(hits) == [("o1", "mug", "1"), ("o3", "cup", "3")]


def test_the_gateway_tells_verdicts_and_problems(session: SqlSession, written: JoinJob) -> None:
    rows = session.run(
        "SELECT verdict, record_key, source, attempt, CAST(NULL AS STRING) FROM misses UNION ALL "
        "SELECT verdict, record_key, source, 0, problem FROM dead_letters"
    )
    told = {key: (verdict, attempt, problem) for verdict, key, _, attempt, problem in rows}
    assert told["o2"] == ("NOT_FOUND", 1, None)
    assert told["o4"][0] == "BAD_RECORD"
    assert "event value" in told["o4"][2]
    assert told["o5"][0] == "NO_KEY"
    places = {r.header("tablegate-source") for n in ("retry", "dead") for r in written.read(n)}
    assert {source for _, _, source, _, _ in rows} == places


def test_a_query_counts_over_all_outputs_and_ends(session: SqlSession) -> None:
    # A changelog: what stands at its end is the answer.
    counts: dict[str, int] = {}
    for kind, (verdict, count) in session.changes(
        "SELECT verdict, COUNT(*) FROM (SELECT 'HIT' AS verdict FROM enriched UNION ALL "
        "SELECT verdict FROM misses UNION ALL SELECT verdict FROM dead_letters) GROUP BY verdict"
    ):
        if kind in {"INSERT", "UPDATE_AFTER"}:
            counts[verdict] = count
    assert counts == {"HIT": 2, "NOT_FOUND": 1, "BAD_RECORD": 1, "NO_KEY": 1}


def test_an_error_of_the_gateway_is_told(session: SqlSession) -> None:
    with pytest.raises(GatewayError, match="nowhere"):
        session.run("SELECT * FROM nowhere")


@pytest.mark.parametrize(
    "through_gateway",
    [
        pytest.param(True, id="gateway"),
        # The same client with a gateway inside.
        pytest.param(False, id="embedded", marks=pytest.mark.full),
    ],
)
def test_flinks_sql_client_reads_what_the_job_wrote(
    flink: FlinkCluster,
    sql_gateway: SqlGateway,
    written: JoinJob,
    tmp_path: Path,
    through_gateway: bool,
) -> None:
    init = ddl.write(
        tmp_path, "outputs.sql", ddl.outputs_ddl(load(written.config), with_secrets=True)
    )
    query = tmp_path / "query.sql"
    query.write_text(
        "SET 'sql-client.execution.result-mode' = 'tableau';\n"
        "SELECT record_key, JSON_VALUE(event, '$.product_name') AS product FROM enriched;\n"
    )
    endpoint = ["gateway", "--endpoint", sql_gateway.url] if through_gateway else []
    ran = subprocess.run(
        [
            *(str(flink.home / "bin" / "sql-client.sh"), *endpoint),
            *("-i", str(init), "-f", str(query)),
        ],
        env={**os.environ, **flink.environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in ran.stdout.splitlines()
        if line.startswith("|")
    ]
    assert sorted(cells) == [
        ["+I", "o1", "mug"],
        ["+I", "o3", "cup"],
        ["op", "record_key", "product"],
    ], ran.stdout


def test_the_gateway_is_a_process_of_ours_that_keeps_its_address(sql_gateway: SqlGateway) -> None:
    url = sql_gateway.url
    assert sql_gateway.running
    assert json.loads((sql_gateway.folder / "port").read_text()) == int(url.rpartition(":")[2])
    sql_gateway.start()
    assert sql_gateway.url == url
