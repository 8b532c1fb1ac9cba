"""Options that might make the join faster, and the page of what they gave. Values in and out."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bench import page
from bench.versus.model import Figures, from_json


class Trial(NamedTuple):
    """Options of the systems on Flink (``flink.`` before Flink's own), and why they might help."""

    name: str
    why: str
    options: Mapping[str, str] = {}
    parallelism: int = 1


def _flink(**options: str) -> dict[str, str]:
    return {f"flink.{name}": value for name, value in options.items()}


_ROCKSDB = "state.backend.rocksdb."

TRIALS = (
    Trial("hashmap", "no RocksDB", {"state": "hashmap"}),
    Trial(
        "no-bloom",
        "whether the bloom filters of flink-conf/cluster give anything",
        _flink(**{f"{_ROCKSDB}use-bloom-filter": "false"}),
    ),
    Trial(
        "write-buffers-half",
        "Flink's default share of the write buffers; ours is 0.6",
        _flink(**{f"{_ROCKSDB}memory.write-buffer-ratio": "0.5"}),
    ),
    Trial(
        "managed-60",
        "more memory for RocksDB, less for the heap",
        _flink(**{"taskmanager.memory.managed.fraction": "0.6"}),
    ),
    Trial(
        "flash",
        "RocksDB's options for local disks",
        _flink(**{f"{_ROCKSDB}predefined-options": "FLASH_SSD_OPTIMIZED"}),
    ),
    Trial(
        "threads-4",
        "more threads to flush and compact",
        _flink(**{f"{_ROCKSDB}thread.num": "4"}),
    ),
    Trial(
        "heap-timers",
        "timers in memory and not in RocksDB; SQL's join sets one for each row and event",
        _flink(**{f"{_ROCKSDB}timer-service.factory": "HEAP"}),
    ),
    Trial(
        "buffers-10ms",
        "buffers between tasks are sent sooner (100 ms)",
        _flink(**{"execution.buffer-timeout.interval": "10 ms"}),
    ),
    Trial(
        "debloat",
        "buffers of a size that is worked off in a second",
        _flink(**{"taskmanager.network.memory.buffer-debloat.enabled": "true"}),
    ),
    Trial(
        "copies",
        "whether object reuse gives anything",
        _flink(**{"pipeline.object-reuse": "false"}),
    ),
    Trial(
        "parallel-gc",
        "the collector that stops and is quick",
        _flink(**{"env.java.opts.taskmanager": "-XX:+UseParallelGC"}),
    ),
    Trial("two-subtasks", "two interpreters, each with a lock of its own", parallelism=2),
)

MEASURES = {
    "events_per_s": "events/s",
    "events_per_core_s": "events per core s",
    "open_s": "start to first right answer, s",
    "p99_ms": "p99, ms",
}


def ratios(base: Sequence[Figures], tried: Sequence[Figures], measure: str) -> list[float]:
    """Of each run to the base's run beside it, in order.

    Raises:
        ValueError: there are not as many of the one as of the other.
    """
    pairs = zip(base, tried, strict=True)
    return [getattr(one, measure) / getattr(other, measure) for other, one in pairs]


def markdown(told: Mapping[str, Any]) -> str:
    """The page, from what the JSON file holds."""
    plan = told["plan"]
    versions = ", ".join(f"{name} {number}" for name, number in told["versions"].items())
    about = (
        f"`{told['command']}`, {told['date']}, {told['cores']} cores (load average "
        f"{told['load_average']} when it began); {versions}. `{told['system']}`, {plan['rows']:,} "
        f"rows of {plan['row_bytes']} bytes, full speed over {plan['seconds']:g} s. Each option is "
        f"measured {plan['runs']} times, each time right after a run without it; the figures are "
        "ratios of the two, all of them, in the order in which they ran."
    )
    head = ("option", "why", *MEASURES.values())
    rows = [_row(one) for one in told["trials"]]
    failed = "\n".join(
        f"- not measured: `{one['name']}`: {one['failed']}"
        for one in told["trials"]
        if one["failed"]
    )
    parts = ("# Tuning", about, page.table(head, rows), failed)
    return "\n\n".join(part for part in parts if part) + "\n"


def _row(one: Mapping[str, Any]) -> Iterable[str]:
    base, tried = ([from_json(run) for run in one[side]] for side in ("base", "tried"))
    options = " ".join(f"`{name}={value}`" for name, value in one["options"].items())
    yield f"{one['name']} {options}".strip()
    yield str(one["why"])
    for measure in MEASURES:
        found = ratios(base, tried, measure)
        shown = ", ".join(f"{ratio:.2f}" for ratio in found)
        yield f"**{statistics.median(found):.2f}** ({shown})" if found else ""
