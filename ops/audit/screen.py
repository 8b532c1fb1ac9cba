"""What the audits found, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from jobs.sql.findings import Finding


def show(console: Console, found: Sequence[Finding]) -> None:
    """A line for each audit, and below it the first rows of those that found some."""
    width = max((len(finding.name) for finding in found), default=0)
    for finding in found:
        verdict = f"[bold red]{finding.rows:,} rows[/]" if finding.rows else "[green]ok[/]"
        console.print(f"{finding.name:{width}}  {verdict}", highlight=False)
        if not finding.rows:
            continue
        if finding.intent:
            console.print(f"  {finding.intent}", style="dim", markup=False, highlight=False)
        for source, problem in finding.first:
            console.print(f"  {source}: {problem}", markup=False, highlight=False)
        more = finding.rows - len(finding.first)
        if more > 0 and finding.first:
            console.print(f"  and {more:,} more", highlight=False)


def as_json(found: Sequence[Finding]) -> dict[str, Any]:
    """For `--json`."""
    return {
        "clean": not any(finding.rows for finding in found),
        "audits": [
            {
                "name": finding.name,
                "rows": finding.rows,
                "first": [
                    {"source": source, "problem": problem} for source, problem in finding.first
                ],
            }
            for finding in found
        ],
    }
