"""What people write on Flink in place of ours: SQL's temporal join, and a keyed join in PyFlink."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import ClassVar, Self

from confluent_kafka import Producer

from bench.systems.contract import Work
from bench.systems.flink import FlinkSystem, sql_of, submit_python, submit_sql
from ops.stack.flink import FlinkCluster

_HEARTBEAT_S = 0.1
_FLUSH_S = 10.0


class FlinkSqlTemporal(FlinkSystem):
    """flink_jobs/temporal.sql, through Flink's SQL client."""

    name: ClassVar[str] = "flink-sql-temporal"
    about: ClassVar[str] = (
        "Flink SQL: upsert-kafka table, LEFT JOIN ... FOR SYSTEM_TIME AS OF event time, no Python; "
        "with heartbeats in the stream, or else the last events of a quiet stream never come out"
    )

    def submit(self, cluster: FlinkCluster, work: Work, savepoint: str | None) -> str:
        """Through the SQL client."""
        return submit_sql(cluster, sql_of("temporal.sql", work, savepoint))

    def beside(self, work: Work) -> ExitStack:
        """Heartbeats."""
        stack = ExitStack()
        stack.enter_context(Heartbeats(work))
        return stack


class Heartbeats:
    """Writes an empty object into each partition of the stream, ten times a second.

    SQL's event-time join lets an event out when the watermark goes on, and that goes on with later
    records only. So whoever cannot wait for later events writes records that are none.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": self._work.brokers, "log_level": 3})
        while not self._stop.wait(_HEARTBEAT_S):
            for partition in range(self._work.partitions):
                producer.produce(self._work.stream, b"{}", b"heartbeat", partition)
            producer.poll(0)
        producer.flush(_FLUSH_S)


class PyflinkNaiveThread(FlinkSystem):
    """flink_jobs/naive.py, Python inside the TaskManager."""

    name: ClassVar[str] = "pyflink-naive-thread"
    about: ClassVar[str] = (
        "PyFlink: two maps with json.loads, key_by, connect, KeyedCoProcessFunction; thread mode"
    )
    cluster_options: ClassVar[Mapping[str, object]] = {"python.execution-mode": "thread"}

    def versions(self) -> dict[str, str]:
        """Flink's, and Python's."""
        return super().versions() | {"python": sys.version.split()[0]}

    def submit(self, cluster: FlinkCluster, work: Work, savepoint: str | None) -> str:
        """With `flink run`."""
        return submit_python(cluster, work, savepoint)


class PyflinkNaiveProcess(PyflinkNaiveThread):
    """flink_jobs/naive.py, Python in processes beside the TaskManager: PyFlink's default."""

    name: ClassVar[str] = "pyflink-naive-process"
    about: ClassVar[str] = "the same in process mode, PyFlink's default"
    cluster_options: ClassVar[Mapping[str, object]] = {"python.execution-mode": "process"}
