"""The parts of `bench.catch_up`: a capacity, and a hold under load with what comes after it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka import Producer

from bench import catch_up_model as model
from bench import ground
from bench.hold import held_events
from bench.meter import Meter
from bench.pace import Writer
from jobs.settings import Settings
from ops import flink_run
from ops.demo import topics
from ops.stack.flink import FlinkCluster

_POLL_S = 0.1
_ANSWER_S = 30.0
# Longer than any hold; the broker's own limit is 15 minutes.
_TRANSACTION_MS = 840_000
# Of the backlog: the first part is left out, since the JVM compiles while it runs.
_MEASURED_FROM, _MEASURED_TO = 0.3, 0.9
# The load under which the capacity with a writer is measured, in the middle of the loads.
_WRITER_LOAD = 0.75
# A lag of less than what arrives in this time is none: events pass through buffers.
_NO_LAG_S = 2.0
# A catch-up that takes so many times as long as by the formula is not watched to its end.
_PATIENCE = 4.0
_PATIENCE_MORE_S = 60.0


@dataclass
class Bench:
    """The running parts, and the job's number and savepoint."""

    brokers: str
    cluster: FlinkCluster
    settings: Settings
    config: Path
    meter: Meter
    rows: int
    starts: int = 0
    job_id: str = ""

    def start(self, savepoint: str | None = None) -> None:
        """Submit the job; returns when its tasks run."""
        self.job_id = flink_run.submit(
            self.cluster,
            config=self.config,
            from_savepoint=savepoint,
            flink_settings={"state.backend.type": "rocksdb"},
        )
        self.starts += 1
        flink_run.wait_running(self.cluster, self.job_id)

    def opened(self) -> float:
        """Wait for the gate of the last start; the seconds that it took from its targets on."""
        return ground.wait_opened(self.cluster, self.starts)[1]

    def fill(self, events: int) -> None:
        """Write events as fast as the broker takes them."""
        topics.produce(self.brokers, self.settings.stream.topic, ground.events(events, self.rows))


def drain_rate(bench: Bench, backlog: int) -> float:
    """Events a second over the middle of a backlog; returns when it is worked off."""
    began = bench.meter.last().enriched
    bench.meter.wait(lambda now: now.enriched >= began + backlog, "the backlog joined")
    samples = [
        sample
        for sample in bench.meter.samples()
        if _MEASURED_FROM * backlog <= sample.enriched - began <= _MEASURED_TO * backlog
    ]
    return model.rate(samples, "enriched")


def rate_with_writer(bench: Bench, alone: float, backlog: int) -> float:
    """The same while a writer writes three quarters of ``alone``; returns when nothing waits."""
    with Writer(bench.brokers, bench.settings.stream.topic, _WRITER_LOAD * alone, bench.rows):
        # A quarter of the capacity is left for it, so a quarter of the events take as long.
        bench.fill(backlog // 4)
        filled = bench.meter.last()
        # Some of it left while it was written; what is measured begins when that is done.
        floor = filled.lag * (1 - _MEASURED_TO)
        bench.meter.wait(lambda now: now.lag <= floor, "most of the backlog joined")
        samples = model.between(bench.meter.samples(), filled.at_s, bench.meter.last().at_s)
    _settle(bench, 0)
    return model.rate(samples, "enriched")


def _settle(bench: Bench, lag: float) -> None:
    bench.meter.wait(lambda now: now.lag <= lag, f"a lag of {lag:.0f} events")


def one_load(
    bench: Bench, load: float, capacity: float, wanted_hold_s: float, steady_s: float
) -> model.Figures:
    """Run with a share of the capacity, hold, watch the lag come back, and leave no lag.

    Args:
        bench: with a job that runs, its gate open.
        load: the share.
        capacity: events a second.
        wanted_hold_s: how long nothing should leave, in seconds.
        steady_s: how long to look at the lag before, in seconds.
    """
    rate = load * capacity
    meter, topic = bench.meter, bench.settings.stream.topic
    bench_process = psutil.Process()
    with Writer(bench.brokers, topic, rate, bench.rows):
        began = time.monotonic()
        _settle_after(bench, began + _NO_LAG_S, _NO_LAG_S * rate)
        cpu_s, steady = sum(bench_process.cpu_times()[:2]), time.monotonic()
        meter.wait(lambda now: now.at_s >= steady + steady_s, "a steady state")
        taken_s = sum(bench_process.cpu_times()[:2]) - cpu_s
        writer_cores = taken_s / (time.monotonic() - steady)
        before = model.between(meter.samples(), steady, time.monotonic())
        last_left = _hold(bench, wanted_hold_s)
        bench.opened()
        wanted = model.level(before)
        opened_s = time.monotonic()
        until = opened_s + _PATIENCE_MORE_S
        until += _PATIENCE * model.simple_s(opened_s - last_left, load)

        def over(now: model.Sample) -> bool:
            if now.at_s > until:
                return True
            # Looked at again with all samples around it afterwards.
            recent = model.between(meter.samples(), opened_s, now.at_s)
            return model.back(recent, wanted) is not None

        meter.wait(over, "the lag of before", every_s=1.0)
        # Nothing is held once the gate is open, and by now Flink has collected what was.
        held = held_events(bench.cluster.rest_url, bench.job_id)
        after = model.between(meter.samples(), steady + steady_s, time.monotonic())
    _settle(bench, 0)
    return model.figures(load, rate, before, after, held, writer_cores)


def _settle_after(bench: Bench, moment_s: float, lag: float) -> None:
    bench.meter.wait(lambda now: now.at_s >= moment_s and now.lag <= lag, "no lag")


def _hold(bench: Bench, hold_s: float) -> float:
    """Stop the job, start it, and let its gate open when nothing has left for ``hold_s``.

    Returns:
        When the last event left before.
    """
    savepoint = flink_run.stop_with_savepoint(bench.cluster, bench.job_id)
    producer = Producer(
        {
            "bootstrap.servers": bench.brokers,
            "transactional.id": f"bench-catch-up-{bench.starts}",
            "transaction.timeout.ms": _TRANSACTION_MS,
        }
    )
    producer.init_transactions(_ANSWER_S)
    producer.begin_transaction()
    (row,) = ground.rows(1, 0)
    producer.produce(bench.settings.table.topic, row.value, row.key)
    producer.flush(_ANSWER_S)
    bench.start(savepoint)
    last_left = bench.meter.last_rise()
    while time.monotonic() < last_left + hold_s:
        time.sleep(_POLL_S)
    producer.commit_transaction(_ANSWER_S)
    return last_left
