"""What a TaskManager has in memory once it has run a join, whichever settings that had."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import udfs

# The gate's: it runs in a process of its own, which ends with its job.
_OF_THE_GATE = {"udfs.gate", "udfs.targets", "udfs.watch", "udfs.sql_gate", "udfs.core.marks"}


def test_the_join_brings_every_module_that_a_later_job_may_ask_for() -> None:
    # In thread mode the folder from which they came is deleted with the first job.
    asked = "import sys, udfs.join; print(*(m for m in sys.modules if m.startswith('udfs')))"
    loaded = subprocess.run(
        [sys.executable, "-c", asked], check=True, capture_output=True, text=True
    ).stdout.split()
    known = {module.name for module in pkgutil.walk_packages(udfs.__path__, "udfs.")}
    assert known - set(loaded) <= _OF_THE_GATE | {"udfs.core.stall", "udfs.core.identity"}
