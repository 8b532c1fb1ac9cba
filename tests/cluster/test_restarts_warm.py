"""What a start finds in its state: nothing, all of the table, or all but what was written since."""

from __future__ import annotations

import re
from datetime import datetime

from tests.cluster.conftest import NewJob
from tests.support.join_job import JoinJob, order, product

_ROWS = 2_000
_NEW = 30
# On a machine that does nothing else it is well under two seconds; CI's may be busy.
_QUIET_OPENS_WITHIN_S = 10.0
_STAMP = r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})"


def test_a_cold_start_a_quiet_one_and_one_with_a_delta_are_told_apart(new_job: NewJob) -> None:
    job = new_job()
    job.kafka.produce(job.products, [product(f"p{n}", f"old-{n}") for n in range(_ROWS)])
    job.kafka.produce(job.orders, [order(1, "p1")])
    job.start()
    job.wait_for(1)
    # Counted when the state has been heard of; a few rows may have come by first.
    ((kind, offsets),) = _starts(job)
    assert (kind, _ROWS * 0.9 < offsets <= _ROWS) == ("cold start", True)

    savepoint = job.stop()
    job.kafka.produce(job.orders, [order(2, "p2")])
    job.start(from_savepoint=savepoint)
    job.wait_for(2)
    assert _starts(job)[1:] == [("warm start on a quiet table", 0)]
    opened_s = _opened_after_tasks_ran_s(job)
    print(f"quiet table: open {opened_s:.2f} s after the last task ran")  # noqa: T201  (a figure)
    assert opened_s < _QUIET_OPENS_WITHIN_S

    savepoint = job.stop()
    job.kafka.produce(job.products, [product(f"p{n}", f"new-{n}") for n in range(_NEW)])
    job.kafka.produce(job.orders, [order(3, "p3"), order(4, f"p{_ROWS - 1}")])
    job.start(from_savepoint=savepoint)
    job.wait_for(4)
    # The delta only, of a table of which nothing else is read again.
    kind, offsets = _starts(job)[2]
    assert (kind, 0 < offsets <= _NEW) == ("warm start", True)
    assert job.outcomes() == {
        "o1": "old-1",
        "o2": "old-2",
        "o3": "new-3",
        "o4": f"old-{_ROWS - 1}",
    }


def _starts(job: JoinJob) -> list[tuple[str, int]]:
    """What the gate said of each start, and how many offsets were left, in order of time."""
    line = rf"{_STAMP} .*gate of {job.products}: ((?:cold|warm) start[a-z ]*)(?:, (\d+) offsets)?"
    said = sorted(re.findall(line, job.flink.logs()))
    return [(kind, int(offsets or 0)) for _, kind, offsets in said]


def _opened_after_tasks_ran_s(job: JoinJob) -> float:
    """From the last task's start to the last opening of the gate, in seconds, by the logs."""
    logs = job.flink.logs()
    opened = re.findall(rf"{_STAMP} .*gate of {job.products}: open after", logs)
    # Of every job of the session; the newest are this one's.
    running = re.findall(rf"{_STAMP} .*ExecutionGraph .* switched from INITIALIZING to RUN", logs)
    return (_time(max(opened)) - _time(max(running))).total_seconds()


def _time(stamp: str) -> datetime:
    return datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f")  # noqa: DTZ007  (only differences count)
