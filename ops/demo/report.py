"""The demo's summary: as JSON, as a table and a bar chart, and as a verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ops.demo.check import Decile, Fault, Judgement

# The key of each fault in the summary.
_KEYS = {
    Fault.WRONG_NULL: "wrong_nulls",
    Fault.STALE: "stale",
    Fault.LOST: "lost",
    Fault.FALSE_HIT: "false_hits",
    Fault.WRONG_DEAD: "wrong_dead_letters",
    Fault.MISLABELLED: "mislabelled",
    Fault.ALTERED: "altered",
    Fault.ALIEN: "alien",
}

_MEANING = {
    Fault.WRONG_NULL: "missed, although the table held the row",
    Fault.STALE: "joined with a row older than the table was",
    Fault.LOST: "in no output at all",
    Fault.FALSE_HIT: "joined with a row that was not there",
    Fault.WRONG_DEAD: "set aside as unreadable, or not set aside",
    Fault.MISLABELLED: "verdict or source header is wrong",
    Fault.ALTERED: "key, bytes, headers or time changed",
    Fault.ALIEN: "output that belongs to no order",
}

_BAR = 40


@dataclass(frozen=True)
class Timing:
    """How long each start took, in seconds.

    ``to_open``: from submission to the open gate; ``to_open_running``: the part of it after every
    task was seen to run, known to a second. Both are empty for a job without a gate.
    ``to_first_output``: from submission to the first record that came out.
    """

    to_open: Sequence[float]
    to_open_running: Sequence[float]
    to_first_output: Sequence[float]


@dataclass(frozen=True)
class Result:
    """One job's part of the summary."""

    judgement: Judgement
    timing: Timing


def problems(ungated: Result, gated: Result) -> list[str]:
    """Why the demo must fail, in words; empty when it tells what it should."""
    found = [
        f"ours is wrong: {count} x {fault} ({_MEANING[fault]})"
        for fault, count in gated.judgement.faults.items()
        if count
    ]
    if not gated.judgement.hits:
        found.append("ours joined nothing: 0 hits")
    if not _lost_rows(ungated.judgement):
        found.append(
            "the join without a gate lost nothing this time, so this run proves nothing: "
            "its table was loaded before its stream was read; try more --rows"
        )
    return found


def summary(ungated: Result, gated: Result, about: dict[str, object]) -> dict[str, Any]:
    """What `build/demo/summary.json` holds."""
    return {**about, "ungated": _summary_of(ungated), "gated": _summary_of(gated)}


def write(path: Path, content: dict[str, Any]) -> None:
    """Write the summary; the folder is made if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def show(console: Console, ungated: Result, gated: Result) -> None:
    """Print the table, the chart, and an example of each fault."""
    console.print()
    console.print(_table(ungated, gated))
    _show_deciles(console, ungated.judgement.deciles)
    for name, result in (("ungated", ungated), ("gated", gated)):
        for fault, examples in result.judgement.examples.items():
            console.print(f"{name}, {fault}, for example:", style="bold")
            console.print(f"  {examples[0]}", markup=False, highlight=False)


def _lost_rows(judgement: Judgement) -> int:
    return judgement.faults[Fault.WRONG_NULL] + judgement.faults[Fault.LOST]


def _summary_of(result: Result) -> dict[str, Any]:
    judgement = result.judgement
    return {
        "events": judgement.events,
        "hits": judgement.hits,
        "misses": judgement.misses,
        "dead_letters": judgement.dead,
        **{key: judgement.faults[fault] for fault, key in _KEYS.items()},
        # Orders that the row did not reach, one way or the other.
        "lost_rows": _lost_rows(judgement),
        "duplicates": judgement.duplicates,
        "time_to_open_s": [round(s, 1) for s in result.timing.to_open],
        "time_to_open_after_running_s": [round(s, 1) for s in result.timing.to_open_running],
        "time_to_first_output_s": [round(s, 1) for s in result.timing.to_first_output],
        "deciles": [
            {"decile": n, "events": decile.events, "lost": decile.lost, "stale": decile.stale}
            for n, decile in enumerate(judgement.deciles, start=1)
        ],
        "examples": {str(fault): shown for fault, shown in judgement.examples.items()},
    }


def _table(ungated: Result, gated: Result) -> Table:
    table = Table(title="Orders joined with the customer's tier, recomputed from the topics")
    table.add_column("")
    table.add_column("ungated", justify="right")
    table.add_column("gated", justify="right")
    table.add_column("what it counts", style="dim")
    a, b = ungated.judgement, gated.judgement
    for name, left, right, meaning in (
        ("events", a.events, b.events, "orders in the stream"),
        ("hits", a.hits, b.hits, "came out with a tier"),
        ("misses", a.misses, b.misses, "came out without one, right or wrong"),
        ("dead letters", a.dead, b.dead, "unreadable, or without a customer"),
    ):
        table.add_row(name, f"{left:,}", f"{right:,}", meaning)
    table.add_section()
    for fault, meaning in _MEANING.items():
        left, right = a.faults[fault], b.faults[fault]
        # The three of the promise are always shown, the others when there is something to show.
        if left or right or fault in (Fault.WRONG_NULL, Fault.STALE, Fault.LOST):
            table.add_row(
                f"{fault}s" if fault in _PLURAL else fault, _bad(left), _bad(right), meaning
            )
    table.add_section()
    table.add_row(
        "duplicates", f"{a.duplicates:,}", f"{b.duplicates:,}", "extra copies; at least once may"
    )
    table.add_row(
        "time to open",
        "has no gate",
        _seconds(gated.timing.to_open),
        "first start, restart: from submission",
    )
    table.add_row(
        "  once its tasks ran",
        "",
        _seconds(gated.timing.to_open_running),
        "the rest is JVM and Python starting",
    )
    table.add_row(
        "time to first output",
        _seconds(ungated.timing.to_first_output),
        _seconds(gated.timing.to_first_output),
        "first start, restart: from submission",
    )
    return table


_PLURAL = frozenset({Fault.WRONG_NULL, Fault.STALE, Fault.FALSE_HIT, Fault.WRONG_DEAD})


def _bad(count: int) -> str:
    return f"[bold red]{count:,}[/]" if count else "[green]0[/]"


def _seconds(times: Sequence[float]) -> str:
    return ", ".join(f"{time:.1f} s" for time in times)


def _show_deciles(console: Console, deciles: Sequence[Decile]) -> None:
    console.print(
        "\nWhere in the table's log the rows stood that the ungated join did not see, at the first"
        "\nstart (█ missed, ▒ got an older row):"
    )
    for n, decile in enumerate(deciles):
        events = max(1, decile.events)
        lost, stale = (round(count * _BAR / events) for count in (decile.lost, decile.stale))
        name = {0: "oldest", len(deciles) - 1: "newest"}.get(n, "")
        unseen = decile.lost + decile.stale
        console.print(
            f"  {n * 10:3d}-{n * 10 + 10:3d} % {name:6}  {'█' * lost + '▒' * stale:{_BAR}} "
            f"{unseen / events:6.1%}  {unseen:6,} of {decile.events:,} orders",
            highlight=False,
        )
    console.print()
