"""What a job's numbers mean: its phase, how far the table is, and whether it is ready.

Values in, values out. `ops.status.reader` asks for the numbers, `ops.status.screen` shows them.

Alive and ready are two things. A job that loads its table for an hour is alive all that time, and
whoever restarts it for not being ready makes it begin again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from ops.status import partitions
from ops.status.partitions import Partition
from udfs.core.gate import CLOSED_MS, OPENED_SHORT_MS, Target
from udfs.core.hitrate import Tally

MAX_LAG = 10_000
"""Default budget for the stream's lag, in records: less than a second of what one subtask joins
(18,000 to 36,000 records a second, measured), so that under it the job keeps up."""

BEHIND_MS = OPENED_SHORT_MS + 1
"""In the place of a watermark: the table is stale, and until when it is complete is not known."""

# So many events without a single hit are no chance.
_SUSPICIOUS_MISSES = 100


class Phase(StrEnum):
    """Where a job stands, from absent to ready."""

    ABSENT = "absent"
    STARTING = "starting"
    RESTARTING = "restarting"
    LOADING = "loading"
    STALLED = "stalled"
    # Opened by policy although the table is short.
    SHORT = "short"
    # The table fell behind after it had been complete.
    STALE = "stale"
    CATCHING_UP = "catching up"
    READY = "ready"
    STOPPED = "stopped"
    FAILED = "failed"


DEAD = frozenset({Phase.ABSENT, Phase.STOPPED, Phase.FAILED})
"""Phases from which nothing follows unless somebody acts."""


class Exit(IntEnum):
    """Exit codes of `tablegate status`."""

    READY = 0
    # We failed, or were asked wrongly.
    ERROR = 1
    NOT_READY = 3
    DEAD = 4
    # The JobManager does not answer: nothing is known about the job.
    UNKNOWN = 5


@dataclass(frozen=True, slots=True)
class Reading:
    """The numbers of one moment. Times in milliseconds since the epoch; None means not known."""

    at_ms: int
    job_id: str = ""
    name: str = ""
    state: str = ""
    """Flink's word for the job's state; "" when there is no such job."""
    tasks_running: bool = False
    restarts: int = 0
    restored: bool = False
    attempt_ms: int = 0
    """How long the youngest task has been running, in milliseconds."""
    refresh_ms: int = 10_000
    """How old Flink's metrics may be, in milliseconds."""
    watermark_ms: int | None = None
    """The table side's watermark: complete until then, or the gate's word for shut or
    opened although short."""
    table_topic: str = ""
    stream_topic: str = ""
    table_offsets: Mapping[int, int] = field(default_factory=dict)
    """The last offset that the table's source has read, by partition; -1: none in this attempt."""
    stream_offsets: Mapping[int, int] = field(default_factory=dict)
    stream_from: Mapping[int, int] = field(default_factory=dict)
    """Where the stream goes on that was not read in this attempt, by partition: the offsets of the
    savepoint that it started from, else those of the consumer group."""
    table_rate: float | None = None
    """Records a second that the table's source delivers, over the last minute."""
    stream_from_end: bool = False
    """Whether a partition without a record in this attempt was begun at its end."""
    pending: int | None = None
    """Records that Flink's stream source says are waiting; it says so once it has read one."""
    stream_silent: bool = False
    """Whether each subtask of the stream's source has asked for records, and none has come."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """The join's own, which begin at 0 with each attempt."""
    decided: Mapping[str, int] = field(default_factory=dict)
    """Events by verdict since the state began, and the rest of ``udfs.core.hitrate.COUNTED``."""
    last_rate_bp: int | None = None
    """The hit rate of the newest finished window that has one, in basis points."""
    table_goals: Mapping[int, Target] = field(default_factory=dict)
    stream_goals: Mapping[int, Target] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    failure: str = ""
    """The stack trace of what the job failed of, or is being restarted for."""


@dataclass(frozen=True, slots=True)
class Status:
    """A reading, judged."""

    phase: Phase
    reading: Reading
    table: tuple[Partition, ...]
    stream: tuple[Partition, ...]
    percent: float | None
    eta_s: float | None
    lag: int | None
    held: int | None
    held_bytes: int | None
    parked: int | None
    """Events of this attempt that wait for their row."""
    hit_rate: float | None
    complete_until_ms: int | None

    @property
    def ready(self) -> bool:
        """Whether the gate is open and the stream's lag is under its budget."""
        return self.phase is Phase.READY

    @property
    def alive(self) -> bool:
        """Whether the job runs or is on its way there by itself."""
        return self.phase not in DEAD

    @property
    def notes(self) -> tuple[str, ...]:
        """What else a person should know."""
        tally = Tally(self.reading.decided)
        # A bad hour has some hits; with keys that are written in two ways there are none.
        if tally.hits or tally.misses < _SUSPICIOUS_MISSES:
            return self.reading.notes
        hint = (
            f"of {tally.misses:,} events none has met a row: do stream.key and table.key name the "
            "same thing, written alike?"
        )
        return (*self.reading.notes, hint)

    @property
    def slowest(self) -> Partition | None:
        """The partition of the table with most left to read, None when none is short."""
        short = [p for p in self.table if p.short]
        return max(short, key=lambda p: (p.left or 0, p.waiting), default=None)

    @property
    def exit_code(self) -> Exit:
        """For a readiness probe."""
        if self.ready:
            return Exit.READY
        return Exit.NOT_READY if self.alive else Exit.DEAD


@dataclass(frozen=True, slots=True)
class Progress:
    """What was seen of a load before: when something last moved, and since when it is watched."""

    first_ms: int
    first_left: int
    left: int
    moved_ms: int

    def rate(self, now_ms: int) -> float | None:
        """Offsets a second since the first look; None while too little has been seen."""
        if now_ms - self.first_ms < 2_000 or self.left >= self.first_left:  # noqa: PLR2004
            return None
        return (self.first_left - self.left) * 1_000 / (now_ms - self.first_ms)


def watched(before: Progress | None, left: int, now_ms: int) -> Progress:
    """``before``, and what a further look saw: ``left`` offsets of the table at ``now_ms``."""
    if before is None or left > before.left:
        # New rows, or another attempt: what was measured is of another way.
        moved = now_ms if before is None else before.moved_ms
        return Progress(now_ms, left, left, moved)
    moved = now_ms if left < before.left else before.moved_ms
    return Progress(before.first_ms, before.first_left, left, moved)


# ------------------------------------------------------------------------------------- judging


def judge(
    reading: Reading,
    *,
    max_lag: int = MAX_LAG,
    max_table_lag_ms: int = 60_000,
    stall_after_ms: int = 60_000,
    progress: Progress | None = None,
) -> Status:
    """The reading, judged.

    Args:
        reading: the numbers.
        max_lag: budget of the stream's lag, in records.
        max_table_lag_ms: how far the table may be behind before it counts as stale.
        stall_after_ms: how long a load may stand still before it counts as stalled.
        progress: what was seen of the load before, where somebody watched it.
    """
    is_open = (reading.watermark_ms or CLOSED_MS) > OPENED_SHORT_MS
    table = partitions.of_table(
        reading.table_offsets, reading.table_goals, restored=reading.restored, done=is_open
    )
    rate = progress.rate(reading.at_ms) if progress else None
    table = partitions.with_eta(table, rate or reading.table_rate)
    stream = partitions.of_stream(
        reading.stream_offsets,
        reading.stream_from,
        reading.stream_goals,
        from_end=reading.stream_from_end,
    )
    lag = partitions.lag(stream) if reading.stream_goals else None
    if lag is None:
        lag = _lag_without_brokers(reading)
    held = _difference(reading.counters, "held_events", "released_events")
    phase = _phase(
        reading,
        # What was read and is held waits as well as what was not read.
        lag=None if lag is None else lag + (held or 0),
        max_lag=max_lag,
        max_table_lag_ms=max_table_lag_ms,
        stalled=_stalled(reading, table, progress, stall_after_ms),
    )
    tally = Tally(reading.decided)
    joined = tally.hits + tally.misses
    return Status(
        phase=phase,
        reading=reading,
        table=table,
        stream=stream,
        percent=100.0 if is_open else partitions.percent(table),
        eta_s=max((p.eta_s for p in table if p.eta_s is not None), default=None),
        lag=lag,
        held=held,
        held_bytes=_difference(reading.counters, "held_bytes", "released_bytes"),
        parked=_difference(reading.counters, "parked_events", "unparked_events"),
        hit_rate=tally.hits / joined if joined else None,
        complete_until_ms=(
            reading.watermark_ms if is_open and reading.watermark_ms != BEHIND_MS else None
        ),
    )


# So long a stream's source that asks for records gets some, if there are any.
_SILENT_MS = 60_000
_STARTING = frozenset({"INITIALIZING", "CREATED", "RECONCILING"})
# Suspended: the JobManager lost its leadership and another one takes the job over.
_RESTARTING = frozenset({"RESTARTING", "FAILING", "SUSPENDED"})


_ENDED = {
    "": Phase.ABSENT,
    "FAILED": Phase.FAILED,
    "FINISHED": Phase.STOPPED,
    "CANCELED": Phase.STOPPED,
    "CANCELLING": Phase.STOPPED,
}


def _phase(
    reading: Reading, *, lag: int | None, max_lag: int, max_table_lag_ms: int, stalled: bool
) -> Phase:
    state = reading.state
    if state in _ENDED:
        return _ENDED[state]
    watermark = reading.watermark_ms
    if (
        state in _STARTING
        or state in _RESTARTING
        or not reading.tasks_running
        or watermark is None
        or _may_be_of_the_attempt_before(reading)
    ):
        again = reading.restarts or state in _RESTARTING
        return Phase.RESTARTING if again else Phase.STARTING
    if watermark <= CLOSED_MS:
        return Phase.STALLED if stalled else Phase.LOADING
    if watermark <= OPENED_SHORT_MS:
        return Phase.SHORT
    if reading.at_ms - watermark > max_table_lag_ms:
        return Phase.STALE
    # Not known is not under budget.
    return Phase.READY if lag is not None and lag <= max_lag else Phase.CATCHING_UP


def _may_be_of_the_attempt_before(reading: Reading) -> bool:
    # Flink goes on reporting a task's numbers until newer ones come.
    return bool(reading.restarts) and reading.attempt_ms < 2 * reading.refresh_ms


def _stalled(
    reading: Reading,
    table: tuple[Partition, ...],
    progress: Progress | None,
    stall_after_ms: int,
) -> bool:
    if progress is not None:
        return reading.at_ms - progress.moved_ms >= stall_after_ms
    # One look only: Flink's own rate is over a minute, so zero says that none of it brought a row.
    short = any(partition.short for partition in table)
    return short and reading.table_rate == 0 and reading.attempt_ms >= stall_after_ms


def _lag_without_brokers(reading: Reading) -> int | None:
    if reading.pending is None and reading.stream_silent and reading.attempt_ms >= _SILENT_MS:
        return 0
    return reading.pending


def _difference(counters: Mapping[str, int], more: str, less: str) -> int | None:
    if more not in counters or less not in counters:
        return None
    # Released may count events that an earlier attempt had held.
    return max(0, counters[more] - counters[less])
