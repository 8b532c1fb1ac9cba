"""The gate as a plain CREATE TABLE, in a session of Flink's SQL gateway: exact, or refused."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.settings import Settings, from_mapping
from ops import flink_run
from ops.cluster import ask
from ops.sqlclient import ddl
from ops.stack.flink import FlinkCluster
from ops.stack.gateway import SqlGateway
from tests.support.kafka import Kafka, Message
from tests.support.sql_gateway import Query, SqlSession

pytestmark = pytest.mark.cluster

ROWS = 20_000
QUERY = "SELECT verdict, record_key, join_key, row_content FROM joined_events"
# Of a machine with much else to do: Python alone took half a minute to start on one.
_DEADLINE_S = 150


class Orders:
    """A stream and a table of their own, and sessions in which both are defined."""

    def __init__(
        self, kafka: Kafka, flink: FlinkCluster, gateway: SqlGateway, folder: Path, partitions: int
    ) -> None:
        self.kafka, self.flink, self._gateway, self._folder = kafka, flink, gateway, folder
        self.orders = kafka.create_topic("orders", 2)
        self.products = kafka.create_topic("products", partitions, {"cleanup.policy": "compact"})
        self._sessions: list[SqlSession] = []

    def settings(self, stream_start: str = "earliest") -> Settings:
        return from_mapping(
            {
                "job": {"name": self.orders},
                "kafka": {"bootstrap_servers": self.kafka.bootstrap_servers},
                "stream": {
                    "topic": self.orders,
                    "key": {"from": "value", "path": "product"},
                    "start": stream_start,
                },
                "table": {"topic": self.products, "fields": {"name": "product_name"}},
                "output": {"enriched": "unused-e", "retry": "unused-r", "dead": "unused-d"},
            }
        )

    def session(self, *instead: tuple[str, str], stream_start: str = "earliest") -> SqlSession:
        """A session with the gated table, each text of the DDL replaced by another."""
        settings = self.settings(stream_start)
        made = ddl.gated_ddl(
            settings,
            self.flink.rest_url,
            ddl.table_topic_id(settings),
            self._folder,
            with_secrets=True,
        )
        ddl.write(self._folder, "gated.sql", made)
        text = made.text
        for old, new in instead:
            assert old in text
            text = text.replace(old, new)
        session = SqlSession(self._gateway.url)
        self._sessions.append(session)
        session.run_all(text)
        return session

    def rows(self, count: int, **fields: Any) -> None:
        """Rows p0, p1 and so on, spread over the partitions by their keys."""
        self.kafka.produce(
            self.products,
            ((f"p{n}".encode(), json.dumps({"name": f"n{n}", **fields})) for n in range(count)),
        )

    def events(self, *products: str) -> None:
        """An event for each product, its record key the product."""
        self.kafka.produce(
            self.orders, ((p.encode(), json.dumps({"product": p}).encode()) for p in products)
        )

    def refusal(self, session: SqlSession, query: str = QUERY) -> str:
        """The error of the attempt that this query fails with; it must give no row."""
        before = {job["jid"] for job in flink_run.jobs(self.flink)}
        end = time.monotonic() + _DEADLINE_S
        told = ""

        def refused() -> bool:
            nonlocal told
            ours = [job["jid"] for job in flink_run.jobs(self.flink) if job["jid"] not in before]
            told = "".join(flink_run.failure(self.flink, job) for job in ours)
            return "TargetError" in told or time.monotonic() > end

        rows = list(session.rows(query, refused))
        if query.startswith("INSERT"):
            while not refused():
                time.sleep(0.1)
        else:
            assert rows == []
        assert "TargetError" in told, f"not refused in {_DEADLINE_S} s"
        for job in flink_run.jobs(self.flink):
            if job["jid"] not in before:
                flink_run.cancel(self.flink, job["jid"])
        return told

    def close(self) -> None:
        for session in self._sessions:
            session.close()


@pytest.fixture
def orders(
    kafka: Kafka,
    flink: FlinkCluster,
    sql_gateway: SqlGateway,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Orders]:
    flink.start()
    made = Orders(kafka, flink, sql_gateway, tmp_path, getattr(request, "param", 3))
    yield made
    made.close()


def _counts(rows: list[tuple[Any, ...]]) -> Counter[str]:
    return Counter(verdict for verdict, *_ in rows)


def test_no_event_is_joined_with_a_half_loaded_table(orders: Orders) -> None:
    orders.rows(ROWS)
    # Deleted, and then nothing but an aborted transaction: no record stands at the log ends.
    orders.kafka.produce(orders.products, [Message(b"p0", None)])
    orders.kafka.produce(orders.products, [(b"p1", b"{}")] * 40, transactional=True, abort=True)
    # Half of the events are for rows that stand last in the log.
    asked = [f"p{n}" for n in (*range(100), *range(ROWS - 99, ROWS))] + ["nowhere"]
    orders.events(*asked)
    orders.kafka.produce(orders.orders, [(b"no key", b"{}")])
    unreadable = [
        Message(b"bad", value) for value in (b"rubbish", b"[1]", b'{"product": "p2"', None)
    ]
    orders.kafka.produce(orders.orders, unreadable)
    rows = orders.session().take(QUERY, len(asked) + 1 + len(unreadable))
    assert _counts(rows) == {
        "HIT": len(asked) - 2,
        "DELETED": 1,
        "NOT_FOUND": 1,
        "NO_KEY": 1,
        "BAD_RECORD": len(unreadable),
    }
    assert all(
        json.loads(content)["name"] == f"n{key[1:]}"
        for verdict, _, key, content in rows
        if verdict == "HIT"
    )


@pytest.mark.full
def test_the_same_query_without_the_gate_answers_wrongly(orders: Orders) -> None:
    """What the gate is for: with it, the same events are all hits."""
    orders.rows(ROWS)
    asked = [f"p{n}" for n in range(ROWS - 100, ROWS)]
    orders.events(*asked)
    open_at_once = ("complete_until AS table_gate(p, o)", "complete_until AS 253402200000000")
    assert "NOT_FOUND" in _counts(orders.session(open_at_once).take(QUERY, len(asked)))
    assert _counts(orders.session().take(QUERY, len(asked))) == {"HIT": len(asked)}


@pytest.mark.full
def test_events_wait_for_an_open_transaction_and_see_later_rows(orders: Orders) -> None:
    orders.rows(10)
    orders.events("p1", "late")
    with orders.kafka.transaction() as open_one:
        open_one.produce(orders.products, b'{"name":"in time"}', b"late")
        assert open_one.flush(30) == 0
        query = orders.session().query(QUERY)
        _wait_for_a_task_that_begins(orders.flink)
        # The attempt is held in its begin.
        assert query.poll() == []
        open_one.commit_transaction(30)
    told = _told(query, 2)
    assert told["late"] == ("HIT", "in time")
    # Open by now: later rows replace the earlier ones, and a deletion is told from no row.
    orders.kafka.produce(orders.products, [(b"p2", b'{"name":"new"}'), (b"p3", None)])
    deadline = time.monotonic() + _DEADLINE_S
    while (told := _asked_now(orders, query))["p2"] != ("HIT", "new") or told["p3"][0] == "HIT":
        assert time.monotonic() < deadline, told
    assert told["p3"] == ("DELETED", None)
    assert told["p4"] == ("HIT", "n4")
    query.close()


def _asked_now(orders: Orders, query: Query) -> dict[str, tuple[str, str | None]]:
    orders.events("p2", "p3", "p4")
    return _told(query, 3)


def _told(query: Query, count: int) -> dict[str, tuple[str, str | None]]:
    """Verdict and name of the next events, by their join keys."""
    found: dict[str, tuple[str, str | None]] = {}
    deadline = time.monotonic() + _DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < deadline, found
        for _, (verdict, _, key, content) in query.poll():
            found[key] = (verdict, json.loads(content)["name"] if content else None)
        time.sleep(0.1)
    return found


def _wait_for_a_task_that_begins(flink: FlinkCluster) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline:
        for job in flink_run.jobs(flink):
            if job["state"] == "RUNNING" and "INITIALIZING" in flink_run.task_states(
                _get(flink, f"/jobs/{job['jid']}")
            ):
                return
        time.sleep(0.1)
    raise AssertionError("no task is beginning")


def test_an_empty_table_is_refused(orders: Orders) -> None:
    orders.events("p1")
    assert "holds nothing that can be read" in orders.refusal(orders.session())


@pytest.mark.full
def test_several_subtasks_are_refused(orders: Orders) -> None:
    orders.rows(10)
    two = ("'parallelism.default' = '1'", "'parallelism.default' = '2'")
    assert "runs as one of 2 subtasks" in orders.refusal(orders.session(two))


@pytest.mark.full
def test_a_source_of_one_subtask_does_not_make_the_gate_one(orders: Orders) -> None:
    orders.rows(10)
    two = ("'parallelism.default' = '1'", "'parallelism.default' = '2'")
    table = f"'topic' = '{orders.products}',"
    one_source = (table, f"{table}\n  'scan.parallelism' = '1',")
    assert "runs as one of 2 subtasks" in orders.refusal(orders.session(two, one_source))


@pytest.mark.full
def test_a_worker_process_is_refused(orders: Orders) -> None:
    orders.rows(10)
    process = ("'python.execution-mode' = 'thread'", "'python.execution-mode' = 'process'")
    assert "worker process" in orders.refusal(orders.session(process))


@pytest.mark.full
@pytest.mark.parametrize("orders", [1], indirect=True)
def test_a_table_that_is_not_read_from_its_beginning_is_refused(orders: Orders) -> None:
    orders.rows(10)
    further_on = (
        "'scan.startup.mode' = 'earliest-offset'",
        (
            "'scan.startup.mode' = 'specific-offsets',"
            " 'scan.startup.specific-offsets' = 'partition:0,offset:4'"
        ),
    )
    told = orders.refusal(orders.session(further_on, stream_start="latest"))
    assert f"{orders.products}[0]@4, but the topic can be read from offset 0 on" in told


@pytest.mark.full
def test_a_query_that_goes_on_from_a_savepoint_is_refused(orders: Orders) -> None:
    orders.rows(10)
    orders.events("p1")
    session = orders.session()
    session.run(
        "CREATE TEMPORARY TABLE told (verdict STRING, k STRING, j STRING, c STRING) "
        "WITH ('connector' = 'blackhole')"
    )
    ((job_id,),) = session.run(f"INSERT INTO told {QUERY}")
    flink_run.wait_running(orders.flink, job_id)
    savepoint = flink_run.stop_with_savepoint(orders.flink, job_id)
    session.run(f"SET 'execution.state-recovery.path' = '{savepoint}'")
    # Nothing is written meanwhile: no record of the table will ever come.
    told = orders.refusal(session, f"INSERT INTO told {QUERY}")
    assert f"goes on from {savepoint}" in told


@pytest.mark.full
def test_a_failover_without_checkpoints_starts_from_nothing_and_is_exact(orders: Orders) -> None:
    orders.rows(ROWS)
    orders.events("p1", f"p{ROWS - 1}")
    session = orders.session()
    rows = session.rows(QUERY)
    assert _counts([next(rows), next(rows)]) == {"HIT": 2}
    for number in flink_run.busy_taskmanagers(orders.flink):
        orders.flink.kill_taskmanager(number)
    orders.flink.start()
    orders.events("nowhere")
    # The stream is read again from its beginning, and each event meets its row again.
    assert _counts([next(rows), next(rows), next(rows)]) == {"HIT": 2, "NOT_FOUND": 1}
    rows.close()


@pytest.mark.full
def test_a_failover_with_a_checkpoint_is_refused(orders: Orders) -> None:
    orders.rows(10)
    orders.events("p1")
    with_checkpoints = (
        "'execution.checkpointing.interval' = '9223372036854775807 ms'",
        "'execution.checkpointing.interval' = '1 s'",
    )
    session = orders.session(with_checkpoints)
    session.run(
        "CREATE TEMPORARY TABLE told (verdict STRING, k STRING, j STRING, c STRING) "
        "WITH ('connector' = 'blackhole')"
    )
    ((job_id,),) = session.run(f"INSERT INTO told {QUERY}")
    flink_run.wait_running(orders.flink, job_id)
    end = time.monotonic() + 60
    while not _get(orders.flink, f"/jobs/{job_id}/checkpoints")["counts"]["completed"]:
        assert time.monotonic() < end, "no checkpoint"
        time.sleep(0.1)
    for number in flink_run.busy_taskmanagers(orders.flink):
        orders.flink.kill_taskmanager(number)
    orders.flink.start()
    end = time.monotonic() + _DEADLINE_S
    while "goes on from" not in flink_run.failure(orders.flink, job_id):
        assert time.monotonic() < end, "not refused"
        time.sleep(0.1)
    flink_run.cancel(orders.flink, job_id)


def _get(flink: FlinkCluster, path: str) -> dict[str, Any]:
    return ask(flink, "GET", path)
