"""What the measurements share: a job, its topics, and data that makes every event hit."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from jobs.settings import Settings, from_mapping
from ops.demo import topics
from ops.demo.data import Draft
from ops.stack.flink import FlinkCluster

_PARTITIONS = 4
_DEADLINE_S = 1800.0
_POLL_S = 0.1
# Any time will do: the join does not look at it.
_WRITTEN_MS = 1_700_000_000_000
_OPENED = re.compile(r"^(\S+ \S+) .*gate of \S+: open after (\d+) ms", re.MULTILINE)


def settings(
    brokers: str,
    name: str,
    parallelism: int,
    suffix: str = "",
    more: Mapping[str, Mapping[str, object]] | None = None,
) -> Settings:
    """The job ``name`` on topics of its own, whose names end with ``suffix``.

    ``more`` are further tables of the settings.
    """
    outputs = ("enriched", "retry", "dead")
    return from_mapping(
        {
            "job": {"name": name, "parallelism": parallelism},
            "kafka": {"bootstrap_servers": brokers},
            "stream": {"topic": f"events{suffix}", "key": {"from": "value", "path": "id"}},
            "table": {"topic": f"rows{suffix}", "fields": {"tier": "tier"}},
            "output": {output: f"{output}{suffix}" for output in outputs},
            **(more or {}),
        }
    )


def create_topics(brokers: str, job: Settings) -> None:
    """The five topics of a job."""
    output = job.output
    kept = (job.stream.topic, output.enriched, output.retry, output.dead)
    topics.create(brokers, dict.fromkeys(kept, topics.KEEP), _PARTITIONS)
    topics.create(brokers, {job.table.topic: topics.COMPACTED}, _PARTITIONS)


def rows(count: int, size: int) -> Iterator[Draft]:
    """``count`` rows with values of about ``size`` bytes."""
    pad = "x" * max(0, size - 40)
    for n in range(count):
        value = json.dumps({"tier": f"tier-{n % 5}", "pad": pad}).encode()
        yield Draft(f"c{n}".encode(), value, (), _WRITTEN_MS)


def events(count: int, rows: int) -> Iterator[Draft]:
    """``count`` events, each with a row among the first ``rows``."""
    pad = "x" * 150
    for n in range(count):
        # A step that shares no factor with the number of rows spreads the events over all keys.
        value = json.dumps({"id": f"c{n * 7919 % rows}", "n": n, "pad": pad}).encode()
        yield Draft(f"o{n}".encode(), value, (), _WRITTEN_MS)


def opened(cluster: FlinkCluster, times: int = 1) -> tuple[float, float] | None:
    """When the gate opened for the ``times``-th time (epoch s), and how long after its targets (s).

    None while it has not.
    """
    lines = _OPENED.findall(cluster.logs())
    if len(lines) < times:
        return None
    at, after_ms = lines[times - 1]
    logged = datetime.strptime(at, "%Y-%m-%d %H:%M:%S,%f").astimezone()
    return logged.timestamp(), int(after_ms) / 1000


def wait_opened(cluster: FlinkCluster, times: int = 1) -> tuple[float, float]:
    """What ``opened`` says, as soon as it says something."""
    wait(lambda: opened(cluster, times) is not None, "open gate")
    found = opened(cluster, times)
    assert found is not None  # noqa: S101  (waited for above)
    return found


def written(brokers: str, topic: str) -> int:
    """Records in a topic, as far as its log ends tell."""
    return sum(topics.ends(brokers, topic).values())


def wait(met: Callable[[], bool], what: str) -> None:
    """Ask until ``met`` says yes; raises TimeoutError after half an hour."""
    deadline = time.monotonic() + _DEADLINE_S
    while not met():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {_DEADLINE_S:.0f} s")
        time.sleep(_POLL_S)
