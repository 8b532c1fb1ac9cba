"""How long an event takes through the SQL variant with several tick intervals, and their cost.

    .venv/bin/python -m bench.sql_latency [--ticks 100,200,500,1000] [--seconds 60] [...]

One broker; for each interval topics and a cluster of its own. When the gate has opened: events at a
steady rate, each timed from its write until a reader has its enriched record; then a while without
events, for the CPU that the ticks take; then a backlog, for the rate at which it is worked off.

Writes sql-latency.json and sql-latency.md to ``--results``. Exits with 1 when an event took longer
than two ticks and the allowance, or did not come out. Figures are of this machine at this moment.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, Producer, TopicPartition

from bench import ground
from bench.catch_up import versions
from bench.cpu import Cpu, cpu
from bench.sql_latency_model import Figures, markdown, quantile, wrong
from jobs.settings import Settings
from ops import flink_run
from ops.demo import topics
from ops.paths import ROOT, SQL
from ops.stack.broker import Broker
from ops.stack.flink import FlinkCluster

_WARM_UP_S = 10.0
_POLL_S = 0.05


def main() -> int:
    """Measure each interval, write, print."""
    options = _options()
    runs = []
    with tempfile.TemporaryDirectory(prefix="tablegate-sql-latency-") as folder:
        place = Path(folder)
        with Broker(place / "kafka") as broker:
            for tick_ms in options.ticks:
                runs.append(_measure(broker.bootstrap_servers, place, tick_ms, options))
                print(json.dumps(runs[-1].shown()), flush=True)
    told = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count(),
        "versions": versions(),
        "options": {
            name: getattr(options, name)
            for name in ("rows", "rate", "seconds", "idle_seconds", "backlog")
        },
        "runs": [run.shown() for run in runs],
        "wrong": wrong(runs, int(options.rate * options.seconds)),
    }
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "sql-latency.json").write_text(json.dumps(told, indent=2) + "\n")
    (options.results / "sql-latency.md").write_text(markdown(told))
    print(markdown(told))
    return 1 if told["wrong"] else 0


def _measure(brokers: str, place: Path, tick_ms: int, options: argparse.Namespace) -> Figures:
    load_average, *_ = os.getloadavg()
    # What the SQL variant does not keep is off.
    more: dict[str, dict[str, object]] = {
        "gate": {"tick_interval_ms": tick_ms},
        "miss": {"grace_ms": 0, "retry_after": ""},
    }
    settings = ground.settings(brokers, f"bench-sql-{tick_ms}", 1, f"-{tick_ms}", more)
    ground.create_topics(brokers, settings)
    topics.produce(brokers, settings.table.topic, ground.rows(options.rows, 200))
    config = place / f"{tick_ms}.toml"
    config.write_text(settings.describe())
    with FlinkCluster(place / f"flink-{tick_ms}", taskmanagers=1) as cluster:
        job = flink_run.submit(
            cluster,
            config=config,
            entry=flink_run.ENRICH_SQL,
            job_arguments=["--sql", str(SQL)],
        )
        ground.wait_opened(cluster, 1)
        with _Reader(brokers, settings.output.enriched) as reader:
            writer = _Writer(brokers, settings.stream.topic, options.rows)
            # The first events also load classes and modules.
            writer.write(options.rate, _WARM_UP_S)
            ground.wait(lambda: len(writer.sent) <= len(reader.seen), "the first events")
            first = len(writer.sent)
            writer.write(options.rate, options.seconds)
            ground.wait(lambda: len(writer.sent) <= len(reader.seen), "all events")
            sent, seen = writer.sent, reader.seen
            latencies = [(seen[n] - sent[n]) * 1_000 for n in range(first, len(sent)) if n in seen]
        idle = _idle(cluster.taskmanagers().values(), options.idle_seconds)
        drained = _drained(brokers, settings, options)
        flink_run.cancel(cluster, job)
    return Figures(
        tick_ms=tick_ms,
        events=len(latencies),
        p50_ms=quantile(latencies, 0.5),
        p99_ms=quantile(latencies, 0.99),
        max_ms=max(latencies),
        idle_cpu_s=idle.taskmanager_s + idle.workers_s,
        idle_worker_cpu_s=idle.workers_s,
        drained_rate=drained,
        load_average=load_average,
    )


# --------------------------------------------------------------------------- write and read


class _Writer:
    """Writes events one by one, by the clock; ``sent`` is when, by number (monotonic s)."""

    def __init__(self, brokers: str, topic: str, rows: int) -> None:
        self.sent: dict[int, float] = {}
        self._topic, self._rows = topic, rows
        self._producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0})

    def write(self, rate: float, seconds: float) -> None:
        """``rate`` events a second for so long; none of them in step with a tick."""
        began = time.monotonic()
        for step in range(int(rate * seconds)):
            number = len(self.sent)
            value = json.dumps({"id": f"c{number * 7919 % self._rows}", "n": number}).encode()
            while (wait := began + step / rate - time.monotonic()) > 0:
                self._producer.poll(0)
                time.sleep(min(wait, _POLL_S))
            self.sent[number] = time.monotonic()
            self._producer.produce(self._topic, key=f"o{number}".encode(), value=value)
            self._producer.poll(0)
        if left := self._producer.flush(30):
            raise RuntimeError(f"{left} events did not get into {self._topic}")


class _Reader:
    """Reads a topic from its end while it is entered; ``seen`` is when, by number (monotonic s)."""

    def __init__(self, brokers: str, topic: str) -> None:
        self.seen: dict[int, float] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": "bench-sql-latency",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 10,
            }
        )
        ends = topics.ends(brokers, topic)
        self._consumer.assign([TopicPartition(topic, p, end) for p, end in ends.items()])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error():
                continue
            at = time.monotonic()
            # The first copy counts; at least once may write another.
            self.seen.setdefault(json.loads(message.value() or b"{}")["n"], at)


# ------------------------------------------------------------------------------------- cost


def _idle(pids: Iterable[int], seconds: float) -> Cpu:
    """CPU seconds for a minute in which nothing comes."""
    pids = list(pids)
    before, began = cpu(pids), time.monotonic()
    time.sleep(seconds)
    after, minutes = cpu(pids), (time.monotonic() - began) / 60
    return Cpu(*((late - early) / minutes for early, late in zip(before, after, strict=True)))


def _drained(brokers: str, settings: Settings, options: argparse.Namespace) -> float:
    """Events a second, from the first one's write until the last one is out."""
    enriched = settings.output.enriched
    wanted = ground.written(brokers, enriched) + options.backlog
    began = time.monotonic()
    topics.produce(brokers, settings.stream.topic, ground.events(options.backlog, options.rows))
    ground.wait(lambda: ground.written(brokers, enriched) >= wanted, "the backlog")
    return float(options.backlog / (time.monotonic() - began))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.sql_latency", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "--ticks",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[100, 200, 500, 1_000],
        help="intervals in ms, separated by commas; divisors of 1000",
    )
    parser.add_argument("--rows", type=int, default=100_000)
    # Shares no factor with the intervals, so that events come at all points between two ticks.
    parser.add_argument("--rate", type=float, default=47, help="events a second")
    parser.add_argument("--seconds", type=float, default=60, help="how long they are written")
    parser.add_argument("--idle-seconds", type=float, default=60)
    parser.add_argument("--backlog", type=int, default=200_000, help="events to work off")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
