"""Tablegate and what people would use instead, side by side on one broker.

    .venv/bin/python -m bench.versus [--systems a,b] [--rows 2000000] [--runs 3] [--quick] [...]

Every system joins the same JSON events with the same table (``bench.records``). The runs go round
by round, each system once in each round, so that a slow minute of the machine meets all of them.

Writes NAME.json, NAME.md and NAME.png to ``--results``. ``--quick`` is a reduced run that prints
one JSON line for each measure and writes nothing. Exits with 1 when a system could not be measured,
or joined an event wrongly although its table was there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.catch_up import versions
from bench.results_files import write
from bench.systems.contract import System
from bench.systems.registry import QUICK, SYSTEMS
from bench.versus.ground import Size
from bench.versus.model import Figures, lines
from bench.versus.page import markdown
from bench.versus.phases import Plan
from bench.versus.plot import png
from bench.versus.rounds import log, rounds, stand
from ops.paths import ROOT

_QUICK = {
    "rows": 50_000,
    "seconds": 6.0,
    "latency_seconds": 4.0,
    "warm_up_events": 20_000,
    "limit_events": 3_000_000,
    "cold_events": 0,
    "delta_rows": 0,
    "runs": 1,
}


def main() -> int:
    """Measure, write, print."""
    options = _options()
    systems = [SYSTEMS[name] for name in options.systems]
    plan = _plan(options)
    load_average = os.getloadavg()[0]
    with stand(systems) as (ground, failed):
        ready = [system for system in systems if system.name not in failed]
        found = rounds(ground, ready, plan, options.runs, scan=not options.quick)
    runs, failed = found.runs, failed | found.failed
    if options.quick:
        for line in lines(runs):
            print(json.dumps(line), flush=True)
    else:
        told = _told(systems, plan, options, runs, failed)
        told |= {"load_average": round(load_average, 2), "scans_s": found.scans_s}
        write(options.results / options.name, told, markdown, png)
    wrong = [run.system for run in runs if run.wrong_warm]
    for name, reason in {**failed, **dict.fromkeys(wrong, "joined events wrongly")}.items():
        log(f"{name}: {reason}")
    return 1 if failed or wrong else 0


def _plan(options: argparse.Namespace) -> Plan:
    return Plan(
        size=Size(options.rows, options.row_bytes, options.partitions),
        parallelism=options.parallelism,
        warm_up_events=options.warm_up_events,
        seconds=options.seconds,
        latency_seconds=options.latency_seconds,
        limit_events=options.limit_events,
        cold_events=options.cold_events,
        delta_rows=options.delta_rows,
        options=dict(pair.split("=", 1) for pair in options.option),
    )


def _told(
    systems: list[System],
    plan: Plan,
    options: argparse.Namespace,
    runs: list[Figures],
    failed: dict[str, str],
) -> dict[str, Any]:
    found = versions()
    for system in systems:
        if system.name not in failed:
            found |= system.versions()
    described = asdict(plan)
    size = described.pop("size")
    return {
        "title": options.title,
        "command": "python -m bench.versus " + " ".join(sys.argv[1:]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count(),
        "versions": found,
        "plan": described | size | {"runs": options.runs},
        "about": {system.name: system.about for system in systems},
        "runs": [run.shown() for run in runs],
        "failed": failed,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.versus", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--systems", type=lambda text: text.split(","), help="names, separated by commas"
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--row-bytes", type=int, default=500)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="of full speed")
    parser.add_argument("--latency-seconds", type=float, default=20.0)
    parser.add_argument("--warm-up-events", type=int, default=100_000)
    parser.add_argument("--limit-events", type=int, default=15_000_000)
    parser.add_argument("--cold-events", type=int, default=200_000)
    parser.add_argument("--delta-rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="of the systems' own"
    )
    parser.add_argument("--quick", action="store_true", help="reduced, one JSON line a measure")
    parser.add_argument("--name", default="versus", help="of the files that are written")
    parser.add_argument("--title", default="Tablegate and what people would use instead")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    quick = "--quick" in sys.argv[1:]
    if quick:
        parser.set_defaults(**_QUICK)
    options = parser.parse_args()
    options.systems = options.systems or list(QUICK if quick else SYSTEMS)
    for name in options.systems:
        if name not in SYSTEMS:
            parser.error(f"no system {name}; there are {', '.join(SYSTEMS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
