"""A plan for people and for programs: a page, JSON."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from typing import Any

from ops.plan.cautions import cautions
from ops.plan.figures import Figure, Origin
from ops.plan.model import Plan

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
# In a unit up to twice the next one's size: "95 s" says more than "2 min".
_TWICE = 2
_FEW = 10
_KILO = 1_000
_BYTES = ("bytes", "kB", "MB", "GB", "TB", "PB")

_INPUTS = {
    "rows": "rows to read",
    "row_bytes": "bytes of a row",
    "load_rate": "load rate",
    "start": "start, without the load",
    "backlog": "events that wait before",
    "events_per_s": "events that arrive",
    "event_bytes": "bytes of an event",
    "join_rate": "join rate, a subtask",
    "release_rate": "release rate, a subtask",
    "parallelism": "parallelism",
    "slack": "held in state, a subtask",
    "retention": "kept in the stream topic",
    "within": "catch-up wanted within",
    "measured_row_bytes": "bytes of a row, load rate",
}

# Label to the figures that stand beside it, of which the first says what it rests on.
_GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "The table": {
        "load time": ("load", "table_bytes"),
        "hold, in which nothing leaves": ("hold",),
    },
    "Without a gate": {
        "joins a half-loaded table for": ("exposure",),
        "events joined meanwhile": ("exposed_events",),
    },
    "What waits when the gate opens": {
        "all": ("waiting_events", "waiting_bytes"),
        "in the topic": ("in_topic_events", "in_topic_bytes"),
        "in state, at most": ("in_state_events", "in_state_bytes"),
    },
    "Afterwards": {
        "capacity of the join": ("capacity",),
        "load": ("load_share",),
        "catch-up": ("catch_up",),
        "behind for, hold included": ("behind_for",),
        "highest rate for {within}": ("highest_rate", "highest_share"),
        "parallelism for {within}": ("subtasks_needed",),
    },
}


def duration(seconds: float) -> str:
    """A time span with two or three figures."""
    if seconds < _FEW:
        return f"{seconds:.1f} s"
    for size, unit in ((1.0, "s"), (_MINUTE, "min"), (_HOUR, "h")):
        bigger = {"s": _MINUTE, "min": _HOUR, "h": _DAY}[unit]
        if seconds < _TWICE * bigger:
            value = seconds / size
            return f"{value:.0f} {unit}" if value >= _FEW else f"{value:.1f} {unit}"
    return f"{seconds / _DAY:,.1f} d"


def volume(size: float) -> str:
    """Bytes, in steps of a thousand."""
    step = 0
    while size >= _KILO and step < len(_BYTES) - 1:
        size, step = size / _KILO, step + 1
    digits = 1 if step and size < _FEW else 0
    return f"{size:,.{digits}f} {_BYTES[step]}"


def shown(figure: Figure) -> str:
    """The value with its unit."""
    if figure.value is None:
        return "never"
    if figure.unit == "s":
        return duration(figure.value)
    if figure.unit == "bytes":
        return volume(figure.value)
    if figure.unit == "of capacity":
        return f"{figure.value:.0%} {figure.unit}"
    if figure.unit == "subtasks":
        return f"{figure.value:,.0f}"
    digits = 0 if figure.value >= _FEW or figure.value == int(figure.value) else 1
    return f"{figure.value:,.{digits}f} {figure.unit}"


def page(plan: Plan) -> str:
    """All of it, for a terminal or a log; lines of any length."""
    inputs = plan.inputs
    what = "A restart" if inputs.restart else "A first start"
    assumed = [name for name, figure in inputs.items() if figure.origin is Origin.ASSUMED]
    marks = dict(zip(assumed, string.ascii_lowercase, strict=False))
    lines = [
        f"{what}: {shown(inputs.rows)} to read, parallelism {inputs.parallelism.number:,.0f}",
        "",
        "Goes by",
    ]
    for name, figure in inputs.items():
        origin = f"{figure.origin} {marks.get(name, '')}"
        lines.append(_line(_INPUTS[name], shown(figure), f"{origin:<10} {figure.source}"))
    within = duration(inputs.within.number)
    for title, group in _GROUPS.items():
        lines += ["", title]
        for label, names in group.items():
            found = [plan.figures[name] for name in names if name in plan.figures]
            letters = " ".join(sorted(marks[name] for name in found[0].assumes))
            rests = f"assumes {letters}" if letters else "assumes nothing"
            value = ", ".join(shown(figure) for figure in found)
            lines.append(_line(label.format(within=within), value, f"computed, {rests}"))
    warnings = [f"warning: {caution}" for caution in cautions(inputs)]
    return "\n".join([*lines, "", *warnings] if warnings else lines)


def _line(label: str, value: str, origin: str) -> str:
    return f"  {label:<29}  {value:>32}  {origin}".rstrip()


def as_json(plan: Plan) -> dict[str, Any]:
    """All of it, for a program: ``null`` as the value of a time means never."""
    inputs = plan.inputs
    return {
        "restart": inputs.restart,
        "paused": inputs.paused,
        "never": plan.never,
        "inputs": dict(_objects(dict(inputs.items()))),
        "figures": dict(_objects(plan.figures)),
        "warnings": list(cautions(inputs)),
    }


def _objects(figures: Mapping[str, Figure]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, figure in figures.items():
        told: dict[str, Any] = {
            "value": figure.value,
            "unit": figure.unit,
            "origin": figure.origin.value,
            "source": figure.source,
        }
        if figure.origin is Origin.COMPUTED:
            told["assumes"] = list(figure.assumes)
        yield name, told
