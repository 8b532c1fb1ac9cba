"""What the join is told by the settings, as plain values that travel to the workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from udfs.core.events import EventReader
from udfs.core.hold import Consistency
from udfs.core.merge import Merge
from udfs.core.misses import MissPolicy
from udfs.core.retry import RetryPlan
from udfs.core.rows import RowReader


class Lookup(StrEnum):
    """Where the join looks rows up."""

    KEYED = "keyed"
    """In keyed state: each subtask has the rows of its own keys, see ``udfs.join``."""
    BROADCAST = "broadcast"
    """On the JVM's heap: each subtask has all rows, see ``udfs.broadcast``."""


@dataclass(frozen=True)
class JoinRules:
    """What the join function is told by the settings."""

    stream_topic: str
    table_topic: str
    events: EventReader
    rows: RowReader
    merge: Merge
    consistency: Consistency = Consistency.STARTUP
    max_table_lag_ms: int = 60_000
    """How old the time of the table's completeness may be before a miss is STALE_TABLE."""
    max_enriched_bytes: int | None = None
    """The largest key, value and headers that the enriched topics take; None: not known."""
    hold_slack_events: int | None = None
    """Events that a subtask holds at full speed, see udfs.brake; None: no limit."""
    retry_topic: str = ""
    retries: RetryPlan = field(default_factory=RetryPlan)
    on_miss: MissPolicy = field(default_factory=MissPolicy)
    verdict_field: str = "tablegate_verdict"
    """The field of an event that goes out without its row which says why."""
    lookup: Lookup = Lookup.KEYED
    cached_rows: int = 100_000
    """Rows of which a subtask remembers what they add to an event, the ones used last."""
    miss_grace_ms: int = 0
    """How long a miss waits for its row before it is told, see udfs.grace; 0: not at all."""
