"""What continuous consistency costs: latency, throughput and requests, at several tick intervals.

    .venv/bin/python -m bench.consistency [--rows 100000] [--intervals 50,100,200,500,1000] [...]

One broker and one cluster; each mode gets topics of its own. First a thin stream, for the latency
from the acknowledged write of an event to its enriched record being read; then a burst, for the
throughput. Prints one JSON line for each mode, startup first, and the ratio to it. Figures are of
this machine at this moment; the comparison within the run is what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench import ground
from jobs.settings import Settings, from_mapping
from ops import flink_run
from ops.demo import topics
from ops.stack.broker import Broker
from ops.stack.flink import FlinkCluster
from udfs.targets import TargetResolver

_LATENCY_S = 10.0
_EVERY_S = 0.02
_READ_DEADLINE_S = 60.0
_LOOKS = 20
_STILL = 3


def main() -> None:
    """Measure each mode once and print."""
    options = _options()
    modes: list[dict[str, Any]] = [{"consistency": "startup"}]
    modes += [
        {"consistency": "continuous", "tick_interval_ms": int(interval), "max_clock_skew_ms": 0}
        for interval in options.intervals.split(",")
    ]
    with tempfile.TemporaryDirectory(prefix="tablegate-consistency-") as folder:
        place = Path(folder)
        with Broker(place / "kafka") as broker, FlinkCluster(place / "flink") as cluster:
            per_look = None
            baseline = 0.0
            for number, mode in enumerate(modes):
                figures = _measure(broker.bootstrap_servers, cluster, place, number, mode, options)
                per_look = per_look or _requests_per_look(broker.bootstrap_servers, "rows-0")
                looks_per_s = 1000 / int(mode.get("tick_interval_ms", 1000))
                baseline = baseline or figures["burst_events_per_s"]
                about = {
                    "rows": options.rows,
                    "events": options.events,
                    "cores": os.cpu_count(),
                    "requests_per_s": round(looks_per_s * per_look, 1),
                    "burst_ratio_to_startup": round(figures["burst_events_per_s"] / baseline, 2),
                }
                print(json.dumps(mode | figures | about), flush=True)


def _measure(
    brokers: str,
    cluster: FlinkCluster,
    place: Path,
    number: int,
    mode: dict[str, Any],
    options: argparse.Namespace,
) -> dict[str, float]:
    plain = ground.settings(brokers, f"consistency-{number}", 1, f"-{number}")
    settings = from_mapping(plain.model_dump(by_alias=True, exclude_unset=True) | {"gate": mode})
    ground.create_topics(brokers, settings)
    topics.produce(brokers, settings.table.topic, ground.rows(options.rows, 200))
    config = place / f"{number}.toml"
    config.write_text(settings.describe())
    job = flink_run.submit(cluster, config=config)
    try:
        ground.wait_opened(cluster, number + 1)
        latencies = sorted(_latencies(brokers, settings, options.rows))
        before = ground.written(brokers, settings.output.enriched)
        topics.produce(brokers, settings.stream.topic, ground.events(options.events, options.rows))
        began = time.monotonic()
        wanted = before + options.events
        ground.wait(
            lambda: ground.written(brokers, settings.output.enriched) >= wanted, "burst joined"
        )
        took_s = time.monotonic() - began
    finally:
        flink_run.cancel(cluster, job)
    cuts = statistics.quantiles(latencies, n=100)
    return {
        "latency_p50_ms": round(cuts[49]),
        "latency_p99_ms": round(cuts[98]),
        # From the last write on: what is left then was not worked off while it was written.
        "burst_events_per_s": round(options.events / took_s),
    }


def _latencies(brokers: str, settings: Settings, rows: int) -> Iterator[float]:
    """Milliseconds from the write of an event to the reading of its enriched record."""
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0})
    reader = Consumer({"bootstrap.servers": brokers, "group.id": "bench", "fetch.wait.max.ms": 10})
    output = settings.output.enriched
    ends = topics.ends(brokers, output)
    reader.assign([TopicPartition(output, p, end) for p, end in ends.items()])
    sent: dict[bytes, float] = {}
    end = time.monotonic() + _LATENCY_S
    next_at = time.monotonic()
    waiting = True
    deadline = end + _READ_DEADLINE_S
    while waiting or sent:
        now = time.monotonic()
        if now > deadline:
            raise TimeoutError(f"{len(sent)} events did not come out")
        waiting = now < end
        if waiting and now >= next_at:
            next_at = now + _EVERY_S
            key = f"probe{len(sent)}-{now}".encode()
            value = json.dumps({"id": f"c{int(now * 1000) % rows}", "n": 0}).encode()
            sent[key] = now
            producer.produce(settings.stream.topic, value, key)
            producer.poll(0)
        message = reader.poll(0.002)
        if message is None or message.error() is not None:
            continue
        written = sent.pop(message.key() or b"", None)
        if written is not None:
            yield (time.monotonic() - written) * 1000
    producer.flush()
    reader.close()


def _requests_per_look(brokers: str, topic: str) -> float:
    """Requests that the brokers get for one look of the gate, counted by the client itself."""
    sent: dict[tuple[str, str], int] = {}

    def count(statistics_json: str) -> None:
        told = json.loads(statistics_json)
        for broker in told["brokers"].values():
            sent[told["name"], broker["name"]] = broker["tx"]

    client: dict[str, Any] = {
        "bootstrap.servers": brokers,
        "statistics.interval.ms": 100,
        "stats_cb": count,
    }
    with TargetResolver(client, topic, "read_committed") as resolver:
        # The first look connects, and asks for versions.
        resolver.log_ends(resolver.topic().partitions)
        _until_still(resolver, sent)
        before = sum(sent.values())
        for _ in range(_LOOKS):
            resolver.log_ends(resolver.topic().partitions)
        _until_still(resolver, sent)
    return (sum(sent.values()) - before) / _LOOKS


def _until_still(resolver: TargetResolver, sent: dict[tuple[str, str], int]) -> None:
    """Return when reports in a row say the same."""
    seen: list[int] = []
    while len(seen) < _STILL or len(set(seen[-_STILL:])) > 1:
        # The reports are of this very client, which its owner has no need to poll.
        resolver._admin.poll(0.2)  # noqa: SLF001
        seen.append(sum(sent.values()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.consistency", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--intervals", default="50,100,200,500,1000")
    return parser.parse_args()


if __name__ == "__main__":
    main()
