"""How long a job is behind after a hold, at several loads, against hold * load / (1 - load).

    .venv/bin/python -m bench.catch_up [--rows 500000] [--loads 0.5,0.75,0.9] [--hold 60] [...]

One broker, one cluster, one subtask, RocksDB. First the capacity: how many events a second leave
while the gate is open and a backlog waits, without a writer and with one. Then for each load a
writer that goes by the clock, and a hold: the job is stopped with a savepoint and started again
while a transaction on the table is unfinished, so that the gate stays shut until it is committed,
``--hold`` seconds after the last event left. How long it was in truth is taken from the output.
Start and stop are in it, so ``--hold`` should be 20 at least.

Writes catch-up.json (also for `tablegate plan --rates`) and catch-up.md to ``--results``. Exits
with 1 when a rate was missed or a lag never came back. Figures are of this machine at this moment;
its cores are shared by broker, writer and job.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import psutil
from confluent_kafka import Producer

from bench import catch_up_model as model
from bench import ground
from bench.catch_up_report import markdown
from bench.hold import held_events
from bench.meter import Meter
from bench.pace import Writer
from jobs.settings import Settings
from ops import flink_run
from ops.demo import topics
from ops.paths import POM, ROOT
from ops.stack.broker import Broker
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


def main() -> int:
    """Measure, write, print."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="tablegate-catch-up-") as folder:
        place = Path(folder)
        with (
            Broker(place / "kafka") as broker,
            FlinkCluster(place / "flink") as cluster,
        ):
            brokers = broker.bootstrap_servers
            settings = ground.settings(brokers, "bench-catch-up", 1)
            ground.create_topics(brokers, settings)
            rows = ground.rows(options.rows, options.row_bytes)
            topics.produce(brokers, settings.table.topic, rows)
            config = place / "catch-up.toml"
            config.write_text(settings.describe())
            with Meter(settings) as meter:
                bench = Bench(brokers, cluster, settings, config, meter, options.rows)
                told = _measure(bench, options)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "catch-up.json").write_text(json.dumps(told, indent=2) + "\n")
    (options.results / "catch-up.md").write_text(markdown(told))
    print(markdown(told))
    return 1 if told["wrong"] else 0


def _measure(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    bench.fill(options.backlog)
    bench.start()
    load_rate = options.rows / bench.opened()
    alone = _drain_rate(bench, options.backlog)
    _log(f"capacity without a writer {alone:,.0f} events/s")
    with_writer = _with_writer(bench, alone, options)
    _log(f"capacity with a writer {with_writer:,.0f} events/s")
    runs = []
    for load in options.loads:
        runs.append(_one(bench, load, with_writer, options))
        _log(json.dumps(runs[-1].shown()))
    flink_run.cancel(bench.cluster, bench.job_id)
    released = sorted(run.release_rate for run in runs)
    return {
        "bench": "catch_up",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "versions": _versions(),
        "cores": os.cpu_count(),
        "options": {
            "rows": options.rows,
            "row_bytes": options.row_bytes,
            "backlog": options.backlog,
            "hold_s": options.hold,
            "steady_s": options.steady,
            "state": "rocksdb",
            "parallelism": 1,
        },
        "rates": {
            "load_rate": round(load_rate, 1),
            "join_rate": round(with_writer, 1),
            "release_rate": round(released[len(released) // 2], 1),
            "measured_row_bytes": options.row_bytes,
        },
        "capacity_without_writer": round(alone, 1),
        "runs": [run.shown() for run in runs],
        "wrong": model.judge(runs) + _lost(bench),
    }


# ------------------------------------------------------------------------------ capacity


def _drain_rate(bench: Bench, backlog: int) -> float:
    """Events a second over the middle of a backlog; returns when it is worked off."""
    began = bench.meter.last().enriched
    bench.meter.wait(lambda now: now.enriched >= began + backlog, "the backlog joined")
    samples = [
        sample
        for sample in bench.meter.samples()
        if _MEASURED_FROM * backlog <= sample.enriched - began <= _MEASURED_TO * backlog
    ]
    return model.rate(samples, "enriched")


def _with_writer(bench: Bench, alone: float, options: argparse.Namespace) -> float:
    """The same while a writer is at work; returns when nothing waits."""
    with Writer(bench.brokers, bench.settings.stream.topic, _WRITER_LOAD * alone, bench.rows):
        bench.fill(options.backlog)
        filled = bench.meter.last()
        # Some of it left while it was written; what is measured begins when that is done.
        floor = filled.lag * (1 - _MEASURED_TO)
        bench.meter.wait(lambda now: now.lag <= floor, "most of the backlog joined")
        samples = model.between(bench.meter.samples(), filled.at_s, bench.meter.last().at_s)
    _settle(bench, 0)
    return model.rate(samples, "enriched")


def _settle(bench: Bench, lag: float) -> None:
    bench.meter.wait(lambda now: now.lag <= lag, f"a lag of {lag:.0f} events")


# ------------------------------------------------------------------------------ one load


def _one(bench: Bench, load: float, capacity: float, options: argparse.Namespace) -> model.Figures:
    rate = load * capacity
    meter, topic = bench.meter, bench.settings.stream.topic
    bench_process = psutil.Process()
    with Writer(bench.brokers, topic, rate, bench.rows):
        began = time.monotonic()
        _settle_after(bench, began + _NO_LAG_S, _NO_LAG_S * rate)
        cpu_s, steady = sum(bench_process.cpu_times()[:2]), time.monotonic()
        meter.wait(lambda now: now.at_s >= steady + options.steady, "a steady state")
        taken_s = sum(bench_process.cpu_times()[:2]) - cpu_s
        writer_cores = taken_s / (time.monotonic() - steady)
        before = model.between(meter.samples(), steady, time.monotonic())
        last_left = _hold(bench, options.hold)
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
        after = model.between(meter.samples(), steady + options.steady, time.monotonic())
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


def _lost(bench: Bench) -> list[str]:
    """Events that did not leave enriched, exactly once."""
    output = bench.settings.output
    missed = ground.written(bench.brokers, output.retry)
    dead = ground.written(bench.brokers, output.dead)
    now = bench.meter.last()
    if (missed, dead, now.lag) == (0, 0, 0):
        return []
    what = f"{now.written} events were written and {now.enriched} left enriched"
    return [f"{what}, {missed} missed, {dead} dead; expected every event enriched once"]


# ------------------------------------------------------------------------------ about the run


def _versions() -> dict[str, str]:
    kafka = ET.parse(POM).find(".//{*}kafka.version")  # noqa: S314  (our own file)
    return {
        "tablegate": version("tablegate"),
        "flink": version("apache-flink"),
        "kafka": kafka.text or "" if kafka is not None else "",
        "confluent-kafka": version("confluent-kafka"),
        "python": platform.python_version(),
    }


def _log(line: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {line}", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.catch_up", description=__doc__.partition(".")[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--row-bytes", type=int, default=200)
    parser.add_argument(
        "--backlog", type=int, default=800_000, help="events, for each of the two capacities"
    )
    parser.add_argument(
        "--loads",
        type=lambda text: [float(part) for part in text.split(",")],
        default=[0.5, 0.75, 0.9],
        help="shares of the capacity, separated by commas",
    )
    parser.add_argument("--hold", type=float, default=60.0, help="seconds")
    parser.add_argument("--steady", type=float, default=30.0, help="seconds before each hold")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    options = parser.parse_args()
    if not all(0 < load < 1 for load in options.loads):
        parser.error("--loads are shares of the capacity: above 0 and below 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
