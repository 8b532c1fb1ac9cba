"""Where the microseconds of a record go: while the table loads, and while events are joined.

    .venv/bin/python -m bench.where [--variant sql] [--rows 1000000] [--events 1000000] [...]

Starts a broker and a cluster of its own, and a profiler in the TaskManager. Writes where.json and
where.md to ``--results``. Shares are of CPU time, so other work on the machine blurs them little.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from bench import ground
from bench.catch_up import versions
from bench.cpu import cpu
from bench.where_model import by_thread, by_what, markdown, stacks
from ops import flink_run
from ops.demo import topics
from ops.paths import BUILD, ROOT, SQL
from ops.stack.broker import Broker
from ops.stack.flink import FlinkCluster

_POM = ROOT / "bench" / "profiler" / "pom.xml"
_PLACE = BUILD / "bench" / "profiler"
_LIBRARY = "linux-x64/libasyncProfiler.so"
# Of CPU time; stacks with CPython's and RocksDB's frames.
_START = "start,event=ctimer,interval=2ms,cstack=vm,threads"
# What is submitted. The SQL variant does not keep the misses' grace and retries.
_VARIANTS: dict[str, dict[str, Any]] = {
    "datastream": {},
    "sql": {
        "entry": flink_run.ENRICH_SQL,
        "job_arguments": ["--sql", str(SQL)],
        "overrides": ["miss.grace_ms=0", "miss.retry_after="],
    },
}


def main() -> None:
    """Measure once, write, print."""
    options = _options()
    library = _library()
    told: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
        "versions": versions(),
        "rows": options.rows,
        "row_bytes": options.row_bytes,
        "events": options.events,
        "state": options.state,
        "lookup": options.lookup,
        "variant": options.variant,
    }
    with tempfile.TemporaryDirectory(prefix="tablegate-where-") as folder:
        place = Path(folder)
        with Broker(place / "kafka") as broker, FlinkCluster(place / "flink") as cluster:
            told["phases"] = list(_phases(broker, cluster, place, library, options))
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / f"{options.name}.json").write_text(json.dumps(told, indent=2) + "\n")
    (options.results / f"{options.name}.md").write_text(markdown(told))
    print(markdown(told))


def _phases(
    broker: Broker,
    cluster: FlinkCluster,
    place: Path,
    library: Path,
    options: argparse.Namespace,
) -> Iterator[dict[str, Any]]:
    brokers = broker.bootstrap_servers
    join = {"join": {"lookup_state": options.lookup}}
    settings = ground.settings(brokers, "bench-where", 1, more=join)
    enriched, stream = settings.output.enriched, settings.stream.topic
    ground.create_topics(brokers, settings)
    topics.produce(brokers, settings.table.topic, ground.rows(options.rows, options.row_bytes))
    topics.produce(brokers, stream, ground.events(options.warm_up, options.rows))
    config = place / "where.toml"
    config.write_text(settings.describe())
    flink_settings = {"state.backend.type": options.state}
    job = flink_run.submit(
        cluster, config=config, flink_settings=flink_settings, **_VARIANTS[options.variant]
    )
    (pid,) = cluster.taskmanagers().values()
    with _profiled(pid, library, place / "load.txt", "load", options.rows) as phase:
        _, load_s = ground.wait_opened(cluster, 1)
        phase["rate"] = options.rows / load_s
    yield phase
    ground.wait(lambda: ground.written(brokers, enriched) >= options.warm_up, "the first events")
    with _stopped(pid):
        topics.produce(brokers, stream, ground.events(options.events, options.rows))
    before = ground.written(brokers, enriched)
    left = options.warm_up + options.events - before
    with _profiled(pid, library, place / "join.txt", "join, gate open", left) as phase:
        began = time.monotonic()
        ground.wait(
            lambda: ground.written(brokers, enriched) >= options.warm_up + options.events,
            "all events",
        )
        phase["rate"] = left / (time.monotonic() - began)
    yield phase
    flink_run.cancel(cluster, job)


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    """Without CPU meanwhile: a fast job would work events off as fast as they are written."""
    tree = [process := psutil.Process(pid), *process.children(recursive=True)]
    for one in tree:
        one.suspend()
    try:
        yield
    finally:
        for one in tree:
            one.resume()


@contextmanager
def _profiled(
    pid: int, library: Path, file: Path, name: str, records: int
) -> Iterator[dict[str, Any]]:
    own, workers = cpu([pid])
    phase: dict[str, Any] = {"name": name}
    _tell(pid, library, _START)
    yield phase
    _tell(pid, library, f"stop,collapsed,threads,file={file}")
    own_after, workers_after = cpu([pid])
    found = stacks(file.read_text())
    phase |= {
        "cpu_us": (own_after - own) / records * 1e6,
        "worker_us": (workers_after - workers) / records * 1e6,
        "what": by_what(found),
        "threads": by_thread(found),
    }


def _tell(pid: int, library: Path, what: str) -> None:
    # jcmd takes apart what is not quoted.
    line = ["jcmd", str(pid), "JVMTI.agent_load", str(library), f'"{what}"']
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    if "return code: 0" not in done.stdout:
        raise RuntimeError(f"async-profiler refused {what}: {done.stdout}{done.stderr}")


def _library() -> Path:
    """The profiler's library, fetched once. Raises CalledProcessError when Maven cannot."""
    library = _PLACE / Path(_LIBRARY).name
    if not library.exists():
        command = ["mvn", "-B", "-q", "-f", str(_POM), "process-sources"]
        subprocess.run(command, check=True)
        (jar,) = _PLACE.glob("async-profiler-*.jar")
        with zipfile.ZipFile(jar) as packed:
            library.write_bytes(packed.read(_LIBRARY))
    return library


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.where", description=__doc__.partition("\n")[0])
    parser.add_argument("--variant", choices=list(_VARIANTS), default="datastream")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--row-bytes", type=int, default=500)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--warm-up", type=int, default=100_000)
    parser.add_argument("--state", choices=["rocksdb", "hashmap"], default="rocksdb")
    parser.add_argument("--lookup", choices=["keyed", "broadcast"], default="keyed")
    parser.add_argument("--name", default="where", help="of the files that are written")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
