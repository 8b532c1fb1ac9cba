"""What is varied in `bench.growth`, and the page of what came of it. Values in, values out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from bench import page
from bench.versus import targets
from bench.versus.ground import Size
from bench.versus.model import Spread, from_json, spreads
from bench.versus.phases import Plan

_COLUMNS = {
    "events_per_s": "events/s",
    "events_per_core_s": "events per core s",
    "p99_ms": "p99, ms",
    "open_s": "start to first right answer, s",
    "restart_s": "restart, quiet table, s",
    "restart_gate_s": "of this, tasks running to gate open, s",
    "restart_delta_s": "restart, rows written meanwhile, s",
    "peak_memory_mb": "peak memory, MB",
    "state_mb": "state, MB",
}


class Variation(NamedTuple):
    """One thing that is other than in the base."""

    name: str
    """As the page and ``--only`` have it."""
    about: str
    size: Mapping[str, int] = {}
    parallelism: int = 1
    flink_only: Mapping[str, str] = {}
    """Options that only systems on Flink have; the others are left out."""

    def plan(self, base: Plan) -> Plan:
        """The base's, with this changed."""
        size = dataclasses.replace(base.size, **self.size)
        return dataclasses.replace(
            base, size=size, parallelism=self.parallelism, options=self.flink_only
        )


BASE = Size(rows=200_000, row_bytes=500, partitions=4)

VARIATIONS = (
    Variation("base", "200,000 rows of 500 bytes, 4 partitions, parallelism 1, RocksDB"),
    Variation("rows-2m", "2,000,000 rows", {"rows": 2_000_000}),
    Variation("rows-5m", "5,000,000 rows", {"rows": 5_000_000}),
    Variation("bytes-100", "rows of 100 bytes", {"row_bytes": 100}),
    Variation("bytes-2000", "rows of 2,000 bytes", {"row_bytes": 2_000}),
    Variation("partitions-16", "16 partitions of each topic", {"partitions": 16}),
    Variation("parallelism-2", "parallelism 2", parallelism=2),
    Variation("hashmap", "state on the heap", flink_only={"state": "hashmap"}),
)


def markdown(told: Mapping[str, Any]) -> str:
    """The page, from what the JSON file holds."""
    plan = told["plan"]
    versions = ", ".join(f"{name} {number}" for name, number in told["versions"].items())
    ran = (
        f"`{told['command']}`, {told['date']}, {told['cores']} cores shared by broker, writer and "
        f"system (load average {told['load_average']} when it began); {versions}."
    )
    asked = (
        f"Each line differs from the base in one thing; full speed over {plan['seconds']:g} s, "
        f"latency at half of it over {plan['latency_seconds']:g} s; {plan['delta_rows']:,} rows "
        f"written during a restart; {plan['runs']} run(s), medians, least and most in brackets. "
        "The scan is Flink reading the table topic once and keeping nothing, its client included."
    )
    parts = ["# How it grows", ran, asked]
    parts += [
        _part(variation, told["found"][variation.name])
        for variation in VARIATIONS
        if variation.name in told["found"]
    ]
    return "\n\n".join(parts) + "\n"


def _part(variation: Variation, found: Mapping[str, Any]) -> str:
    by_system = spreads(from_json(run) for run in found["runs"])
    scan = Spread.of(found["scans_s"]) if found["scans_s"] else None
    head = ("system", *_COLUMNS.values(), "start to first right answer, by the scan")
    rows = [
        (
            f"`{system}`",
            *(page.cell(of.get(measure)) for measure in _COLUMNS),
            f"{of['open_s'].median / scan.median:.2f}" if scan and "open_s" in of else "",
        )
        for system, of in by_system.items()
    ]
    parts = [f"## {variation.about}", page.table(head, rows)]
    if variation.name == "rows-2m":
        parts.append(targets.markdown(targets.of_two_million_rows(by_system, scan)))
    if scan:
        parts.append(f"Scan: {page.cell(scan)} s.")
    if found["failed"]:
        parts.append(
            "\n".join(f"- not measured: `{n}`: {reason}" for n, reason in found["failed"].items())
        )
    return "\n\n".join(part for part in parts if part)
