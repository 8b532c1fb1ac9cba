"""What Flink does when nothing is joined: the rate that no join of its kind can pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from bench.systems.contract import Work
from bench.systems.flink import FlinkSystem, sql_of, submit_python, submit_sql
from ops.stack.flink import FlinkCluster


class LimitJvm(FlinkSystem):
    """flink_jobs/passthrough.sql."""

    name: ClassVar[str] = "limit-jvm"
    about: ClassVar[str] = "Flink SQL from topic to topic, JSON read and written; nothing is joined"
    restarts: ClassVar[bool] = False

    def submit(self, cluster: FlinkCluster, work: Work, savepoint: str | None) -> str:
        """Through the SQL client."""
        return submit_sql(cluster, sql_of("passthrough.sql", work, savepoint))


class LimitPyflink(FlinkSystem):
    """flink_jobs/naive.py --pass-through."""

    name: ClassVar[str] = "limit-pyflink"
    about: ClassVar[str] = (
        "PyFlink from topic to topic, one Python map that reads and writes JSON, thread mode; "
        "nothing is joined"
    )
    restarts: ClassVar[bool] = False
    cluster_options: ClassVar[Mapping[str, object]] = {"python.execution-mode": "thread"}

    def submit(self, cluster: FlinkCluster, work: Work, savepoint: str | None) -> str:
        """With `flink run`."""
        return submit_python(cluster, work, savepoint, "--pass-through")
