"""Rates for the plan: from a bench's file, or the defaults that were measured here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ops.plan.figures import Figure, Origin, checked
from udfs.core.errors import ConfigError

LOAD, JOIN, RELEASE, ROW_BYTES = "load_rate", "join_rate", "release_rate", "measured_row_bytes"

_UNITS = {LOAD: "rows/s", JOIN: "events/s", RELEASE: "events/s", ROW_BYTES: "bytes"}

# One subtask on two cores that Kafka, Flink and the writer share; rows of 200 bytes, RocksDB.
DEFAULTS = {
    LOAD: (29_200.0, "docs/decisions/0015-the-gate-stays-vectorised.md"),
    JOIN: (10_700.0, "docs/operations.md, continuous consistency"),
    ROW_BYTES: (200.0, "docs/decisions/0015-the-gate-stays-vectorised.md"),
}
# Seconds from submission to the opened gate of a restart with nothing to read, of the same run.
START_S = (9.1, "docs/decisions/0015-the-gate-stays-vectorised.md")
# Events that one subtask held when its gate opened, the pause and the brake being on.
SLACK_EVENTS = (33_568.0, "docs/full-run.md, the hold")

# What the lines of bench.load call them.
_MEASURES = {"table load": LOAD, "stream joined, gate open": JOIN}
_REMEDY = "give the JSON file of `python -m bench.catch_up`, or what `python -m bench.load` printed"


def read(path: Path) -> dict[str, Figure]:
    """The rates in a bench's file, by their names in the plan's inputs; for one subtask.

    Raises:
        ConfigError: the file is not there, is no bench's, or a rate in it is not above 0.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError("--rates", str(path), f"{reason}: {_REMEDY}") from error
    found = _rates(path, text)
    if not found:
        raise ConfigError("--rates", str(path), f"there is no rate in it: {_REMEDY}")
    figures = {}
    for name, value in found.items():
        unit = _UNITS[name]
        number = checked(f"{path}: {name}", value, unit)
        figures[name] = Figure(number, unit, Origin.MEASURED, str(path))
    return figures


def _rates(path: Path, text: str) -> dict[str, float]:
    try:
        whole = json.loads(text)
    except ValueError:
        return _lines(path, text)
    if isinstance(whole, Mapping) and "measure" in whole:
        return _lines(path, text)
    rates = whole.get("rates") if isinstance(whole, Mapping) else None
    if not isinstance(rates, Mapping):
        return {}
    return {name: _number(path, name, rates[name]) for name in _UNITS if name in rates}


def _lines(path: Path, text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            told: Any = json.loads(line)
        except ValueError as error:
            raise ConfigError(
                "--rates", str(path), f"line {number} is not JSON: {_REMEDY}"
            ) from error
        if not isinstance(told, Mapping):
            continue
        name = _MEASURES.get(str(told.get("measure")))
        if name is None:
            continue
        # A bench with several subtasks tells what all of them joined.
        subtasks = _number(path, "parallelism", told.get("parallelism", 1)) if name == JOIN else 1
        found[name] = _number(path, name, told.get("value")) / max(1, subtasks)
        if "row_bytes" in told:
            found[ROW_BYTES] = _number(path, "row_bytes", told["row_bytes"])
    return found


def _number(path: Path, name: str, value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise ConfigError(f"{path}: {name}", value, f"it is no number: {_REMEDY}")
