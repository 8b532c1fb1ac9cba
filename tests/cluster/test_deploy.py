"""Deploys on a real broker and a real cluster: what they keep, and how they go back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.deploy import savepoints
from ops.deploy.errors import DeployError, Exit
from ops.stack.flink import FlinkCluster
from tests.support.deploys import Deploys
from tests.support.join_job import JoinJob, names, order, order_of, product
from tests.support.kafka import Kafka, Message

# Fails on a TaskManager and nowhere else, so that no check before the start can see it.
_BROKEN = """
from pathlib import Path

if "TaskManagerRunner" in Path("/proc/self/cmdline").read_text():
    raise RuntimeError("this module does not load on workers")


def merge(event, row):
    return event
"""


@pytest.fixture
def deploys(kafka: Kafka, flink: FlinkCluster, tmp_path: Path) -> Iterator[Deploys]:
    made = Deploys(JoinJob(kafka, flink, tmp_path), tmp_path)
    yield made
    made.track()
    made.job.cancel()


def _products(start: int, stop: int, name: str) -> list[tuple[bytes, bytes]]:
    return [product(f"p{n}", f"{name}-{n}") for n in range(start, stop)]


def test_an_upgrade_keeps_the_table_and_a_damaged_savepoint_is_refused(deploys: Deploys) -> None:
    job, kafka = deploys.job, deploys.job.kafka
    # Enough for a state file: less is kept in the savepoint's metadata.
    kafka.produce(job.products, _products(0, 2_000, "old"))
    kafka.produce(job.orders, [order(n, f"p{n}") for n in range(100)])
    first = deploys.deploy()
    job.wait_for(100)
    # From here on these rows are in the state and nowhere else.
    kafka.set_topic(job.products, "cleanup.policy", "compact,delete")
    kafka.delete_records(job.products, kafka.end_offsets(job.products))
    kafka.produce(job.orders, [order(n + 100, f"p{n}") for n in range(100)])
    second = deploys.upgrade(["table.fields.name=label"])
    job.wait_for(200)

    assert second.job_id != first.job_id
    assert deploys.results() == ["replaced", "running"]
    records = job.read("enriched")
    assert len(records) == 200
    assert {r.key for r in records} == {f"o{n}".encode() for n in range(200)}
    assert job.read("retry") == job.read("dead") == []

    taken = deploys.journal.versions()[0].stopped_with
    copy = Path(job.flink.folder) / "savepoints" / "damaged"
    shutil.copytree(savepoints.local_path(taken), copy)
    state = next(path for path in copy.iterdir() if path.name != "_metadata")
    state.write_bytes(state.read_bytes()[:-1])
    with pytest.raises(DeployError) as caught:
        deploys.rollback(1, str(copy))
    assert caught.value.code is Exit.REFUSED
    assert state.name in deploys.told.refused()["savepoint"]
    assert deploys.results() == ["replaced", "running"]


def test_a_version_that_does_not_run_is_rolled_back_and_nothing_is_lost(
    deploys: Deploys, tmp_path: Path
) -> None:
    job, kafka = deploys.job, deploys.job.kafka
    broken = tmp_path / "broken_merge.py"
    broken.write_text(_BROKEN)
    kafka.produce(job.products, _products(0, 50, "row"))
    kafka.produce(job.orders, [order(n, f"p{n}") for n in range(50)])
    deploys.adopt()
    job.wait_for(50)
    kafka.produce(job.orders, [order(n + 50, f"p{n}") for n in range(50)])
    with pytest.raises(DeployError, match="does not load on workers") as caught:
        deploys.upgrade(["job.merge=broken_merge:merge"], [broken])
    assert caught.value.code is Exit.ROLLED_BACK
    deploys.track()
    kafka.produce(job.orders, [order(n + 100, f"p{n}") for n in range(50)])
    job.wait_for(150)

    assert deploys.results() == ["replaced", "failed", "running"]
    records = job.read("enriched")
    assert names(records) == {f"o{n}".encode(): f"row-{n % 50}" for n in range(150)}
    assert len(records) == 150
    assert job.read("retry") == job.read("dead") == []


def test_a_reload_takes_over_with_no_wrong_null_and_nothing_lost(deploys: Deploys) -> None:
    job, kafka = deploys.job, deploys.job.kafka
    plain = job.config.read_text()
    job.config.write_text(plain.replace('retry_after = ""', 'retry_after = "1 h"'))
    kafka.produce(job.products, _products(0, 500, "old"))
    kafka.produce(job.orders, [order(n, f"p{n}") for n in range(500)])
    kafka.produce(job.orders, [order_of("early", "p900")])
    deploys.adopt()
    job.wait_for(501)
    kafka.produce(job.products, _products(0, 250, "new"))
    kafka.produce(job.products, [Message(b"p499", None)])
    # The check before anything is touched looks at the newest checkpoint.
    job.wait_until(lambda: job.completed_checkpoints() > 0, "a checkpoint")
    # Another number of key groups: no savepoint of the old one would do.
    with pytest.raises(DeployError) as caught:
        deploys.upgrade(["job.max_parallelism=64"])
    assert caught.value.code is Exit.REFUSED
    assert "gated-join has 128" in deploys.told.refused()["uids"]
    deploys.upgrade(["job.max_parallelism=64"], reload_table=True)
    kafka.produce(job.orders, [order(n + 500, f"p{n}") for n in range(500)])
    job.wait_for(1_002)

    assert any("stands at the savepoint in 2 partitions" in line for line in deploys.told.lines)
    assert any(line.startswith("1 events that waited") for line in deploys.told.lines)
    records = job.read("enriched")
    assert names(records) == (
        {f"o{n}".encode(): f"old-{n}" for n in range(500)}
        | {f"o{n + 500}".encode(): f"{'new' if n < 250 else 'old'}-{n}" for n in range(499)}
    )
    assert len(records) == 999
    misses = sorted(job.read("retry"), key=lambda record: record.key or b"")
    # What the old version kept for its next try, the new one has read as well.
    assert [(miss.key, miss.header("tablegate-verdict")) for miss in misses] == [
        (b"early", "NOT_FOUND"),
        (b"early", "NOT_FOUND"),
        (b"o999", "DELETED"),
    ]
    assert misses[0].headers == misses[1].headers
    assert job.read("dead") == []
