"""The demo's last word is SQL's: the audits of `sql/audits` over what both jobs wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console

from jobs.settings import load
from jobs.sql.findings import Finding
from ops.audit import screen
from ops.audit.run import audit
from ops.cluster import Cluster
from ops.paths import SQL

# What a join without a gate is bound to be caught with.
_CAUGHT = "wrong_nulls"

Found = Mapping[str, Sequence[Finding]]


def audited(cluster: Cluster, config: Path, overrides: Mapping[str, Sequence[str]]) -> Found:
    """The findings for each job, by its name. ``overrides`` are those that it ran with.

    Raises StackError when an audit cannot be run.
    """

    def one(name: str) -> Sequence[Finding]:
        given = list(overrides[name])
        settings = load(config, given)
        return audit(cluster, settings, config=config, sql=SQL, overrides=given, first=1)

    with ThreadPoolExecutor() as pool:
        running = {name: pool.submit(one, name) for name in overrides}
        return {name: found.result() for name, found in running.items()}


def problems(found: Found, lost_rows: int) -> list[str]:
    """What the demo must fail for. ``lost_rows``: orders that the ungated job is known to miss."""
    wrong = [
        f"the audit {finding.name} found {finding.rows:,} rows in ours: {finding.intent}"
        for finding in found["gated"]
        if finding.rows
    ]
    caught = any(f.name == _CAUGHT and f.rows for f in found["ungated"])
    if lost_rows and not caught:
        wrong.append(
            f"the audit {_CAUGHT} found nothing in the ungated outputs, which lost {lost_rows:,} "
            "orders"
        )
    return wrong


def show(console: Console, found: Found) -> None:
    """Both jobs' audits, one after the other."""
    for name, findings in found.items():
        console.print(f"audits of {name}:", style="bold", highlight=False)
        screen.show(console, findings)


def summary(found: Found) -> dict[str, Any]:
    """For the demo's summary."""
    return {name: {f.name: f.rows for f in findings} for name, findings in found.items()}
