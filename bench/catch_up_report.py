"""The result of `bench.catch_up` as a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench import page

_HEAD = (
    "load",
    "of capacity",
    "events/s",
    "hold",
    "waiting",
    "of these in state",
    "released with",
    "then joined with",
    "catch-up",
    "`hold * load / (1 - load)`",
    "ratio",
    "corrected",
    "ratio",
    "writer's cores",
)


def markdown(told: Mapping[str, Any]) -> str:
    """The page, from what the JSON file holds."""
    options, rates = told["options"], told["rates"]
    versions = ", ".join(f"{name} {number}" for name, number in told["versions"].items())
    run = (
        f"`python -m bench.catch_up`, {told['date']}, {told['cores']} cores shared by broker, "
        f"writer and job (load average {told['load_average']} when it began); {versions}. "
        f"One run; {options['rows']:,} rows of "
        f"{options['row_bytes']} bytes, RocksDB, one subtask. A hold of {options['hold_s']:g} s "
        "was asked for, by an unfinished transaction on the table."
    )
    capacity = (
        "Capacity with the gate open, in events/s: "
        f"{told['capacity_without_writer']:,.0f} without a writer, {rates['join_rate']:,.0f} with "
        "one at three quarters of that. Loads are shares of the capacity beside them: of the "
        "latter, then of what the join took in the catch-up before. The table was loaded with "
        f"{rates['load_rate']:,.0f} rows/s."
    )
    meaning = (
        "Hold and catch-up are in seconds; the catch-up ends when the lag is back at what it "
        "hardly ever exceeded before the hold (95th percentile). *Corrected* is "
        "`(rate * hold + held * (joined / released - 1)) / (joined - rate)`, with the rates of the "
        "run itself: a ratio near 1 says that the form of the formula holds, and that what is left "
        "of the first ratio is a capacity other than the measured one."
    )
    table = page.table(_HEAD, _rows(told["runs"]))
    parts = ["# Catch-up after a hold", run, capacity, table, meaning]
    if told["wrong"]:
        parts.append("**Spoilt:** " + "; ".join(told["wrong"]) + ".")
    return "\n\n".join(parts) + "\n"


def _rows(runs: Iterable[Mapping[str, Any]]) -> Iterable[Sequence[str]]:
    for run in runs:
        yield (
            f"{run['load']:.0%}",
            f"{run['written_rate'] / run['load']:,.0f}",
            f"{run['written_rate']:,.0f}",
            f"{run['hold_s']:.1f}",
            f"{run['waiting']:,}",
            f"{run['held']:,}",
            f"{run['release_rate']:,.0f}",
            f"{run['topic_rate']:,.0f}",
            _number(run["catch_up_s"], 1),
            f"{run['simple_s']:.1f}",
            _number(run["ratio"], 2),
            _number(run["corrected_s"], 1),
            _number(run["corrected_ratio"], 2),
            f"{run['writer_cores']:.2f}",
        )


def _number(value: float | None, digits: int) -> str:
    return "never" if value is None else f"{value:.{digits}f}"
