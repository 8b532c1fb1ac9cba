"""How the systems grow with rows, their size, partitions, parallelism and the kind of state.

    .venv/bin/python -m bench.growth [--systems a,b] [--only rows-2m,hashmap] [--runs 1] [...]

One thing is varied at a time (``bench.growth_model``); the phases are those of ``bench.versus``.
Writes NAME.json, NAME.md and NAME.png to ``--results``. Exits with 1 when a system could not be
measured, or joined an event wrongly although its table was there.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.catch_up import versions
from bench.growth_model import BASE, VARIATIONS, Variation, markdown
from bench.growth_plot import png
from bench.results_files import write
from bench.systems.contract import System
from bench.systems.flink import FlinkSystem
from bench.systems.registry import SYSTEMS
from bench.versus.phases import Plan
from bench.versus.rounds import Found, log, rounds, stand
from ops.paths import ROOT

_SYSTEMS = ("tablegate-datastream", "tablegate-sql", "kafka-streams-ktable", "flink-sql-temporal")


def main() -> int:
    """Measure, write, print."""
    options = _options()
    systems = [SYSTEMS[name] for name in options.systems]
    base = Plan(
        size=BASE,
        seconds=options.seconds,
        latency_seconds=options.latency_seconds,
        cold_events=0,
    )
    load_average = os.getloadavg()[0]
    with stand(systems) as (ground, failed):
        ready = [system for system in systems if system.name not in failed]
        found = {
            variation.name: rounds(
                ground,
                [system for system in ready if _has(system, variation)],
                variation.plan(base),
                options.runs,
                scan=True,
                name=variation.name,
            )
            for variation in VARIATIONS
            if variation.name in options.only
        }
    told = {
        "command": "python -m bench.growth " + " ".join(sys.argv[1:]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count(),
        "load_average": round(load_average, 2),
        "versions": versions() | {k: v for one in ready for k, v in one.versions().items()},
        "plan": {
            "seconds": base.seconds,
            "latency_seconds": base.latency_seconds,
            "delta_rows": base.delta_rows,
            "runs": options.runs,
        },
        "found": {name: _told(one, failed) for name, one in found.items()},
    }
    write(options.results / options.name, told, markdown, png)
    wrong = [run.system for one in found.values() for run in one.runs if run.wrong_warm]
    for name in wrong:
        log(f"{name}: joined events wrongly")
    return 1 if wrong or failed or any(one.failed for one in found.values()) else 0


def _has(system: System, variation: Variation) -> bool:
    return not variation.flink_only or isinstance(system, FlinkSystem)


def _told(found: Found, failed: dict[str, str]) -> dict[str, Any]:
    return {
        "runs": [run.shown() for run in found.runs],
        "scans_s": [round(scan, 3) for scan in found.scans_s],
        "failed": failed | found.failed,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.growth", description=__doc__.partition("\n")[0])
    names = [variation.name for variation in VARIATIONS]
    parser.add_argument("--systems", type=_names, default=list(_SYSTEMS))
    parser.add_argument("--only", type=_names, default=names, help="variations; all if not given")
    parser.add_argument("--seconds", type=float, default=30.0, help="of full speed")
    parser.add_argument("--latency-seconds", type=float, default=10.0)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--name", default="growth", help="of the files that are written")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    options = parser.parse_args()
    for what, asked, known in (
        ("system", options.systems, SYSTEMS),
        ("variation", options.only, names),
    ):
        for name in asked:
            if name not in known:
                parser.error(f"no {what} {name}; there are {', '.join(known)}")
    return options


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    sys.exit(main())
