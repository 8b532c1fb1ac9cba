"""How far each partition has been read, what is left, and for how long. Positions are offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from udfs.core.gate import Target

UNFINISHED = "unfinished transaction"
"""Why a partition is short whose last rows nobody can read yet."""


@dataclass(frozen=True, slots=True)
class Partition:
    """How far one partition has been read; None means not known."""

    number: int
    position: int | None
    """The next offset to read."""
    goal: int | None = None
    """The position at which everything has been read that can be read now."""
    left: int | None = None
    """Offsets from the position to the goal, holes in the log included."""
    size: int = 0
    """Offsets from the begin of the log to the goal."""
    eta_s: float | None = None
    """Seconds until it has been read."""
    why: str = ""
    """Why it is short."""
    waiting: bool = False
    """Whether the shut gate waits for its transaction, however little is left as far as known."""

    @property
    def short(self) -> bool:
        """Whether the gate has reason to wait for it."""
        return bool(self.left) or self.waiting

    @property
    def percent(self) -> float | None:
        """How much of it has been read, 0 to 100."""
        if self.left is None:
            return None
        return 100.0 * max(0, self.size - self.left) / self.size if self.left else 100.0


def of_table(
    read: Mapping[int, int], targets: Mapping[int, Target], *, restored: bool, done: bool
) -> tuple[Partition, ...]:
    """The table topic's partitions, by number.

    Args:
        read: the last offset read in this attempt, by partition; -1 for none.
        targets: what the brokers hold now; empty when nobody asked them.
        restored: whether the job started from state: then "none in this attempt" says nothing about
            where it stands.
        done: whether the gate is open: then a partition without a record in this attempt is read.
    """
    return tuple(
        _of_table(number, read.get(number, -1), targets.get(number), restored, done)
        for number in sorted(set(read) | set(targets))
    )


def _of_table(
    number: int, read: int, target: Target | None, restored: bool, done: bool
) -> Partition:
    position = read + 1 if read >= 0 else None
    if target is None:
        return Partition(number, position)
    if position is None and not restored:
        position = target.begin
    goal = _goal(target)
    left = None
    if position is not None:
        left = max(0, goal - max(position, target.begin))
    elif done or not target.size:
        left = 0
    return Partition(
        number,
        position,
        goal,
        left,
        target.size,
        why=_why(target, position, left),
        waiting=target.waiting and not done,
    )


def _goal(target: Target) -> int:
    return target.begin if target.goal is None else target.goal + 1


def _why(target: Target, position: int | None, left: int | None) -> str:
    if position is not None and position > target.end:
        return f"the log ends at {target.end}, and {position} offsets of it have been read"
    if target.waiting:
        return UNFINISHED
    return "rows left" if left else ""


def of_stream(
    read: Mapping[int, int],
    start: Mapping[int, int],
    targets: Mapping[int, Target],
    *,
    from_end: bool = False,
) -> tuple[Partition, ...]:
    """The stream topic's partitions, by number; see `of_table`.

    Args:
        read: the last offset read in this attempt, by partition; -1 for none.
        start: the offsets at which it goes on, which stand in where nothing was read.
        targets: what the brokers hold now.
        from_end: whether a partition of which nothing is known was begun at its end, so that there
            is nothing to read until a record comes.
    """
    found = []
    for number in sorted(set(read) | set(targets)):
        last = read.get(number, -1)
        position = last + 1 if last >= 0 else start.get(number)
        target = targets.get(number)
        if target is None:
            found.append(Partition(number, position))
            continue
        goal = _goal(target)
        left = None
        if position is not None:
            left = max(0, goal - max(position, target.begin))
        elif not target.size or (from_end and number in read):
            left = 0
        found.append(Partition(number, position, goal, left, target.size))
    return tuple(found)


def lag(stream: Sequence[Partition]) -> int | None:
    """Records that were not read yet; None when a position is not known."""
    if any(partition.left is None for partition in stream):
        return None
    return total_left(stream)


def total_left(found: Sequence[Partition]) -> int:
    """Offsets that are left, as far as known."""
    return sum(partition.left or 0 for partition in found)


def percent(table: Sequence[Partition]) -> float | None:
    """How much of a table has been read whose gate is shut, 0 to 99.9; None: not known.

    By offsets: the mean over the partitions would call a table half read whose long one is not.
    """
    known = [partition for partition in table if partition.left is not None]
    if not known:
        return None
    size = sum(partition.size for partition in known)
    # Not 100 before the gate says so.
    return min(99.9, 100.0 * max(0, size - total_left(known)) / size) if size else 99.9


def with_eta(table: tuple[Partition, ...], rate: float | None) -> tuple[Partition, ...]:
    """Each partition with its time left, given the offsets a second that all get together.

    One source reads them side by side, so that those which are short share its rate: the shortest
    is done first, and then the others are read faster.
    """
    if not rate:
        return table
    short = sorted((p for p in table if p.left), key=lambda p: p.left or 0)
    eta: dict[int, float] = {}
    passed, done = 0.0, 0
    for position, partition in enumerate(short):
        left = partition.left or 0
        passed += (left - done) * (len(short) - position) / rate
        done = left
        eta[partition.number] = passed
    return tuple(replace(p, eta_s=eta.get(p.number)) for p in table)
