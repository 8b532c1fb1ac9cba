"""What the runs come to: rates, medians with spread, ratios. Values in, values out."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

REFERENCE = "kafka-streams-ktable"
"""Ratios are to this system in the same run (issue 7's targets are)."""


class Sampled(Protocol):
    """A moment of ``bench.versus.observe``."""

    @property
    def at_s(self) -> float:
        """Monotonic seconds."""
        ...

    @property
    def written(self) -> int:
        """Records in the output."""
        ...

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the system so far."""
        ...


@dataclass(frozen=True)
class Figures:
    """One run of one system. None: it has no such thing, or it was not asked for."""

    system: str
    open_s: float | None
    """From the start until events of the table's newest rows are out and right; none wait.

    Of what runs on a cluster, from the submission: the cluster stands before.
    """
    events_per_s: float
    seconds: float
    """Of full speed that were measured."""
    cores: float
    """Cores that the system itself kept busy meanwhile; broker and writer not counted."""
    p50_ms: float
    p99_ms: float
    peak_memory_mb: float
    state_mb: float | None
    wrong_warm: int
    """Events joined wrongly although the table was there."""
    restart_s: float | None = None
    """The same as ``open_s`` after a planned stop, nothing having changed."""
    restart_gate_s: float | None = None
    """Of that restart, from when all tasks ran to when the gate was open."""
    restart_delta_s: float | None = None
    """The same as ``restart_s``, rows having been written meanwhile."""
    drain_per_s: float | None = None
    """Events a second of those that waited before a cold start, from the first out to the last."""
    wrong_cold: int | None = None
    """How many of these were joined wrongly, the rows being older than they."""
    wrong_young: int | None = None
    """The same with rows that are younger, by their timestamps; the table is the same."""

    @property
    def events_per_core_s(self) -> float:
        """Events for a CPU second of the system's own."""
        return self.events_per_s / self.cores

    def shown(self) -> dict[str, Any]:
        """For the JSON file."""
        told = asdict(self) | {"events_per_core_s": self.events_per_core_s}
        return {k: round(v, 3) if isinstance(v, float) else v for k, v in told.items()}


UNITS = {
    "open_s": "s",
    "events_per_s": "events/s",
    "events_per_core_s": "events/core s",
    "cores": "cores",
    "p50_ms": "ms",
    "p99_ms": "ms",
    "peak_memory_mb": "MB",
    "state_mb": "MB",
    "restart_s": "s",
    "restart_gate_s": "s",
    "restart_delta_s": "s",
    "drain_per_s": "events/s",
    "wrong_cold": "events",
    "wrong_young": "events",
    "wrong_warm": "events",
}
"""Measures and their units, in the order in which they are told."""


@dataclass(frozen=True)
class Spread:
    """Of one measure over the runs."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Raises ValueError for none."""
        known = sorted(values)
        if not known:
            raise ValueError("no value")
        return cls(statistics.median(known), known[0], known[-1])


def steady(samples: Sequence[Sampled], count: int) -> tuple[float, float, float]:
    """Events a second, the seconds they were taken over, and the cores kept busy meanwhile.

    Up to the first sample that has all ``count`` events, so that no idle time is counted.

    Zeros when the samples hold no second of work.
    """
    busy = [sample for sample in samples if sample.written < count]
    if len(busy) < 2 or busy[-1].at_s - busy[0].at_s < 1:  # noqa: PLR2004  (first and last)
        return 0.0, 0.0, 0.0
    first, last = busy[0], busy[-1]
    seconds = last.at_s - first.at_s
    rate = (last.written - first.written) / seconds
    return rate, seconds, (last.cpu_s - first.cpu_s) / seconds


def fastest(samples: Sequence[Sampled], over: int = 3) -> float:
    """The most events a second between two samples that are ``over`` apart; 0.0 of too few."""
    pairs = zip(samples, samples[over:], strict=False)
    rates = [(b.written - a.written) / (b.at_s - a.at_s) for a, b in pairs]
    return max(rates, default=0.0)


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest value that ``share`` of all do not exceed. Raises ValueError for none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no value")
    return ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)]


def spreads(runs: Iterable[Figures]) -> dict[str, dict[str, Spread]]:
    """By system and measure; what no run has is left out."""
    by_system: dict[str, list[Figures]] = {}
    for run in runs:
        by_system.setdefault(run.system, []).append(run)
    return {
        system: {
            measure: Spread.of(values)
            for measure in UNITS
            if (values := [v for run in of if (v := getattr(run, measure)) is not None])
        }
        for system, of in by_system.items()
    }


def ratios(found: dict[str, dict[str, Spread]], measure: str) -> dict[str, float]:
    """Of the medians, to the reference's; empty when that was not measured."""
    reference = found.get(REFERENCE, {}).get(measure)
    if reference is None or not reference.median:
        return {}
    return {
        system: of[measure].median / reference.median
        for system, of in found.items()
        if measure in of
    }


def lines(runs: Iterable[Figures]) -> list[dict[str, Any]]:
    """One for each measure of each system, as ``make bench-quick`` prints them."""
    found = spreads(runs)
    told = []
    for measure, unit in UNITS.items():
        ratio = ratios(found, measure)
        told += [
            {
                "measure": measure,
                "system": system,
                "value": round(of[measure].median, 3),
                "unit": unit,
                "ratio_to_kafka_streams": round(ratio[system], 3) if system in ratio else None,
            }
            for system, of in found.items()
            if measure in of
        ]
    return told


def from_json(told: dict[str, Any]) -> Figures:
    """What ``Figures.shown`` gave."""
    names = {field.name for field in fields(Figures)}
    return Figures(**{name: value for name, value in told.items() if name in names})
