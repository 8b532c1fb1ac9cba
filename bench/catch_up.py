"""How long a job is behind after a hold, at several loads, against hold * load / (1 - load).

    .venv/bin/python -m bench.catch_up [--rows 1000000] [--loads 0.5,0.75,0.9] [--hold 60] [...]

One broker, one cluster, one subtask, RocksDB. First the capacity: how many events a second leave
while the gate is open and a backlog waits, without a writer and with one. A load is a share of the
newest capacity: the last of these, and after that the one of the catch-up before, which is measured
for longer and with more work beside it. Then for each load a writer that goes by the clock, and a
hold: the job is stopped with a savepoint and started again while a transaction on the table is
unfinished, so that the gate stays shut until it is committed, ``--hold`` seconds after the last
event left. How long it was in truth is taken from the output. Start and stop are in it, so
``--hold`` should be 20 at least. With few rows the load rate is that of the start: what is written
for `tablegate plan` should come from a run with the default.

Writes catch-up.json (also for `tablegate plan --rates`) and catch-up.md to ``--results``. Exits
with 1 when a rate was missed or a lag never came back. Figures are of this machine at this moment;
its cores are shared by broker, writer and job.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from bench import catch_up_model as model
from bench import ground
from bench.catch_up_report import markdown
from bench.catch_up_steps import Bench, drain_rate, one_load, rate_with_writer
from bench.meter import Meter
from ops import flink_run
from ops.demo import topics
from ops.paths import POM, ROOT
from ops.plan import rates
from ops.stack.broker import Broker
from ops.stack.flink import FlinkCluster


def main() -> int:
    """Measure, write, print."""
    options = _options()
    # Of others, if there are any: our own processes come now.
    load_average, *_ = os.getloadavg()
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
                told = {"load_average": round(load_average, 1), **_measure(bench, options)}
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "catch-up.json").write_text(json.dumps(told, indent=2) + "\n")
    (options.results / "catch-up.md").write_text(markdown(told))
    print(markdown(told))
    return 1 if told["wrong"] else 0


def _measure(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    bench.fill(options.backlog)
    bench.start()
    load_rate = options.rows / bench.opened()
    alone = drain_rate(bench, options.backlog)
    _log(f"capacity without a writer {alone:,.0f} events/s")
    with_writer = rate_with_writer(bench, alone, options.backlog)
    _log(f"capacity with a writer {with_writer:,.0f} events/s")
    runs: list[model.Figures] = []
    for load in options.loads:
        # Some minutes of a machine's best are no capacity: 90 % of them were once more than it had.
        capacity = runs[-1].topic_rate if runs else with_writer
        runs.append(one_load(bench, load, capacity, options.hold, options.steady))
        _log(json.dumps(runs[-1].shown()))
    flink_run.cancel(bench.cluster, bench.job_id)
    return {
        "bench": "catch_up",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "versions": versions(),
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
            rates.LOAD: round(load_rate, 1),
            rates.JOIN: round(with_writer, 1),
            rates.RELEASE: round(statistics.median(run.release_rate for run in runs), 1),
            rates.ROW_BYTES: options.row_bytes,
        },
        "capacity_without_writer": round(alone, 1),
        "runs": [run.shown() for run in runs],
        "wrong": model.judge(runs) + _lost(bench),
    }


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


def versions() -> dict[str, str]:
    """Of what was measured and what it ran on."""
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
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--row-bytes", type=int, default=200)
    parser.add_argument("--backlog", type=int, default=800_000, help="events, for the capacity")
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
