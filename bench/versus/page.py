"""The results as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench import page
from bench.versus import targets
from bench.versus.model import REFERENCE, Spread, from_json, ratios, spreads

_COLUMNS = {
    "events_per_s": "events/s",
    "events_per_core_s": "events per core s",
    "p50_ms": "p50, ms",
    "p99_ms": "p99, ms",
    "open_s": "start to first right answer, s",
    "drain_per_s": "waiting events, events/s",
    "wrong_cold": "of these joined wrongly",
    "wrong_young": "the same, rows younger than events",
    "restart_s": "restart, quiet table, s",
    "restart_gate_s": "of this, tasks running to gate open, s",
    "restart_delta_s": "restart, rows written meanwhile, s",
    "peak_memory_mb": "peak memory, MB",
    "state_mb": "state, MB",
}


def markdown(told: Mapping[str, Any]) -> str:
    """The page, from what the JSON file holds."""
    runs = [from_json(run) for run in told["runs"]]
    found = spreads(runs)
    ratio = ratios(found, "events_per_s")
    plan = told["plan"]
    versions = ", ".join(f"{name} {number}" for name, number in told["versions"].items())
    head = ("system", f"events/s to {REFERENCE}", *_COLUMNS.values())
    rows = [
        (
            f"`{system}`",
            f"{ratio[system]:.2f}" if system in ratio else "",
            *(page.cell(of.get(measure)) for measure in _COLUMNS),
        )
        for system, of in found.items()
    ]
    legend = "\n".join(f"- `{name}`: {about}" for name, about in told["about"].items())
    ran = (
        f"`{told['command']}`, {told['date']}, {told['cores']} cores shared by broker, writer and "
        f"system (load average {told['load_average']} when it began); {versions}."
    )
    asked = (
        f"{plan['rows']:,} rows of {plan['row_bytes']} bytes in {plan['partitions']} partitions, "
        f"parallelism {plan['parallelism']}; full speed over {plan['seconds']:g} s, latency at "
        f"half of it over {plan['latency_seconds']:g} s; {plan['cold_events']:,} events waiting "
        f"before a cold start; {plan['delta_rows']:,} rows written during a restart. Medians of "
        f"{plan['runs']} runs, least and most in brackets."
    )
    scan = Spread.of(told["scans_s"]) if told["scans_s"] else None
    parts = [f"# {told['title']}", ran, asked, page.table(head, rows)]
    if judged := targets.markdown(targets.of_versus(found, scan)):
        parts += ["What was asked for (issue 7), by the medians:", judged]
    parts.append(legend)
    if scan:
        parts.append(
            f"Flink alone reads the table topic in {page.cell(scan)} s (with its client; a scan "
            "that keeps nothing and ends); start to first right answer as a ratio to that: "
            + ", ".join(
                f"`{system}` {of['open_s'].median / scan.median:.2f}"
                for system, of in found.items()
                if system.startswith("tablegate") and "open_s" in of
            )
            + "."
        )
    if told["failed"]:
        failed = "\n".join(f"- `{name}`: {reason}" for name, reason in told["failed"].items())
        parts.append(f"**Not measured:**\n\n{failed}")
    return "\n\n".join(parts) + "\n"
