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
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench import ground
from ops import flink_run
from ops.demo import topics
from ops.stack.broker import Broker
from ops.stack.flink import FlinkCluster


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
    settings = ground.settings(brokers, "bench-load", options.parallelism)
    enriched, stream = settings.output.enriched, settings.stream.topic
    ground.create_topics(brokers, settings)
    topics.produce(brokers, settings.table.topic, ground.rows(options.rows, options.row_bytes))
    topics.produce(brokers, stream, ground.events(options.events, options.rows))
    config = place / "bench.toml"
    config.write_text(settings.describe())
    flink_settings = {"state.backend.type": options.state}

    submitted = time.time()
    job = flink_run.submit(cluster, config=config, flink_settings=flink_settings)
    opened_at, load_s = ground.wait_opened(cluster, 1)
    ground.wait(lambda: ground.written(brokers, enriched) >= options.events, "all events joined")
    drained_s = time.time() - opened_at
    yield "submit to gate open", opened_at - submitted, "s"
    yield "targets known to gate open", load_s, "s"
    yield "table load", options.rows / load_s, "rows/s"
    yield "stream worked off after open", options.events / drained_s, "events/s"

    savepoint = flink_run.stop_with_savepoint(cluster, job)
    # A backlog for the second start, whose gate opens at once: these events are not held.
    topics.produce(brokers, stream, ground.events(options.events, options.rows))
    resumed = time.time()
    job = flink_run.submit(
        cluster, config=config, from_savepoint=savepoint, flink_settings=flink_settings
    )
    opened_at, warm_s = ground.wait_opened(cluster, 2)
    yield "quiet table, submit to gate open", opened_at - resumed, "s"
    yield "quiet table, targets known to gate open", warm_s, "s"
    ground.wait(
        lambda: ground.written(brokers, enriched) >= 2 * options.events, "the backlog joined"
    )
    yield "stream joined, gate open", options.events / (time.time() - opened_at), "events/s"
    flink_run.cancel(cluster, job)


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
