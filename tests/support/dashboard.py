"""The queries of monitoring/grafana/tablegate.json, as Grafana would send them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ops.paths import MONITORING

DASHBOARD = MONITORING / "grafana" / "tablegate.json"
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


@dataclass(frozen=True)
class Query:
    """One query of one panel."""

    panel: str
    legend: str
    expr: str

    def of(self, job: str) -> str:
        """With the dashboard's job variable set."""
        return self.expr.replace("$job", job)


def dashboard() -> dict[str, Any]:
    """The dashboard as it is imported."""
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return loaded


def queries() -> list[Query]:
    """All of them, panel by panel."""
    return [
        Query(panel["title"], target["legendFormat"], target["expr"])
        for panel in panels()
        for target in panel["targets"]
    ]


def panels() -> list[dict[str, Any]]:
    """Those that show something: rows are headings."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def variables_used() -> set[str]:
    """Names of the variables that anything in the dashboard refers to."""
    return {match[1] for text in _texts(dashboard()) for match in _VARIABLE.finditer(text)}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
