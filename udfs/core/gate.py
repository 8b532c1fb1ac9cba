"""The gate: a small state machine without I/O that says when the table is loaded.

Theory of operation
===================

Every attempt of the job names, for each partition of the table topic, a **target**: the offset of
the last record below the log end of that moment that this consumer can read. The log end itself is
no target, since it counts transaction markers, aborted rows and compacted holes, which are never
delivered. A partition with nothing to read has no target.

The gate is told how far each partition has been **reached** (a running maximum, kept in Flink
state, so that a restored job is told at once where it stands). It is **open** when every partition
has reached its target, and stays open for the rest of the attempt.

::

    WAITING ──(a transaction ends)──> SHORT ──(reached >= target)──> LOADED
    (log end known, target not yet)     │
                                        └── reached can only grow; a log end below it is an error

WAITING exists under ``read_committed`` only: while a transaction is unfinished, nobody can know
whether its rows will be part of the table, so the log end stands in for the target.

Nothing here knows time: no timeout, no idleness and no first record opens the gate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

CLOSED_MS = -1
"""Watermark of the table's side while the table loads: below every event, which stand at 0."""

LOADED_MS = 253_402_200_000_000
"""Watermark of the table's side once it is loaded: within the last day of the year 9999 (UTC), the
largest year that Flink SQL's timestamp functions take."""


@dataclass(frozen=True, slots=True)
class Target:
    """What one partition has to reach. Offsets are Kafka offsets.

    ``begin`` and ``end`` are the log's first offset and its end (the offset after the last record)
    when the attempt started. ``last`` is the offset of the last readable record in between, None
    when there is none. ``waiting`` says that an unfinished transaction hides the answer; ``last``
    means nothing then.
    """

    begin: int
    end: int
    last: int | None
    waiting: bool = False

    @property
    def goal(self) -> int | None:
        """The offset that progress is measured against, None when there is nothing to read.

        While a transaction is waited for, the last offset below the log end stands in.
        """
        return self.end - 1 if self.waiting else self.last

    @property
    def size(self) -> int:
        """The length of the load: offsets from the begin of the log to the target, both counted."""
        return 0 if self.goal is None else self.goal - self.begin + 1


class Gate:
    """Targets against progress; see the module's text for the rules."""

    def __init__(self, targets: Mapping[int, Target], announced: Collection[int] = ()) -> None:
        """``announced`` are the partitions whose progress will be told at least once.

        The gate stays shut until it has been: a restored job's progress may contradict the log, and
        that has to come out before an event is joined.
        """
        self._targets = dict(targets)
        self._unheard = set(targets) & set(announced)
        self._reached: dict[int, int] = {}
        self._short = {p for p, t in self._targets.items() if t.waiting or t.last is not None}

    @property
    def is_open(self) -> bool:
        """Whether every partition has reached its target. Never goes back to False."""
        return not self._short and not self._unheard

    @property
    def waiting(self) -> tuple[int, ...]:
        """Partitions whose target is unknown until an unfinished transaction ends."""
        return tuple(sorted(p for p in self._short if self._targets[p].waiting))

    def reach(self, partition: int, offset: int | None) -> None:
        """Take note that all records of ``partition`` up to ``offset`` have been applied.

        None says that none has been, in this attempt or before.
        """
        self._unheard.discard(partition)
        if offset is not None and offset > self._reached.get(partition, -1):
            self._reached[partition] = offset
            self._settle(partition)

    def resolve(self, partition: int, target: Target) -> None:
        """Replace a waiting target by the one that is known now that its transactions ended."""
        if not self._targets[partition].waiting:
            raise ValueError(f"partition {partition} has its target already")
        self._targets[partition] = target
        self._settle(partition)

    def reached(self, partition: int) -> int:
        """The offset up to which a partition is known to be applied, -1 when nothing is known."""
        return self._reached.get(partition, -1)

    def overtaken(self, partition: int) -> bool:
        """Whether progress is at or past the log end of this start.

        Usual when rows are written while the table loads. It is also how a topic looks whose log
        end moved back below a restored job's progress; only a fresh look at the log can tell.
        """
        target = self._targets.get(partition)
        return target is not None and self._reached.get(partition, -1) >= target.end

    def missing(self) -> dict[int, int]:
        """For each partition that is short, how many offsets are left to its target or log end."""
        left = {}
        for partition in sorted(self._short):
            target = self._targets[partition]
            if target.goal is not None:
                done = max(self._reached.get(partition, -1), target.begin - 1)
                left[partition] = target.goal - done
        return left

    def loaded_basis_points(self) -> int:
        """How much of the load is done, 0 to 10,000; 10,000 only when the gate is open.

        Counted in offsets, holes included.
        """
        if self.is_open:
            return 10_000
        total = sum(target.size for target in self._targets.values())
        left = sum(max(0, n) for n in self.missing().values())
        return min(9_999, (total - left) * 10_000 // total) if total else 0

    def _settle(self, partition: int) -> None:
        target = self._targets.get(partition)
        if target is None or target.waiting:
            # A partition that was added after this start is no part of its promise.
            return
        if target.last is None or self._reached.get(partition, -1) >= target.last:
            self._short.discard(partition)
