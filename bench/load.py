"""How long the main job takes to load a table and to work off what waited meanwhile.

    .venv/bin/python -m bench.load [--rows 1000000] [--row-bytes 200] [--events 200000] [...]

Starts a broker and a cluster of its own, fills the topics and submits the job; when it has worked
off the stream, stops it with a savepoint and starts it again on the quiet table. Prints one JSON
line for each measure. Figures are of this machine at this moment; compare runs side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from jobs.settings import Settings, from_mapping
from ops import flink_run
from ops.demo import topics
from ops.demo.data import Draft
from ops.stack.broker import Broker
from ops.stack.flink import FlinkCluster

_PARTITIONS = 4
_DEADLINE_S = 1800.0
_POLL_S = 0.1
# Any time will do: the join does not look at it.
_WRITTEN_MS = 1_700_000_000_000
_OPENED = re.compile(r"^(\S+ \S+) .*gate of \S+: open after (\d+) ms", re.MULTILINE)


def main() -> None:
    """Measure once and print."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="tablegate-bench-") as folder:
        place = Path(folder)
        with (
            Broker(place / "kafka") as broker,
            FlinkCluster(place / "flink", taskmanagers=options.taskmanagers) as cluster,
        ):
            for measure, value, unit in _measure(broker, cluster, place, options):
                line = {"measure": measure, "value": round(value, 3), "unit": unit}
                about = {
                    "rows": options.rows,
                    "row_bytes": options.row_bytes,
                    "events": options.events,
                    "state": options.state,
                    "parallelism": options.parallelism,
                    "cores": os.cpu_count(),
                }
                print(json.dumps(line | about), flush=True)


def _measure(
    broker: Broker, cluster: FlinkCluster, place: Path, options: argparse.Namespace
) -> Iterator[tuple[str, float, str]]:
    brokers = broker.bootstrap_servers
    settings = _settings(brokers, options.parallelism)
    output = settings.output
    topics.create(brokers, {"rows": topics.COMPACTED, "events": topics.KEEP}, _PARTITIONS)
    topics.create(
        brokers,
        dict.fromkeys((output.enriched, output.retry, output.dead), topics.KEEP),
        _PARTITIONS,
    )
    topics.produce(brokers, "rows", _rows(options.rows, options.row_bytes))
    topics.produce(brokers, "events", _events(options.events, options.rows))
    config = place / "bench.toml"
    config.write_text(settings.describe())
    flink_settings = {"state.backend.type": options.state}

    submitted = time.time()
    job = flink_run.submit(cluster, config=config, flink_settings=flink_settings)
    opened_at, load_s = _wait_opened(cluster, 1)
    _wait(lambda: _written(brokers, output.enriched) >= options.events, "all events joined")
    drained_s = time.time() - opened_at
    yield "submit to gate open", opened_at - submitted, "s"
    yield "targets known to gate open", load_s, "s"
    yield "table load", options.rows / load_s, "rows/s"
    yield "stream worked off after open", options.events / drained_s, "events/s"

    savepoint = flink_run.stop_with_savepoint(cluster, job)
    # A backlog for the second start, whose gate opens at once: these events are not held.
    topics.produce(brokers, "events", _events(options.events, options.rows))
    resumed = time.time()
    job = flink_run.submit(
        cluster, config=config, from_savepoint=savepoint, flink_settings=flink_settings
    )
    opened_at, warm_s = _wait_opened(cluster, 2)
    yield "quiet table, submit to gate open", opened_at - resumed, "s"
    yield "quiet table, targets known to gate open", warm_s, "s"
    _wait(lambda: _written(brokers, output.enriched) >= 2 * options.events, "the backlog joined")
    yield "stream joined, gate open", options.events / (time.time() - opened_at), "events/s"
    flink_run.cancel(cluster, job)


def _settings(brokers: str, parallelism: int) -> Settings:
    return from_mapping(
        {
            "job": {"name": "bench-load", "parallelism": parallelism},
            "kafka": {"bootstrap_servers": brokers},
            "stream": {"topic": "events", "key": {"from": "value", "path": "id"}},
            "table": {"topic": "rows", "fields": {"tier": "tier"}},
            "output": {"enriched": "enriched", "retry": "retry", "dead": "dead"},
        }
    )


def _rows(count: int, size: int) -> Iterator[Draft]:
    pad = "x" * max(0, size - 40)
    for n in range(count):
        value = json.dumps({"tier": f"tier-{n % 5}", "pad": pad}).encode()
        yield Draft(f"c{n}".encode(), value, (), _WRITTEN_MS)


def _events(count: int, rows: int) -> Iterator[Draft]:
    pad = "x" * 150
    for n in range(count):
        # A step that shares no factor with the number of rows spreads the events over all keys.
        value = json.dumps({"id": f"c{n * 7919 % rows}", "n": n, "pad": pad}).encode()
        yield Draft(f"o{n}".encode(), value, (), _WRITTEN_MS)


def _wait_opened(cluster: FlinkCluster, times: int) -> tuple[float, float]:
    """When the gate opened for the ``times``-th time (epoch s), and how long after its targets."""
    _wait(lambda: len(_OPENED.findall(cluster.logs())) >= times, "open gate")
    at, after_ms = _OPENED.findall(cluster.logs())[times - 1]
    logged = datetime.strptime(at, "%Y-%m-%d %H:%M:%S,%f").astimezone()
    return logged.timestamp(), int(after_ms) / 1000


def _written(brokers: str, topic: str) -> int:
    return sum(topics.ends(brokers, topic).values())


def _wait(met: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not met():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {_DEADLINE_S:.0f} s")
        time.sleep(_POLL_S)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.load", description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--row-bytes", type=int, default=200)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--state", choices=["rocksdb", "hashmap"], default="rocksdb")
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--taskmanagers", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
