"""How long Flink takes to read the table topic and do nothing with it: a load's measure."""

from __future__ import annotations

import time

from bench.systems.contract import Work
from bench.systems.flink import FlinkSystem, sql_of, submit_sql
from ops import flink_run
from ops.stack.flink import FlinkCluster


class _Scan(FlinkSystem):
    """flink_jobs/scan.sql, through Flink's SQL client. Ends by itself."""

    name = "scan"
    about = "Flink SQL: the table topic read once, from its begin to its end"

    def submit(self, cluster: FlinkCluster, work: Work, savepoint: str | None) -> str:
        """Through the SQL client."""
        return submit_sql(cluster, sql_of("scan.sql", work, savepoint))


def scan_s(work: Work) -> float:
    """Seconds from the client's start until the topic ``work.table`` is read; the cluster stands.

    Raises:
        RuntimeError: the job was not taken.
        StackError: it did not end well.
    """
    with _Scan().start(work) as run:
        flink_run.wait_state(run.cluster, run.job_id, "FINISHED", deadline_s=900)
        return time.time() - run.submitted_s
