"""`tablegate status` on a real job: what a probe sees while the table loads, and afterwards."""

from __future__ import annotations

from pathlib import Path

from ops.stack.flink import FlinkCluster
from ops.status.model import Exit
from tests.support.deploys import status
from tests.support.join_job import JoinJob, order, product
from tests.support.kafka import Kafka


def test_a_load_is_alive_and_not_ready_and_an_open_gate_is_ready(
    kafka: Kafka, flink: FlinkCluster, tmp_path: Path
) -> None:
    job = JoinJob(kafka, flink, tmp_path)
    assert status(job)[0] == Exit.DEAD
    kafka.produce(job.products, [product(f"p{n}", f"n{n}") for n in range(100)])
    kafka.produce(job.orders, [order(n, f"p{n}") for n in range(50)])
    with kafka.transaction() as transaction:
        transaction.produce(job.products, b'{"name":"late"}', b"p0", partition=0)
        transaction.flush()
        try:
            job.start()
            # On a busy machine the load may be seen to stand still first.
            job.wait_until(
                lambda: status(job)[1].get("phase") in {"loading", "stalled"},
                "status of a job that loads",
            )
            code, found = status(job)
            assert code == Exit.NOT_READY
            assert status(job, "--alive")[0] == 0
            assert status(job, "--wait", "--timeout", "1")[0] == Exit.NOT_READY
            (waiting, other) = found["table"]["partitions"]
            assert waiting["why"] == "unfinished transaction"
            assert waiting["left"] > 0
            assert found["table"]["slowest_partition"] == 0
            assert found["table"]["percent"] < 100
            assert (other["left"], other["percent"]) == (0, 100.0)
            transaction.commit_transaction(30)

            code, found = status(job, "--wait", "--timeout", "120")
            assert (code, found["phase"]) == (Exit.READY, "ready")
            assert found["table"]["percent"] == 100
            job.wait_until(
                lambda: status(job)[1]["join"].get("hits") == 50, "50 hits in the status"
            )
            code, found = status(job)
            assert found["stream"]["lag"] == 0
            job.wait_until(
                lambda: status(job)[1]["decided"].get("HIT") == 50, "the hit rate's counts"
            )
            assert status(job)[1]["join"]["hit_rate"] == 1.0
            assert found["join"]["held"] == 0
            assert status(job, "--max-lag", "0")[0] == Exit.READY
        finally:
            job.cancel()
    assert status(job)[0] == status(job, "--alive")[0] == Exit.DEAD
