"""The gate: a small state machine without I/O that says up to when the table is complete.

Theory of operation
===================

A **look** at the table topic names, for each partition, a **target**: the offset of the last record
below the log end of that moment that this consumer can read. The log end itself is no target, since
it counts transaction markers, aborted rows and compacted holes, which are never delivered. A
partition with nothing to read has no target.

The gate is told how far each partition has been **reached** (a running maximum, kept in Flink
state, so that a restored job is told at once where it stands). When every partition has reached its
target of a look, all rows that were written before that look have been applied: the table is
**complete until** the time of that look.

Every attempt of the job begins with a look of its own. The gate is shut until the table is complete
until that one, and **open** for the rest of the attempt; later looks move the time on.

::

    WAITING ──(transaction ends, or somebody reads the tail)──> SHORT ──(reached >= target)──> MET
       │ (target unknown, end - 1 stands in)                                                    ▲
       └──────────────────────────(reached >= end - 1)──────────────────────────────────────────┘

    reached only grows; a log end at or below it is an error

A target is WAITING at the start under ``read_committed`` while a transaction is unfinished: nobody
can know whether its rows will be part of the table. The targets of later looks begin as WAITING, as
most are reached before anybody needs to read the log's tail.

Nothing here knows a timeout: no silence, no idleness and no first record opens the gate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

CLOSED_MS = -1
"""Watermark of the table's side while the gate is shut: below every event."""

OPENED_SHORT_MS = 1
"""Watermark of a gate that was opened by ``on_stall = "open"`` although the table is short: at the
events of the startup mode, and below every time of completeness. Not 0, which Flink's watermark
assigner takes for sent (source: ``WatermarkAssignerOperator.open`` of Flink 2.3.0)."""

FAR_FUTURE_MS = 253_402_200_000_000
"""Within the last day of the year 9999 (UTC), the largest year that Flink SQL's timestamp functions
take: the watermark of a source that shall never hold anything back."""

# Looks that wait for the table. With a table that is always written there are a few, as long as
# rows take to come through; more would not say more.
_MAX_LOOKS = 8


class StartKind(StrEnum):
    """What an attempt found in its state. Told apart since they take seconds or hours."""

    COLD = "cold start"
    """No progress in the state: the whole table is read."""
    WARM_QUIET = "warm start on a quiet table"
    """Everything has been read before: the gate opens as soon as that is known."""
    WARM_DELTA = "warm start"
    """Only what was written since is read."""


@dataclass(frozen=True, slots=True)
class Target:
    """What one partition has to reach. Offsets are Kafka offsets.

    ``begin`` and ``end`` are the log's first offset and its end (the offset after the last record)
    at the look. ``last`` is the offset of the last readable record in between, None when there is
    none. ``waiting`` says that ``last`` is not known yet; it means nothing then.
    """

    begin: int
    end: int
    last: int | None
    waiting: bool = False

    @property
    def goal(self) -> int | None:
        """The offset that progress is measured against, None when there is nothing to read.

        While the answer is waited for, the last offset below the log end stands in.
        """
        return self.end - 1 if self.waiting else self.last

    @property
    def size(self) -> int:
        """The length of the load: offsets from the begin of the log to the target, both counted."""
        return 0 if self.goal is None else self.goal - self.begin + 1

    def met_by(self, reached: int) -> bool:
        """Whether progress up to offset ``reached`` (-1: none) is enough.

        A waiting target is met at the last offset below the log end: a record from there is only
        delivered when every transaction before it has ended.
        """
        return self.goal is None or reached >= self.goal


@dataclass(slots=True)
class _Look:
    asked_ms: int
    targets: dict[int, Target]
    short: set[int]


class Gate:
    """Targets against progress; see the module's text for the rules."""

    def __init__(
        self, targets: Mapping[int, Target], announced: Collection[int] = (), asked_ms: int = 0
    ) -> None:
        """``targets`` are those of the first look, at ``asked_ms`` (epoch milliseconds).

        ``announced`` are the partitions whose progress will be told at least once. The gate stays
        shut until it has been: a restored job's progress may contradict the log, and that has to
        come out before an event is joined.
        """
        self._unheard = set(targets) & set(announced)
        self._reached: dict[int, int] = {}
        self._first_heard: dict[int, int] = {}
        self._complete_until_ms = CLOSED_MS
        self._first = dict(targets)
        self._looks: deque[_Look] = deque()
        self._newest = _Look(asked_ms, self._first, set())
        self._add(asked_ms, self._first)

    @property
    def is_open(self) -> bool:
        """Whether the first look's targets were reached. Never goes back to False."""
        return self._complete_until_ms > CLOSED_MS

    @property
    def complete_until_ms(self) -> int:
        """All rows written before this time have been applied; CLOSED_MS while the gate is shut."""
        return self._complete_until_ms

    @property
    def heard_all(self) -> bool:
        """Whether every announced partition has told its progress."""
        return not self._unheard

    @property
    def wants_look(self) -> bool:
        """Whether another look can say more: the gate is open, and few looks are waited for."""
        return self.is_open and len(self._looks) < _MAX_LOOKS

    @property
    def waiting(self) -> dict[int, Target]:
        """Targets of the oldest look that is not met which nobody knows yet, by partition."""
        if not self._looks:
            return {}
        look = self._looks[0]
        return {p: look.targets[p] for p in sorted(look.short) if look.targets[p].waiting}

    def reach(self, partition: int, offset: int | None) -> None:
        """Take note that all records of ``partition`` up to ``offset`` have been applied.

        None says that none has been, in this attempt or before.
        """
        self._unheard.discard(partition)
        self._first_heard.setdefault(partition, -1 if offset is None else offset)
        if offset is not None and offset > self._reached.get(partition, -1):
            self._reached[partition] = offset
            for look in self._looks:
                if partition in look.short and look.targets[partition].met_by(offset):
                    look.short.discard(partition)
        self._settle()

    def answer(self, found: Mapping[int, Target]) -> None:
        """Replace waiting targets by those that are known now, in every look with the same end."""
        for look in self._looks:
            for partition, target in found.items():
                known = look.targets.get(partition)
                if known is None or not known.waiting or known.end != target.end:
                    continue
                look.targets[partition] = target
                if target.met_by(self.reached(partition)):
                    look.short.discard(partition)
        self._settle()

    def look(self, asked_ms: int, ends: Mapping[int, int]) -> None:
        """Take note of a later look: the log ends that were asked for after ``asked_ms``.

        A partition that ``ends`` does not name is taken as it was.
        """
        before = self._newest.targets
        targets = dict(before)
        for partition, end in ends.items():
            known = before.get(partition)
            if known is None:
                targets[partition] = Target(0, end, None, waiting=end > 0)
            elif end != known.end:
                targets[partition] = replace(known, end=end, last=None, waiting=True)
        self._add(asked_ms, targets)

    def reached(self, partition: int) -> int:
        """The offset up to which a partition is known to be applied, -1 when nothing is known."""
        return self._reached.get(partition, -1)

    def target(self, partition: int) -> Target:
        """The target of a partition that ``missing`` lists."""
        return self._looks[0].targets[partition]

    def overtaken(self, partition: int) -> bool:
        """Whether progress is at or past the log end of the start.

        Usual when rows are written while the table loads. It is also how a topic looks whose log
        end moved back below a restored job's progress; only a fresh look at the log can tell.
        """
        target = self._first.get(partition)
        return target is not None and self.reached(partition) >= target.end

    def missing(self) -> dict[int, int]:
        """How many offsets the partitions are short of the oldest look that is not met.

        While the gate is shut that is the look of the start. A partition whose answer is waited for
        is listed even when no more than one offset is left.
        """
        if not self._looks:
            return {}
        look = self._looks[0]
        left = {}
        for partition in sorted(look.short):
            target = look.targets[partition]
            if target.goal is not None:
                left[partition] = target.goal - max(self.reached(partition), target.begin - 1)
        return left

    def started(self, warm: Collection[int]) -> tuple[StartKind, int]:
        """What kind of start this is, and how many offsets it has to read until the gate opens.

        ``warm`` are the partitions for which the state held something. Only to be asked once all
        announced partitions were heard.
        """
        left = 0
        for partition, target in self._first.items():
            first = self._first_heard.get(partition, -1)
            if not target.met_by(first) and target.goal is not None:
                left += target.goal - max(first, target.begin - 1)
        if not any(p in warm for p in self._first):
            return StartKind.COLD, left
        return (StartKind.WARM_DELTA if left else StartKind.WARM_QUIET), left

    def loaded_basis_points(self) -> int:
        """How much of the load is done, 0 to 10,000; 10,000 only when the gate is open.

        Counted in offsets, holes included.
        """
        if self.is_open:
            return 10_000
        total = sum(target.size for target in self._first.values())
        left = sum(max(0, n) for n in self.missing().values())
        return min(9_999, (total - left) * 10_000 // total) if total else 0

    def _add(self, asked_ms: int, targets: dict[int, Target]) -> None:
        short = {p for p, target in targets.items() if not target.met_by(self.reached(p))}
        self._newest = _Look(asked_ms, targets, short)
        self._looks.append(self._newest)
        self._settle()

    def _settle(self) -> None:
        if self._unheard:
            return
        # A later look that is met includes the earlier ones.
        met = [n for n, look in enumerate(self._looks) if not look.short]
        if met:
            self._complete_until_ms = max(self._complete_until_ms, self._looks[met[-1]].asked_ms)
            for _ in range(met[-1] + 1):
                self._looks.popleft()
