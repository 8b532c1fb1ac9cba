"""Systems in turn on one broker, round by round; what fails is told by name and left out."""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bench.systems.contract import System
from bench.versus.model import Figures
from bench.versus.phases import Ground, Plan, measure, scanned
from ops.stack.broker import Broker


@dataclass
class Found:
    """What some rounds came to."""

    runs: list[Figures] = field(default_factory=list)
    scans_s: list[float] = field(default_factory=list)
    """How long Flink alone took to read the table topic, once in each round."""
    failed: dict[str, str] = field(default_factory=dict)
    """By name of the system: why it has no further runs."""


@contextmanager
def stand(systems: Sequence[System]) -> Iterator[tuple[Ground, dict[str, str]]]:
    """A broker, with what the systems need; beside it those that cannot be had, with the reason."""
    failed: dict[str, str] = {}
    for system in systems:
        log(f"{system.name}: preparing")
        try:
            system.prepare()
        except RuntimeError as error:
            failed[system.name] = str(error)
    with tempfile.TemporaryDirectory(prefix="tablegate-versus-") as folder:
        place = Path(folder)
        with Broker(place / "kafka") as broker:
            yield Ground(broker.bootstrap_servers, place), failed


def rounds(
    ground: Ground,
    systems: Sequence[System],
    plan: Plan,
    count: int,
    *,
    scan: bool,
    name: str = "run",
) -> Found:
    """Each system once in each of ``count`` rounds; ``name`` tells these from others there.

    A system that failed is not tried again.
    """
    found = Found()
    for number in range(count):
        if scan:
            found.scans_s.append(scanned(ground, plan, f"scan-{name}-{number}"))
        for system in systems:
            if system.name in found.failed:
                continue
            log(f"{system.name}: {name} {number + 1} of {count}")
            try:
                run = measure(ground, system, plan, f"{system.name}-{name}-{number}")
            except Exception as error:  # noqa: BLE001  (told in the results, by name)
                traceback.print_exc()
                found.failed[system.name] = str(error)
                continue
            found.runs.append(run)
            log(json.dumps(run.shown()))
    return found


def log(line: str) -> None:
    """To stderr, with the time of day."""
    print(f"{datetime.now(UTC):%H:%M:%S} {line}", file=sys.stderr, flush=True)
