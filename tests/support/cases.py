"""The shared cases: what becomes of an event, whichever variant of the join is asked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_FILE = Path(__file__).parents[1] / "cases" / "verdicts.yaml"
HELD = "held"


@dataclass(frozen=True)
class Case:
    """One case; the file's head says what its parts mean."""

    name: str
    steps: list[dict[str, Any]]
    expect: dict[str, Any]
    grace: int = 0
    on_miss: str = "route"
    dead_rows: int = 0


def cases() -> list[Case]:
    """All cases of the file."""
    return [Case(**case) for case in yaml.safe_load(_FILE.read_text())]


def value_of(record: dict[str, Any]) -> bytes | None:
    """The bytes of a step's record."""
    if "raw" in record:
        return str(record["raw"]).encode()
    return None if record["value"] is None else json.dumps(record["value"]).encode()


def hit(value: bytes) -> dict[str, Any]:
    """What a case expects of a hit that goes out with this value."""
    return {"verdict": "HIT", "value": json.loads(value)}
