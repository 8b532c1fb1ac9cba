"""What one option more gives: each tried beside the job without it, in turn.

    .venv/bin/python -m bench.tuning [--system tablegate-datastream] [--only flash,debloat] [...]

The options are those of ``bench.tuning_model``. Writes NAME.json and NAME.md to ``--results``.
Exits with 1 when one could not be measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.catch_up import versions
from bench.results_files import write
from bench.systems.contract import System
from bench.systems.flink import FlinkSystem
from bench.systems.registry import SYSTEMS
from bench.tuning_model import TRIALS, Trial, markdown
from bench.versus.ground import Size
from bench.versus.phases import Ground, Plan, measure
from bench.versus.rounds import log, stand
from ops.paths import ROOT


def main() -> int:
    """Measure, write, print."""
    options = _options()
    system = SYSTEMS[options.system]
    plan = Plan(
        size=Size(options.rows, 500),
        seconds=options.seconds,
        latency_seconds=5.0,
        cold_events=0,
        delta_rows=0,
    )
    load_average = os.getloadavg()[0]
    with stand([system]) as (ground, failed):
        if failed:
            log(failed[system.name])
            return 1
        trials = [
            _tried(ground, system, plan, trial, options.runs)
            for trial in TRIALS
            if trial.name in options.only
        ]
    told = {
        "command": "python -m bench.tuning " + " ".join(sys.argv[1:]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count(),
        "load_average": round(load_average, 2),
        "versions": versions() | system.versions(),
        "system": system.name,
        "plan": {
            "rows": options.rows,
            "row_bytes": plan.size.row_bytes,
            "seconds": options.seconds,
            "runs": options.runs,
        },
        "trials": trials,
    }
    write(options.results / options.name, told, markdown)
    return 1 if any(trial["failed"] for trial in trials) else 0


def _tried(ground: Ground, system: System, plan: Plan, trial: Trial, runs: int) -> dict[str, Any]:
    other = dataclasses.replace(plan, options=trial.options, parallelism=trial.parallelism)
    base, tried, failed = [], [], ""
    for number in range(runs):
        log(f"{trial.name}: {number + 1} of {runs}")
        try:
            beside = measure(ground, system, plan, f"{trial.name}-base-{number}")
            tried.append(measure(ground, system, other, f"{trial.name}-tried-{number}"))
            base.append(beside)
        except Exception as error:  # noqa: BLE001  (told in the results, by name)
            traceback.print_exc()
            failed = str(error)
            break
        log(json.dumps({"base": base[-1].shown(), "tried": tried[-1].shown()}))
    return {
        "name": trial.name,
        "why": trial.why,
        "options": dict(trial.options),
        "base": [run.shown() for run in base],
        "tried": [run.shown() for run in tried],
        "failed": failed,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.tuning", description=__doc__.partition("\n")[0])
    names = [trial.name for trial in TRIALS]
    on_flink = [name for name, one in SYSTEMS.items() if isinstance(one, FlinkSystem)]
    joins = [name for name in on_flink if not name.startswith("limit-")]
    parser.add_argument("--system", choices=joins, default="tablegate-datastream")
    parser.add_argument("--only", type=lambda text: text.split(","), default=names)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of full speed")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--name", default="tuning", help="of the files that are written")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    options = parser.parse_args()
    for name in options.only:
        if name not in names:
            parser.error(f"no option {name}; there are {', '.join(names)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
