"""`tablegate demo`."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from ops.demo.data import FEWEST, Plan
from ops.demo.run import SUMMARY, Options, stop, tell
from ops.demo.screen import Screen
from ops.paths import ROOT

# As a shell reports a process that Ctrl-C ended.
_EXIT_INTERRUPTED = 130
# Tables and bars need room where there is no terminal to ask for its width.
_WIDTH_WITHOUT_TERMINAL = 110


def register(app: typer.Typer) -> None:
    """Add the `demo` command to the `tablegate` command."""
    app.command()(demo)


def demo(
    *,
    rows: Annotated[int, typer.Option(min=FEWEST, help="Customers in the table.")] = 200_000,
    events: Annotated[int, typer.Option(min=FEWEST, help="Orders before the restart.")] = 200_000,
    seed: Annotated[int, typer.Option(help="Another seed, other records.")] = 7,
    keep: Annotated[bool, typer.Option("--keep", help="Leave Kafka and Flink running.")] = False,
    only_stop: Annotated[bool, typer.Option("--stop", help="Stop what --keep left.")] = False,
) -> None:
    """Run an ungated join and ours side by side, restart both, and check every order.

    Exits with 1 when ours is wrong, or when the ungated one lost nothing.
    """
    # The stack is stopped on the way out, whoever asks us to end.
    signal.signal(signal.SIGTERM, _interrupt)
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH_WITHOUT_TERMINAL)
    if only_stop:
        stop()
        return
    try:
        wrong = tell(Options(Plan(rows, events, seed), keep), Screen(console))
    except KeyboardInterrupt:
        console.print("Interrupted." if keep else "Interrupted; Kafka and Flink are stopped.")
        raise typer.Exit(_EXIT_INTERRUPTED) from None
    console.print(f"The summary is in {SUMMARY.relative_to(ROOT)}.", highlight=False)
    if wrong:
        for problem in wrong:
            console.print(f"[bold red]wrong:[/] {problem}", highlight=False)
        raise typer.Exit(1)
    console.print("[bold green]Ours: no wrong null, no stale join, nothing lost.[/]")


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
