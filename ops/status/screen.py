"""A status for people and for programs: a page, one line, JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ops.deploy.failures import NOT_RECORDED, explain
from ops.status.model import Phase, Status
from ops.status.partitions import UNFINISHED, Partition
from udfs.core.hitrate import Later, Tally

# As many as fit beside what else stands on a screen; the others are done or faster.
_SHOWN = 12
_BAR = 30
# The largest time that datetime takes; an older gate's watermark lies in the year 9999.
_LAST_MS = 253_402_000_000_000

_MEANS = {
    Phase.ABSENT: "no such job",
    Phase.STARTING: "its tasks are being started",
    Phase.RESTARTING: "its tasks are being started again",
    Phase.LOADING: "the gate is shut, the table loads",
    Phase.STALLED: "the gate is shut, and the table does not come nearer",
    Phase.SHORT: "opened by gate.on_stall although the table is short: misses say NOT_LOADED",
    Phase.STALE: "the gate is open, but the table fell behind: misses say STALE_TABLE",
    Phase.CATCHING_UP: "the gate is open, the stream catches up",
    Phase.READY: "the gate is open and the stream keeps up",
    Phase.STOPPED: "it was stopped or cancelled",
    Phase.FAILED: "it failed",
}


def duration(seconds: float | None) -> str:
    """A time span, rounded to what somebody waiting for it wants to know."""
    if seconds is None:
        return "?"
    if seconds < 60:  # noqa: PLR2004  (a minute)
        return f"{seconds:.0f} s"
    if seconds < 3_600:  # noqa: PLR2004  (an hour)
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"


def moment(ms: int | None) -> str:
    """A time of day with its date, in UTC; "" for one that is not known or means "for ever"."""
    if ms is None or ms > _LAST_MS:
        return ""
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def headline(status: Status) -> str:
    """Name, phase, and what the phase means."""
    reading = status.reading
    who = f"{reading.name} ({reading.job_id})" if reading.job_id else reading.name
    return f"{who}: {status.phase}: {_MEANS[status.phase]}"


def one_line(status: Status) -> str:
    """Everything that changes while somebody waits, on one line."""
    parts = [str(status.phase)]
    if status.phase in {Phase.LOADING, Phase.STALLED, Phase.SHORT} and status.percent is not None:
        parts.append(f"table {status.percent:.1f} %")
        if status.eta_s is not None:
            parts.append(f"{duration(status.eta_s)} left")
        if (slow := status.slowest) is not None:
            parts.append(f"slowest {status.reading.table_topic}[{slow.number}]: {_short(slow)}")
    if status.held:
        parts.append(f"held {status.held:,}")
    if status.lag is not None:
        parts.append(f"stream lag {status.lag:,}")
    if status.hit_rate is not None:
        parts.append(f"hit rate {status.hit_rate:.2%}")
    return ", ".join(parts)


def _short(partition: Partition) -> str:
    if not partition.left and partition.why:
        # Nothing left as far as known is no news; what it waits for is.
        return partition.why
    why = "" if partition.why in {"", "rows left"} else f" ({partition.why})"
    return f"{partition.left or 0:,} left{why}"


def facts(status: Status) -> Iterator[tuple[str, str]]:
    """Name and value of what is known beside the partitions."""
    reading = status.reading
    if status.percent is not None:
        left = f", {duration(status.eta_s)} left" if status.eta_s is not None else ""
        yield "table", f"{reading.table_topic}, {status.percent:.1f} %{left}"
    if until := moment(status.complete_until_ms):
        yield "complete until", until
    if (slow := status.slowest) is not None:
        yield "slowest partition", f"{reading.table_topic}[{slow.number}], {_short(slow)}"
    if status.lag is not None:
        yield "stream lag", f"{status.lag:,} records of {reading.stream_topic}"
    yield from _events(status)
    if reading.restarts:
        yield "restarts", str(reading.restarts)
    for note in status.notes:
        yield "note", note
    if found := cause(status):
        yield "cause", found


def _events(status: Status) -> Iterator[tuple[str, str]]:
    reading = status.reading
    if status.held is not None:
        size = "" if status.held_bytes is None else f", {status.held_bytes:,} bytes"
        yield "held events", f"{status.held:,}{size}"
    if status.parked:
        yield "waiting for rows", f"{status.parked:,} events"
    if status.hit_rate is not None:
        tally, last = Tally(reading.decided), reading.last_rate_bp
        lately = "" if last is None else f", {last / 10_000:.2%} in the last window"
        yield (
            "hit rate",
            f"{status.hit_rate:.2%} ({tally.hits:,} hits, {tally.misses:,} misses){lately}",
        )
    if given_up := reading.decided.get(Later.GIVEN_UP):
        yield "given up", f"{given_up:,} events are dead letters after their last try"


def page(status: Status, *, bars: bool = True) -> RenderableType:
    """All of it, for a terminal; ``bars`` shows one for each partition that is short."""
    listed = Table.grid(padding=(0, 2))
    for name, value in facts(status):
        listed.add_row(name, Text(value))
    parts: list[RenderableType] = [Text(headline(status)), listed]
    if bars and (short := _to_show(status)):
        grid = Table.grid(padding=(0, 2))
        for partition in short:
            percent = partition.percent
            grid.add_row(
                f"{status.reading.table_topic}[{partition.number}]",
                ProgressBar(total=100, completed=percent or 0.0, width=_BAR),
                "    ?" if percent is None else f"{percent:5.1f} %",
                Text(_short(partition)),
                duration(partition.eta_s),
            )
        parts.append(grid)
    return Group(*parts)


def _to_show(status: Status) -> list[Partition]:
    if status.phase not in {Phase.LOADING, Phase.STALLED, Phase.SHORT, Phase.STALE}:
        return []
    # An open gate's table is stale for a transaction, too.
    short = [p for p in status.table if p.short or p.why == UNFINISHED]
    return sorted(short, key=lambda p: -(p.left or 0))[:_SHOWN]


ABSENT_AS_JSON: Mapping[str, Any] = {"phase": "absent", "ready": False, "alive": False}
"""What `as_json` says of a job that is not there, where not even a name is known."""


def unknown_as_json(error: str) -> dict[str, Any]:
    """For programs, where nothing can be said of the job."""
    return {"phase": "unknown", "ready": False, "alive": None, "error": error}


def as_json(status: Status) -> dict[str, Any]:
    """The status for programs. Times in milliseconds since the epoch, spans in seconds."""
    reading = status.reading
    slowest = status.slowest
    return {
        "job": {"id": reading.job_id, "name": reading.name, "state": reading.state},
        "phase": str(status.phase),
        "ready": status.ready,
        "alive": status.alive,
        "complete_until_ms": status.complete_until_ms,
        "restarts": reading.restarts,
        "table": {
            "topic": reading.table_topic,
            "percent": _rounded(status.percent),
            "eta_s": _rounded(status.eta_s),
            "slowest_partition": slowest.number if slowest else None,
            "partitions": [
                {
                    "partition": p.number,
                    "position": p.position,
                    "goal": p.goal,
                    "left": p.left,
                    "percent": _rounded(p.percent),
                    "eta_s": _rounded(p.eta_s),
                    "why": p.why,
                }
                for p in status.table
            ],
        },
        "stream": {
            "topic": reading.stream_topic,
            "lag": status.lag,
            "partitions": [
                {"partition": p.number, "position": p.position, "goal": p.goal, "left": p.left}
                for p in status.stream
            ],
        },
        "join": {
            **reading.counters,
            "held": status.held,
            "held_bytes_now": status.held_bytes,
            "parked": status.parked,
            "hit_rate": None if status.hit_rate is None else round(status.hit_rate, 6),
        },
        "decided": {**reading.decided, "last_rate_bp": reading.last_rate_bp},
        "notes": list(status.notes),
        "cause": cause(status),
        "failure": reading.failure,
    }


def cause(status: Status) -> str:
    """Why the job does not run and what to do about it, in a sentence or two; "" when it runs."""
    if status.reading.failure:
        return explain(status.reading.failure)
    return NOT_RECORDED if status.phase is Phase.FAILED else ""


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
