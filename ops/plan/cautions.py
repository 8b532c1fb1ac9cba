"""What to look out for in a plan, in sentences for a person."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ops.plan.model import Inputs, capacity, catch_up_s, hold_s, subtasks_needed
from udfs.core.heap import HEAP_SHARE, heap_bytes

# From here on a second of hold costs four of catch-up, and a small peak is for ever.
_HIGH_LOAD = 0.8
# A load rate holds for rows of a similar size only.
_UNLIKE = 2.0
_MB = 1_000_000


def cautions(inputs: Inputs) -> Iterator[str]:
    """A sentence for each thing that will go wrong, or may."""
    rate, most = inputs.events_per_s.number, capacity(inputs)
    took = catch_up_s(inputs)
    if took is None:
        each = inputs.join_rate.number
        more = math.floor(rate / each) + 1
        roomy = math.ceil(rate / (_HIGH_LOAD * each))
        yield (
            f"It never catches up: {rate:,.0f} events/s arrive and the join takes {most:,.0f}, so "
            f"the stream falls behind by {rate - most:,.0f} events/s, gate or not. Parallelism "
            f"{more} is the least that catches up at all, {roomy} keeps the load at or below "
            f"{_HIGH_LOAD:.0%}."
        )
    elif rate / most > _HIGH_LOAD:
        yield (
            f"The load is {rate / most:.0%} of the capacity: each second of hold costs "
            f"{rate / (most - rate):.0f} s of catch-up, and a peak of {most / rate - 1:.0%} more "
            "events has none."
        )
    if took is not None and took > inputs.within.number:
        yield (
            f"The catch-up takes longer than {inputs.within.number:,.0f} s: "
            f"parallelism {subtasks_needed(inputs)} would do, or fewer events, or a shorter hold."
        )
    yield from _retention(inputs, took)
    yield from _unlike_rows(inputs)
    yield from _heap(inputs)
    if not inputs.paused:
        yield (
            "gate.pause_stream is false: all waiting events go through the state, and the load is "
            "slower for it (docs/decisions/0009-stream-is-paused.md)."
        )
    elif inputs.restart:
        yield (
            "After a failover (no new submission) the pause of the stream does little, and up to "
            "all of the waiting events stand in state (docs/decisions/0009-stream-is-paused.md)."
        )


def _retention(inputs: Inputs, took: float | None) -> Iterator[str]:
    kept = inputs.retention
    if kept is None:
        return
    oldest = hold_s(inputs) + (took or 0)
    if oldest > kept.number:
        yield (
            f"Events are lost: the stream topic keeps them for {kept.number:,.0f} s and they wait "
            f"for up to {oldest:,.0f} s. Raise its retention.ms first."
        )


def _heap(inputs: Inputs) -> Iterator[str]:
    # What a restart reads says nothing of the rows that are there already.
    if not inputs.broadcast or inputs.restart or inputs.row_bytes is None:
        return
    table = inputs.rows.number * heap_bytes(0, inputs.row_bytes.number)
    yield (
        f"Each subtask keeps the whole table on the heap: about {table / _MB:,.0f} MB while a "
        "checkpoint is made. A TaskManager with one needs a heap of "
        f"{table / HEAP_SHARE / _MB:,.0f} MB at least (taskmanager.memory.task.heap.size), or the "
        "job fails with TableTooLargeError."
    )


def _unlike_rows(inputs: Inputs) -> Iterator[str]:
    own, other = inputs.row_bytes, inputs.measured_row_bytes
    if own is None or other is None:
        return
    ratio = own.number / other.number
    if not 1 / _UNLIKE <= ratio <= _UNLIKE:
        yield (
            f"Rows have {own.number:,.0f} bytes, those of the load rate ({other.source}) had "
            f"{other.number:,.0f}: measure with yours, `python -m bench.load --row-bytes "
            f"{own.number:.0f}`."
        )
