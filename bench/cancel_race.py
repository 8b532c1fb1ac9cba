"""How many cancels of a vectorised Python function it takes until one costs the TaskManager.

    .venv/bin/python -m bench.cancel_race [--restarts 100] [--rows-per-s 1000] [--bundle-ms 2]

Nothing of ours runs: a job without state (`bench/cancel_race_job.py`) fails again and again after
a second or two, and each restart cancels a task whose worker process has just been given a batch.
PyFlink 2.3.0 may then close that worker twice (docs/decisions/0015). Prints one JSON line; to be
run again with each new Flink.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

from ops import flink_run
from ops.paths import ROOT
from ops.stack.flink import FlinkCluster

_JOB = ROOT / "bench" / "cancel_race_job.py"
_CANCELLED = "switched from RUNNING to CANCELING"
_FATAL = "FATAL - exception in exception handler"
_DEADLINE_S = 1800.0
_POLL_S = 1.0


def main() -> None:
    """Let the job restart until a TaskManager is gone, or often enough; print how often."""
    options = _options()
    with (
        tempfile.TemporaryDirectory(prefix="tablegate-cancel-race-") as folder,
        FlinkCluster(Path(folder) / "flink") as cluster,
    ):
        flink_run.submit(
            cluster,
            entry=_JOB,
            job_arguments=[str(options.rows_per_s), str(options.bundle_ms)],
        )
        deadline = time.monotonic() + _DEADLINE_S
        while cluster.taskmanagers() and _cancels(cluster) < options.restarts:
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
        figures = {
            "measure": "cancels of a vectorised function",
            "value": _cancels(cluster),
            "unit": "cancels",
            "taskmanager_lost": _FATAL in cluster.logs(),
            "rows_per_s": options.rows_per_s,
            "bundle_ms": options.bundle_ms,
            "cores": os.cpu_count(),
        }
        print(json.dumps(figures))


def _cancels(cluster: FlinkCluster) -> int:
    return sum(
        _CANCELLED in line and "taskmanager.Task " in line and "PythonCalc" in line
        for line in cluster.logs().splitlines()
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.cancel_race", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--restarts", type=int, default=100)
    parser.add_argument("--rows-per-s", type=int, default=1_000)
    parser.add_argument("--bundle-ms", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
