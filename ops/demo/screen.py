"""What a person sees while the demo runs: live bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

# Without a terminal: often enough to see that it lives, seldom enough for a log.
_LINE_EVERY_S = 3.0


@dataclass
class Standing:
    """How far everything is: what the bars show.

    ``loaded`` is the share of the table that our job has read, 0 to 1; None while it starts.
    ``out`` and ``hits`` are counts of orders by job, ``orders`` is how many there are to come.
    """

    loaded: float | None
    gate_open: bool
    out: dict[str, int]
    hits: dict[str, int]
    orders: int


class Screen:
    """Prints steps with the time they began, and bars (or lines) between them."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._began = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began

    def step(self, text: str) -> None:
        """One line: what happens now, or what just happened."""
        self.console.print(f"[dim]{self.elapsed_s:6.1f} s[/]  {text}", highlight=False)

    @contextmanager
    def bars(self) -> Iterator[Bars]:
        """Bars for as long as the block runs. Without a terminal they are lines instead."""
        if not self.console.is_terminal:
            yield _Lines(self)
            return
        with Progress(
            TextColumn("          {task.description:<12}"),
            BarColumn(40),
            TextColumn("{task.percentage:5.1f} %  {task.fields[note]}"),
            console=self.console,
        ) as progress:
            yield _Live(progress)


class Bars:
    """Takes the standing, again and again."""

    def show(self, standing: Standing) -> None:
        """Bring the bars up to date."""
        raise NotImplementedError


class _Live(Bars):
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def show(self, standing: Standing) -> None:
        self._bar("table load", standing.loaded or 0.0, 1.0, _gate(standing))
        for job, out in standing.out.items():
            self._bar(job, out, standing.orders, _orders(standing, job))

    def _bar(self, name: str, done: float, total: float, note: str) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=total, note=note)
        self._progress.update(self._tasks[name], completed=done, total=total, note=note)


class _Lines(Bars):
    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._next = 0.0
        self._last = ""

    def show(self, standing: Standing) -> None:
        text = f"table load {standing.loaded or 0:6.1%} ({_gate(standing)})" + "".join(
            f"; {job} {_orders(standing, job)}" for job in standing.out
        )
        now = time.monotonic()
        if now >= self._next and text != self._last:
            self._next, self._last = now + _LINE_EVERY_S, text
            self._screen.step(text)


def _gate(standing: Standing) -> str:
    if standing.loaded is None:
        return "job starts"
    return "gate open" if standing.gate_open else "gate shut, orders wait"


def _orders(standing: Standing, job: str) -> str:
    out, hits = standing.out[job], standing.hits[job]
    rate = f", {hits / out:.1%} hits" if out else ""
    return f"{out:,} out{rate}"
