"""A day in the life of the alerts: real Kafka, Flink and Prometheus, on a faster clock.

The rules are those of monitoring/, in a copy in which every duration is so many times shorter that
ten minutes are twenty seconds (`tests.support.prometheus.faster_rules`). Restarts are as slow as
ever: a stop of ten seconds is one of five minutes to the rules. What a restart of a minute does on
their true clock is shown by promtool, in monitoring/tests/restarts.yml.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ops.stack.flink import FlinkCluster
from tests.cluster.conftest import NewJob
from tests.support.dashboard import queries
from tests.support.join_job import JoinJob, product
from tests.support.kafka import Kafka
from tests.support.prometheus import Prometheus, faster_promql, watching
from tests.support.traffic import traffic

_PER_SECOND = 100
_ROWS = [f"p{n}" for n in range(1_000)]
_FAULT_PERCENT = 3
_RATE, _LEVEL = "tablegate:hit_rate:ratio10m", "tablegate:hit_rate:level1d"
# A busy machine starts a job in a minute.
_SLACK_S = 120
# Panels that are empty where all is well, by title and legend.
_EMPTY_WHEN_HEALTHY = {
    # Nothing is pending or firing.
    ("Alerts", "{{alertname}} {{alertstate}}"),
    # The job is not a day old.
    ("Hit rate", "a day"),
}


class Watched:
    """The job as Prometheus sees it, and for how long it was away because of us."""

    def __init__(self, job: JoinJob, prometheus: Prometheus) -> None:
        self.job, self.prometheus = job, prometheus
        self.longest_away_s = 0.0
        self._begin = time.monotonic()

    def minutes(self, count: float) -> float:
        """Seconds that so many minutes of the rules take."""
        return count * 60 / self.prometheus.factor

    def series(self, name: str) -> float | None:
        return self.prometheus.value(f'{name}{{job_name="{self.job.orders}"}}')

    def wait_for_all_hits(self, *names: str, minutes: float) -> None:
        """Wait until each of these hit rates is there and is 100 %."""
        self.prometheus.wait_until(
            lambda: all(self.series(name) == 1 for name in names),
            f"100 % of {names}",
            self.minutes(minutes) + _SLACK_S,
        )

    def fired(self) -> set[str]:
        """Alerts that fired since the beginning, but for what is true at this speed."""
        allowed = set()
        if self.longest_away_s > self.minutes(10):
            allowed.add("TablegateJobAbsent")
        if self.longest_away_s > self.minutes(15):
            allowed.add("TablegateGateShut")
        return self.prometheus.fired(time.monotonic() - self._begin) - allowed

    @contextmanager
    def restart(self) -> Iterator[None]:
        """What is done in the block restarts the job; wait for its open gate.

        By its log: Flink's REST interface, which also tells it, has been seen to answer with the
        metrics of before for minutes after a TaskManager was killed.
        """
        opened, began = self.job.times_opened(), time.monotonic()
        yield
        self.job.wait_until(lambda: self.job.times_opened() > opened, "open gate")
        self.longest_away_s = max(self.longest_away_s, time.monotonic() - began)


def _kill(watched: Watched, flink: FlinkCluster) -> None:
    job, before = watched.job, flink.metrics_addresses()
    with watched.restart():
        job.kill_task_manager()
        # The one that stood by takes over. The new one is ready when the job resumes.
        flink.start_taskmanager(wait=False)
        after = flink.metrics_addresses()
        assert after.keys() == before.keys()
        assert after != before


def _stop_and_resume(watched: Watched) -> None:
    with watched.restart():
        watched.job.start(from_savepoint=watched.job.stop())


def _all_processes_are_scraped(prometheus: Prometheus, flink: FlinkCluster) -> None:
    listed = json.loads(flink.targets_file.read_text())
    targets = {entry["labels"]["process"]: entry["targets"] for entry in listed}
    assert targets == {name: [address] for name, address in flink.metrics_addresses().items()}

    def scraped() -> bool:
        up = prometheus.query("up == 1")
        return {s.labels["process"]: [s.labels["instance"]] for s in up} == targets

    prometheus.wait_until(scraped, f"scrapes of {targets}", _SLACK_S)


def _every_query_of_the_dashboard_answers(watched: Watched) -> None:
    empty = {
        (query.panel, query.legend)
        for query in queries()
        if not watched.prometheus.query(
            faster_promql(query.of(watched.job.orders), watched.prometheus.factor)
        )
    }
    assert empty == _EMPTY_WHEN_HEALTHY


# A minute and a half of it is waiting for the rules; the rest is the machine's business.
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "factor",
    [
        30,
        pytest.param(6, marks=[pytest.mark.full, pytest.mark.timeout(1_200)]),
    ],
)
def test_a_fault_of_three_percent_is_told_and_restarts_alone_are_not(
    kafka: Kafka, flink: FlinkCluster, new_job: NewJob, tmp_path: Path, factor: int
) -> None:
    job = new_job(settings={"stats": {"window_ms": 1_000}})
    kafka.produce(job.products, [product(key, f"name of {key}") for key in _ROWS])
    with (
        watching(tmp_path / "prometheus", flink.targets_file, factor) as prometheus,
        traffic(kafka, job.orders, _ROWS, _PER_SECOND) as orders,
    ):
        job.start()
        job.wait_open()
        watched = Watched(job, prometheus)
        _all_processes_are_scraped(prometheus, flink)
        watched.wait_for_all_hits(_RATE, minutes=10)
        _kill(watched, flink)
        _stop_and_resume(watched)
        _all_processes_are_scraped(prometheus, flink)
        watched.wait_for_all_hits(_RATE, _LEVEL, minutes=20)
        assert watched.fired() == set()
        _every_query_of_the_dashboard_answers(watched)

        orders.missing_percent = _FAULT_PERCENT
        prometheus.wait_until(
            lambda: "TablegateHitRateFell" in watched.fired(),
            "the alert",
            watched.minutes(20) + _SLACK_S,
        )
        assert watched.fired() == {"TablegateHitRateFell"}
        # The window may still hold some of the time before.
        rate = watched.series(_RATE)
        assert rate == pytest.approx(1 - _FAULT_PERCENT / 100, abs=0.008)
