"""What the latency of the SQL variant comes to: quantiles, the bound, and a page of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench import page

ALLOWANCE_MS = 500
"""What an event may take beside two ticks: up to 100 ms until the gate's Python has its batch
(``python.fn-execution.bundle.time``), 50 ms until the watermark follows
(``pipeline.auto-watermark-interval``), Kafka's fetches and sends on both sides, and 2 cores that
broker, writer, reader and job share."""

_HEAD = (
    "tick, ms",
    "events",
    "p50, ms",
    "p99, ms",
    "max, ms",
    "bound, ms",
    "CPU s per idle minute",
    "of these in Python",
    "drained, events/s",
    "load average before",
)


@dataclass(frozen=True)
class Figures:
    """One run with one interval. Latencies are from an event's write to its enriched record."""

    tick_ms: int
    events: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    idle_cpu_s: float
    """CPU seconds of the TaskManager and its Python workers, for a minute without events."""
    idle_worker_cpu_s: float
    """What of these the Python workers took."""
    drained_rate: float
    """Events a second while a backlog is worked off behind an open gate."""
    load_average: float
    """Of the machine, over the minute before the run."""

    @property
    def bound_ms(self) -> int:
        """Two ticks and the allowance."""
        return 2 * self.tick_ms + ALLOWANCE_MS

    def shown(self) -> dict[str, Any]:
        """For the JSON file."""
        rounded = {k: round(v, 1) if isinstance(v, float) else v for k, v in asdict(self).items()}
        return rounded | {"bound_ms": self.bound_ms}


def quantile(latencies: Sequence[float], share: float) -> float:
    """The smallest of them that is not exceeded by ``share`` of them, 0 to 1.

    Raises ValueError when there are none.
    """
    if not latencies:
        raise ValueError("no latencies: no event came out")
    return sorted(latencies)[max(0, math.ceil(share * len(latencies)) - 1)]


def wrong(runs: Iterable[Figures], expected_events: int) -> list[str]:
    """What contradicts "within two ticks and the allowance, and nothing lost"."""
    found = []
    for run in runs:
        if run.max_ms > run.bound_ms:
            found.append(
                f"tick {run.tick_ms} ms: an event took {run.max_ms:.0f} ms, more than "
                f"{run.bound_ms} ms"
            )
        if run.events != expected_events:
            found.append(
                f"tick {run.tick_ms} ms: {run.events} events came out of {expected_events}"
            )
    return found


def markdown(told: Mapping[str, Any]) -> str:
    """The page, from what the JSON file holds."""
    options = told["options"]
    versions = ", ".join(f"{name} {number}" for name, number in told["versions"].items())
    run = (
        f"`python -m bench.sql_latency`, {told['date']}, {told['cores']} cores shared by broker, "
        f"writer, reader and job; {versions}. One run for each interval, each on a cluster of its "
        f"own; {options['rows']:,} rows, one subtask, RocksDB; {options['rate']:g} events/s for "
        f"{options['seconds']:g} s, {options['idle_seconds']:g} s idle, a backlog of "
        f"{options['backlog']:,} events."
    )
    meaning = (
        f"The bound is two ticks and {ALLOWANCE_MS} ms: up to 100 ms until the gate's Python has "
        "its batch, 50 ms until its watermark follows, Kafka on both sides, and cores that others "
        "use. CPU is that of the TaskManager and its Python workers while no event and no row "
        "comes, start and load not counted; the backlog is worked off behind a gate that is open."
    )
    parts = ["# Latency of the SQL variant, and what the interval costs", run]
    parts += [page.table(_HEAD, _rows(told["runs"])), meaning]
    if told["wrong"]:
        parts.append("**Not kept:** " + "; ".join(told["wrong"]) + ".")
    return "\n\n".join(parts) + "\n"


def _rows(runs: Iterable[Mapping[str, Any]]) -> Iterable[Sequence[str]]:
    for run in runs:
        yield (
            f"{run['tick_ms']:,}",
            f"{run['events']:,}",
            f"{run['p50_ms']:,.0f}",
            f"{run['p99_ms']:,.0f}",
            f"{run['max_ms']:,.0f}",
            f"{run['bound_ms']:,}",
            f"{run['idle_cpu_s']:.1f}",
            f"{run['idle_worker_cpu_s']:.1f}",
            f"{run['drained_rate']:,.0f}",
            f"{run['load_average']:.1f}",
        )
