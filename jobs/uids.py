"""Every operator's uid and name, once. APPEND ONLY: a test freezes this file.

A savepoint finds its state by uid. Change or reuse one and the next deploy starts without that
state or is refused; so a uid is never edited, never removed and carries no version number. Names
are what people see in the web UI; they may be improved.

The planner makes several operators of one SQL query. A list here names them in the order in which a
walk from the last one upstream meets them, and ``jobs.wiring.adopt`` gives each its uid by that
walk. Operators that hold state are marked; for the others a uid keeps the graph recognisable.
"""

from __future__ import annotations

from typing import NamedTuple


class Operator(NamedTuple):
    """A uid (identity in savepoints, for ever) and a name (for people)."""

    uid: str
    name: str


# State: the table's rows, the held events, and the timers that release these.
JOIN = Operator("gated-join", "gated join")

# In its place with join.lookup_state = "broadcast": rows are kept in another way, which a savepoint
# of the other would not have. State: as of the join above.
BROADCAST_JOIN = Operator("broadcast-join", "gated join")

STREAM_SIDE = (
    Operator("stream-records", "stream: records for Python"),
    Operator("stream-route", "stream: find join key"),
    # State: offsets of the stream topic.
    Operator("stream-source", "stream: read topic"),
)
"""From the join upstream to the stream's Kafka source."""

TABLE_SIDE = (
    Operator("table-records", "table: records for Python"),
    Operator("table-route", "table: drop ticks"),
    Operator("table-watermark", "table: watermark of the gate"),
    Operator("table-rowtime", "table: row time"),
    Operator("table-from-gate", "table: back into SQL"),
    Operator("table-to-gate", "table: out of SQL"),
    Operator("table-gate", "table: gate"),
    Operator("table-restored", "table: what the state says"),
    # State, for each partition of the table topic: how far it has been read, what the state belongs
    # to, and when it was last kept up to date.
    Operator("table-progress", "table: progress per partition"),
    Operator("table-key", "table: find join key"),
    # State: offsets of the table topic.
    Operator("table-source", "table: read topic"),
    Operator("tick-columns", "ticks: as table records"),
    Operator("tick-partitions", "ticks: one per partition"),
    Operator("tick-zero", "ticks: zero"),
    # State: windows of one second that have not ended.
    Operator("tick-window", "ticks: one each interval"),
    Operator("tick-time", "ticks: time"),
    Operator("tick-source", "ticks: source"),
)
"""From the join upstream to the table's Kafka source and to the ticks."""


NO_STREAM = (
    Operator("no-stream-records", "no stream: records for Python"),
    Operator("no-stream-route", "no stream: nothing passes"),
    Operator("no-stream-watermark", "no stream: watermark of the gate"),
    Operator("no-stream-rowtime", "no stream: row time"),
    Operator("no-stream-from-gate", "no stream: back into SQL"),
)
"""What a run that only loads the table has in place of the stream's side. None holds state."""


RETRY_SIDE = (
    Operator("retry-records", "retry: records for Python"),
    Operator("retry-route", "retry: find join key"),
    # State: offsets of the retry topic.
    Operator("retry-source", "retry: read topic"),
)
"""From the delay upstream to the retry topic's Kafka source."""

# State: the records that wait, and the timers that let them through.
RETRY_DELAY = Operator("retry-delay", "retry: wait until due")


def output(name: str) -> tuple[Operator, ...]:
    """From the sink of an output upstream to the join. Of further outputs: "also-TOPIC"."""
    return (
        # State: unfinished transactions, under exactly-once.
        Operator(f"{name}-sink", f"{name}: write topic"),
        Operator(f"{name}-columns", f"{name}: Kafka columns"),
        Operator(f"{name}-table", f"{name}: from join"),
    )


ENRICHED_OUTPUT, RETRY_OUTPUT, DEAD_OUTPUT = map(output, ("enriched", "retry", "dead"))

SIDE_OUTPUTS = {
    "retry": Operator("retry-side-output", "retry: side output"),
    "dead": Operator("dead-side-output", "dead: side output"),
    "nulls": Operator("nulls-side-output", "without row: side output"),
}
"""The pass-through that PyFlink puts behind each side output."""

# Of everything that leaves the join, the second in which it did and what it counts as.
VERDICT_COUNTS = (
    Operator("verdict-counts", "verdicts: counts for Python"),
    Operator("verdict-rows", "verdicts: counts as rows"),
    # State: counts of the second that has not ended.
    Operator("verdict-seconds", "verdicts: count by second"),
)
"""From the hit rate upstream to the exchange that brings all subtasks together."""

VERDICT_FIELDS = tuple(
    operator
    for output in ("enriched", "retry", "dead", "nulls")
    for operator in (
        Operator(f"verdict-of-{output}", f"{output}: verdict"),
        Operator(f"verdict-from-{output}", f"{output}: from join, to count"),
    )
)
"""From there upstream to the join, for each of its outputs."""

# State: counts since the state began, and the newest windows.
HIT_RATE = Operator("hit-rate", "hit rate")

STATS_OUTPUT = output("stats")
