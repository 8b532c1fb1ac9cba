"""What each way to look rows up costs: load, join, memory and checkpoints, in alternation.

    .venv/bin/python -m bench.lookups [--rows 200000] [--events 300000] [--keys N] [...]

A variant is ``keyed`` or ``broadcast``, with ``+N`` for another number of remembered rows
(``keyed+0``). All run in turn, ``--rounds`` times, each in a TaskManager of its own, over the same
topics. Prints one JSON line for each run, and the medians. CPU time hardly depends on what else the
machine does; rates do, so look at their ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from bench import ground
from bench.cpu import cpu
from jobs.rules import join_rules
from jobs.settings import Settings
from jobs.uids import JOIN
from ops import flink_run
from ops.cluster import ask
from ops.demo import topics
from ops.stack.broker import Broker
from ops.stack.flink import FlinkCluster
from udfs.core.recent import Recent

_MB = 1_000_000
_WARM_UP = 1_000
_USED = re.compile(r"garbage-first heap .*? used (\d+)K|def new generation .*? used (\d+)K")


def main() -> None:
    """Measure and print."""
    options = _options()
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in options.variants}
    with tempfile.TemporaryDirectory(prefix="tablegate-lookups-") as folder:
        place = Path(folder)
        with Broker(place / "kafka") as broker:
            brokers = broker.bootstrap_servers
            table = ground.settings(brokers, "lookups", 1)
            ground.create_topics(brokers, table)
            rows = ground.rows(options.rows, options.row_bytes)
            topics.produce(brokers, table.table.topic, rows)
            for number in range(options.rounds * len(options.variants)):
                name = options.variants[number % len(options.variants)]
                found = _run(brokers, place, name, number, options)
                runs[name].append(found)
                print(json.dumps({"variant": name, **found}), flush=True)
    about = {
        "rows": options.rows,
        "row_bytes": options.row_bytes,
        "events": options.events,
        "keys": options.keys,
        "state": options.state,
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
    }
    print(json.dumps({"a remembered row": _remembered_bytes(options.row_bytes), "unit": "bytes"}))
    for name, told in runs.items():
        medians = {key: round(statistics.median(one[key] for one in told), 2) for key in told[0]}
        print(json.dumps({"median of": name, "runs": len(told), **medians, **about}), flush=True)


def _remembered_bytes(row_bytes: int, rows: int = 50_000) -> int:
    """Of Python's memory, for a row of which one field of few letters is added to events."""
    merge = join_rules(ground.settings("none:1", "none", 1)).merge
    drafts = list(ground.rows(rows, row_bytes))
    remembered: Recent[Any] = Recent(2 * rows)
    tracemalloc.start()
    for key, value, _, _ in drafts:
        remembered.put(key.decode(), merge.prepare(value or b""))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken // rows


def _settings(brokers: str, name: str, number: int) -> Settings:
    lookup, _, cached = name.partition("+")
    join: dict[str, object] = {"lookup_state": lookup}
    if cached:
        join["cached_rows"] = int(cached)
    settings = ground.settings(brokers, f"lookups-{number}", 1, f"-{number}", {"join": join})
    # The table is the same for all.
    return settings.model_copy(
        update={"table": settings.table.model_copy(update={"topic": "rows"})}
    )


def _run(
    brokers: str, place: Path, name: str, number: int, options: argparse.Namespace
) -> dict[str, float]:
    settings = _settings(brokers, name, number)
    enriched, stream = settings.output.enriched, settings.stream.topic
    own = (stream, enriched, settings.output.retry, settings.output.dead)
    topics.create(brokers, dict.fromkeys(own, topics.KEEP), 4)
    topics.produce(brokers, stream, ground.events(_WARM_UP, options.keys))
    config = place / f"{number}.toml"
    config.write_text(settings.describe())
    memory = {
        "taskmanager.memory.process.size": options.process_memory,
        "taskmanager.memory.managed.size": options.managed_memory,
    }
    found: dict[str, float] = {}
    with FlinkCluster(place / f"flink-{number}", settings=memory) as cluster:
        job = flink_run.submit(
            cluster, config=config, flink_settings={"state.backend.type": options.state}
        )
        try:
            (pid,) = cluster.taskmanagers().values()
            before = cpu([pid]).taskmanager_s
            _, load_s = ground.wait_opened(cluster, 1)
            found["load_rows_per_s"] = options.rows / load_s
            ground.wait(lambda: ground.written(brokers, enriched) >= _WARM_UP, "the first events")
            found["load_cpu_us_per_row"] = (cpu([pid]).taskmanager_s - before) / options.rows * 1e6
            found |= _memory(pid)
            found |= _checkpoint(cluster, job)
            topics.produce(brokers, stream, ground.events(options.events, options.keys))
            done = _WARM_UP + options.events
            left, before = done - ground.written(brokers, enriched), cpu([pid]).taskmanager_s
            began = time.monotonic()
            ground.wait(lambda: ground.written(brokers, enriched) >= done, "all events")
            found["join_events_per_s"] = left / (time.monotonic() - began)
            found["join_cpu_us_per_event"] = (cpu([pid]).taskmanager_s - before) / left * 1e6
            found["rss_after_mb"] = _memory(pid)["rss_mb"]
            found["misses"] = ground.written(brokers, settings.output.retry)
        finally:
            failure = flink_run.failure(cluster, job)
            if failure:
                print(failure, flush=True)
            flink_run.cancel(cluster, job)
    return {key: round(value, 2) for key, value in found.items()}


def _memory(pid: int) -> dict[str, float]:
    """What is in use on the heap behind a full collection, and all of the process in memory."""

    def tell(what: str) -> str:
        line = ["jcmd", str(pid), what]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout

    tell("GC.run")
    used = sum(int(a or b) for a, b in _USED.findall(tell("GC.heap_info")))
    return {"heap_mb": used * 1024 / _MB, "rss_mb": psutil.Process(pid).memory_info().rss / _MB}


def _checkpoint(cluster: FlinkCluster, job: str) -> dict[str, float]:
    """One checkpoint, made now: what the join's part of it took and how large it is."""
    path = f"/jobs/{job}/checkpoints"
    trigger = ask(cluster, "POST", path, checkpointType="FULL")["request-id"]
    answer: dict[str, Any] = {}

    def done(ask_again: Callable[[], dict[str, Any]]) -> bool:
        answer.update(ask_again())
        return bool(answer["status"]["id"] == "COMPLETED")

    ground.wait(lambda: done(lambda: ask(cluster, "GET", f"{path}/{trigger}")), "checkpoint")
    number = answer["operation"]["checkpointId"]
    vertices = ask(cluster, "GET", f"/jobs/{job}")["vertices"]
    (join,) = [vertex["id"] for vertex in vertices if JOIN.name in vertex["name"]]
    told = ask(cluster, "GET", f"{path}/details/{number}/subtasks/{join}")
    part = told["summary"]["checkpoint_duration"]
    return {
        "checkpoint_sync_ms": part["sync"]["max"],
        "checkpoint_async_ms": part["async"]["max"],
        "checkpoint_mb": told["state_size"] / _MB,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.lookups", description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--row-bytes", type=int, default=500)
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--keys", type=int, help="events ask for the first so many rows")
    parser.add_argument(
        "--variants", type=lambda text: text.split(","), default=["keyed", "broadcast"]
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--state", choices=["rocksdb", "hashmap"], default="rocksdb")
    parser.add_argument("--process-memory", default="3072m", help="of the TaskManager")
    parser.add_argument("--managed-memory", default="1024m", help="of these, for RocksDB")
    options = parser.parse_args()
    options.keys = options.keys or options.rows
    return options


if __name__ == "__main__":
    main()
