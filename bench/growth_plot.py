"""The growth as a picture: one panel for each measure, groups of bars by variation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bench.versus.model import from_json, spreads

_SHOWN = {
    "events_per_s": "events/s at full speed",
    "open_s": "s from start to the first right answer",
    "peak_memory_mb": "MB of memory at most",
}
_GROUP = 0.8


def png(told: Mapping[str, Any], path: Path) -> None:
    """Write it, from what the JSON file holds."""
    found = {
        name: spreads(from_json(run) for run in one["runs"]) for name, one in told["found"].items()
    }
    systems = list(dict.fromkeys(system for one in found.values() for system in one))
    figure = Figure(figsize=(1.6 * len(found) + 3, 9), layout="constrained")
    axes = figure.subplots(len(_SHOWN), 1, squeeze=False)[:, 0]
    for axis, (measure, label) in zip(axes, _SHOWN.items(), strict=True):
        width = _GROUP / max(1, len(systems))
        for number, system in enumerate(systems):
            bars = [
                (place + number * width, of[system][measure].median)
                for place, of in enumerate(found.values())
                if measure in of.get(system, {})
            ]
            axis.bar([at for at, _ in bars], [value for _, value in bars], width, label=system)
        middle = width * (len(systems) - 1) / 2
        axis.set_xticks([place + middle for place in range(len(found))], list(found))
        axis.set_ylabel(label)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(loc="upper right", fontsize="small")
    figure.suptitle(f"How it grows ({told['date']}, {told['cores']} cores)")
    figure.savefig(path, dpi=110)
