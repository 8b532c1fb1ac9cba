"""Whether anything grows with the backlog that waits in the stream topic while the table loads.

    .venv/bin/python -m bench.hold [--rows 2000000] [--events 5000000] [--backlogs 1000000,5000000]

For each length of the backlog: a cluster of its own, topics filled before the job starts, figures
sampled until the backlog is worked off. Prints one JSON line for each run and one with the ratios,
and exits with 1 when something grew, an event missed, or one was lost. Figures are of this machine
at this moment; the comparison is what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
import requests

from bench import ground
from jobs.settings import Settings
from jobs.uids import JOIN
from ops import flink_run
from ops.demo import topics
from ops.stack.broker import Broker
from ops.stack.flink import FlinkCluster

_MB = 1_000_000
_POLL_S = 0.5
_DEADLINE_S = 3600.0
_TIMEOUT_S = 10.0
# Two runs of the same thing differ by this much; what grows with a backlog five times as long does
# so by far more.
_NOISE = 1.25


@dataclass
class Figures:
    """What one run showed. Peaks are over the whole run unless they say otherwise."""

    backlog: int
    held_events: int = 0
    taskmanager_rss_mb: float = 0
    workers_rss_mb: float = 0
    rss_while_shut_mb: float = 0
    disk_mb: float = 0
    state_at_open_mb: float = 0
    state_peak_mb: float = 0
    state_after_drain_mb: float = 0
    opened_after_s: float = 0
    drained_after_s: float = 0
    enriched: int = 0
    misses: int = 0
    dead_letters: int = 0
    restarts: int = 0
    checkpoints: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Checkpoint id to when it was triggered (epoch s) and its full size (MB)."""

    def shown(self) -> dict[str, Any]:
        """For the JSON line."""
        values = asdict(self)
        values["checkpoints"] = len(self.checkpoints)
        return {k: round(v, 1) if isinstance(v, float) else v for k, v in values.items()}


def judge(small: Figures, large: Figures, slack_events: int, event_bytes: int) -> list[str]:
    """What contradicts "nothing grows with the backlog beyond the pause's slack".

    ``slack_events`` are the events that may be read before the pause takes hold, whatever the
    backlog; ``event_bytes`` is what one of them may take in memory, state or on disk.
    """
    wrong = []
    for run in (small, large):
        if (run.enriched, run.misses, run.dead_letters) != (run.backlog, 0, 0):
            wrong.append(
                f"backlog {run.backlog}: {run.enriched} events enriched, {run.misses} missed, "
                f"{run.dead_letters} dead; expected every event enriched once"
            )
        if run.restarts:
            wrong.append(f"backlog {run.backlog}: the job restarted {run.restarts} times")
        if run.held_events > slack_events:
            wrong.append(
                f"backlog {run.backlog}: {run.held_events} events held, slack {slack_events}"
            )
    slack_mb = slack_events * event_bytes / _MB
    for name in (
        "taskmanager_rss_mb",
        "workers_rss_mb",
        "disk_mb",
        "state_at_open_mb",
        "state_peak_mb",
        "state_after_drain_mb",
    ):
        before, after = getattr(small, name), getattr(large, name)
        if after > before * _NOISE + slack_mb:
            wrong.append(
                f"{name} grew from {before:.0f} to {after:.0f} MB with the backlog "
                f"({small.backlog} to {large.backlog} events)"
            )
    return wrong


def main() -> int:
    """Measure each backlog, print, and say whether something grew."""
    options = _options()
    runs = []
    with tempfile.TemporaryDirectory(prefix="tablegate-hold-") as folder:
        place = Path(folder)
        with Broker(place / "kafka") as broker:
            for backlog in sorted(options.backlogs):
                runs.append(_measure(broker.bootstrap_servers, place, backlog, options))
                print(json.dumps(runs[-1].shown()), flush=True)
    small, large = runs[0], runs[-1]
    slack = options.slack_events * options.parallelism
    wrong = judge(small, large, slack, options.event_bytes)
    summary = {
        "rows": options.rows,
        "parallelism": options.parallelism,
        "slack_events": slack,
        "cores": os.cpu_count(),
        "backlog_ratio": round(large.backlog / small.backlog, 2),
        "ratios": _ratios(small, large),
        "wrong": wrong,
    }
    print(json.dumps(summary), flush=True)
    return 1 if wrong else 0


def _ratios(small: Figures, large: Figures) -> dict[str, float | None]:
    before, after = asdict(small), asdict(large)
    names = [n for n in before if n.endswith("_mb") or n == "held_events"]
    return {n: round(after[n] / before[n], 2) if before[n] else None for n in names}


def _measure(brokers: str, place: Path, backlog: int, options: argparse.Namespace) -> Figures:
    settings = ground.settings(brokers, "bench-hold", options.parallelism, f"-{backlog}")
    ground.create_topics(brokers, settings)
    topics.produce(brokers, settings.table.topic, ground.rows(options.rows, options.row_bytes))
    topics.produce(brokers, settings.stream.topic, ground.events(backlog, options.rows))
    config = place / f"hold-{backlog}.toml"
    config.write_text(settings.describe())
    folder = place / f"flink-{backlog}"
    with FlinkCluster(folder, taskmanagers=options.parallelism) as cluster:
        submitted = time.time()
        job_id = flink_run.submit(cluster, config=config)
        figures = Figures(backlog)
        opened = drained = None
        # Until a checkpoint was triggered after the last event had left.
        while drained is None or not _after(figures, drained):
            _sample(figures, cluster, job_id, shut=opened is None)
            opened = opened or (ground.opened(cluster) or (None,))[0]
            _count(figures, brokers, settings)
            finished = figures.enriched + figures.misses + figures.dead_letters >= backlog
            if drained is None and finished:
                drained = time.time()
            _refuse_late(submitted, cluster, job_id)
            time.sleep(_POLL_S)
        figures.restarts = flink_run.restarts(cluster, job_id)
        flink_run.cancel(cluster, job_id)
    if opened is None:
        raise RuntimeError("events left before the gate's log line was there: look at the logs")
    figures.opened_after_s = opened - submitted
    figures.drained_after_s = drained - submitted
    sizes = [size for _, size in figures.checkpoints.values()]
    figures.state_peak_mb = max(sizes)
    figures.state_at_open_mb = min(_after(figures, opened))[1]
    figures.state_after_drain_mb = min(_after(figures, drained))[1]
    return figures


def _after(figures: Figures, moment: float) -> list[tuple[float, float]]:
    return [c for c in figures.checkpoints.values() if c[0] > moment]


def _sample(figures: Figures, cluster: FlinkCluster, job_id: str, *, shut: bool) -> None:
    taskmanagers, workers = _memory(cluster.taskmanagers().values())
    figures.taskmanager_rss_mb = max(figures.taskmanager_rss_mb, taskmanagers)
    figures.workers_rss_mb = max(figures.workers_rss_mb, workers)
    if shut:
        figures.rss_while_shut_mb = max(figures.rss_while_shut_mb, taskmanagers + workers)
    figures.disk_mb = max(figures.disk_mb, _disk(cluster.folder))
    # All events that were ever held: nothing restarts here, so no event is held twice, and all are
    # held at once when the gate opens. A sample of held less released could miss that moment.
    figures.held_events = max(figures.held_events, held_events(cluster.rest_url, job_id))
    answer = _get(f"{cluster.rest_url}/jobs/{job_id}/checkpoints")
    for checkpoint in answer["history"] if answer else ():
        if checkpoint["status"] == "COMPLETED":
            figures.checkpoints[checkpoint["id"]] = (
                checkpoint["trigger_timestamp"] / 1000,
                checkpoint["state_size"] / _MB,
            )


def held_events(rest_url: str, job_id: str) -> int:
    """How many events this attempt's join has put on hold so far, over all its subtasks."""
    job = _get(f"{rest_url}/jobs/{job_id}")
    vertices = [v["id"] for v in (job or {"vertices": ()})["vertices"] if JOIN.name in v["name"]]
    if not vertices:
        return 0
    # Flink replaces what its metric identifiers cannot hold.
    metric = f"{JOIN.name.replace(' ', '_')}.held_events"
    path = f"{rest_url}/jobs/{job_id}/vertices/{vertices[0]}/subtasks/metrics"
    answer = _get(f"{path}?get={metric}&agg=sum")
    return int(answer[0]["sum"]) if answer else 0


def _get(url: str) -> Any:
    """The answer, None when there is none: a job that starts is not known to all handlers yet."""
    answer = requests.get(url, timeout=_TIMEOUT_S)
    return answer.json() if answer.ok else None


def _memory(pids: Iterable[int]) -> tuple[float, float]:
    """Resident memory in MB: of the TaskManagers, and of the Python processes that they started."""
    own = workers = 0
    for pid in pids:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            own += process.memory_info().rss
            for child in process.children(recursive=True):
                with suppress(psutil.Error):
                    workers += child.memory_info().rss
    return own / _MB, workers / _MB


def _disk(folder: Path) -> float:
    """MB of the TaskManagers' own files: RocksDB and its local copies, each file counted once."""
    sizes = {}
    for status in _files(folder / "work", folder / "tmp"):
        # A local copy of a checkpoint is made of links to RocksDB's files.
        sizes[status.st_ino] = status.st_size
    return sum(sizes.values()) / _MB


def _files(*places: Path) -> Iterator[os.stat_result]:
    for place in places:
        for path, _, names in os.walk(place):
            for name in names:
                # RocksDB deletes files while we look.
                with suppress(FileNotFoundError):
                    yield os.stat(os.path.join(path, name))  # noqa: PTH116, PTH118  (many files)


def _count(figures: Figures, brokers: str, settings: Settings) -> None:
    output = settings.output
    figures.enriched = ground.written(brokers, output.enriched)
    figures.misses = ground.written(brokers, output.retry)
    figures.dead_letters = ground.written(brokers, output.dead)


def _refuse_late(submitted: float, cluster: FlinkCluster, job_id: str) -> None:
    if time.time() - submitted > _DEADLINE_S:
        failure = flink_run.failure(cluster, job_id)
        raise TimeoutError(f"not done within {_DEADLINE_S:.0f} s\n{failure}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.hold", description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--row-bytes", type=int, default=200)
    parser.add_argument("--events", type=int, default=5_000_000, help="the longest backlog")
    parser.add_argument(
        "--backlogs",
        type=lambda text: [int(part) for part in text.split(",")],
        help="lengths to compare, separated by commas; a fifth of --events and --events by default",
    )
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument(
        "--slack-events",
        type=int,
        # 100,000 were measured; a slower start of the table's source lets more through.
        default=200_000,
        help="for each subtask, events that may be read before the pause takes hold",
    )
    parser.add_argument(
        "--event-bytes", type=int, default=1_000, help="what a held event may take, for the slack"
    )
    options = parser.parse_args()
    options.backlogs = options.backlogs or [options.events // 5, options.events]
    if len(set(options.backlogs)) < 2:  # noqa: PLR2004  (two make a comparison)
        parser.error("--backlogs needs two different lengths")
    return options


if __name__ == "__main__":
    sys.exit(main())
