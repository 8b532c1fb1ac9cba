"""The results as a picture: three rows of bars, one bar for each system."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bench.versus.model import from_json, spreads

_SHOWN = {
    "events_per_s": "events/s at full speed",
    "open_s": "s from start to the first right answer",
    "p99_ms": "ms, p99 of the latency at half load",
}


def png(told: Mapping[str, Any], path: Path) -> None:
    """Write it, from what the JSON file holds; whiskers are the least and the most."""
    found = spreads(from_json(run) for run in told["runs"])
    figure = Figure(figsize=(11, 1.2 + 0.32 * len(found) * len(_SHOWN)), layout="constrained")
    axes = figure.subplots(len(_SHOWN), 1)
    for axis, (measure, label) in zip(axes, _SHOWN.items(), strict=True):
        bars = [(system, of[measure]) for system, of in found.items() if measure in of]
        bars.sort(key=lambda bar: bar[1].median)
        values = [spread.median for _, spread in bars]
        around = (
            [spread.median - spread.least for _, spread in bars],
            [spread.most - spread.median for _, spread in bars],
        )
        drawn = axis.barh(
            [system for system, _ in bars],
            values,
            xerr=around,
            color=[
                "#2b6cb0" if system.startswith("tablegate") else "#a0aec0" for system, _ in bars
            ],
        )
        axis.bar_label(drawn, [f"{value:,.0f}" for value in values], padding=6)
        axis.set_xlabel(label)
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(x=0.12)
    figure.suptitle(f"{told['title']} ({told['date']}, {told['cores']} cores)")
    figure.savefig(path, dpi=110)
