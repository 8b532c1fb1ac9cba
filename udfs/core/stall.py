"""Why a partition of the table is short: facts of this moment in, one sentence for a person out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from udfs.core.gate import Target


class OnStall(StrEnum):
    """What to do when the gate cannot open."""

    WAIT = "wait"
    FAIL = "fail"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class PartitionNow:
    """What the brokers say of a partition now; None where they did not answer.

    ``stable_end`` is where the first unfinished transaction begins, or else the log end.
    """

    end: int | None
    stable_end: int | None
    leaderless: bool = False


def moved_back(target: Target, reached: int, end: int) -> bool:
    """Whether the log was cut since the look, or below what has been read: it never gets there."""
    return end < target.end or end <= reached


def why_short(target: Target, reached: int, now: PartitionNow) -> str:
    """The reason why a partition does not get to its target, as far as it can be known.

    ``reached`` is the offset up to which it was read, -1 for none.
    """
    if now.leaderless:
        return "it has no leader: no broker can serve it"
    if now.end is None:
        return "its leader does not answer"
    if moved_back(target, reached, now.end):
        return f"its log end moved back to {now.end}: the topic was truncated or recreated"
    if now.stable_end is not None and now.stable_end < target.end:
        return (
            f"a transaction that began at or before offset {now.stable_end} is unfinished: find "
            "it with kafka-transactions.sh find-hanging, and finish or abort it"
        )
    return (
        "the records are there, and the table's source does not deliver them: look at back "
        "pressure and at the TaskManager's log"
    )


def short_partition(
    topic: str, partition: int, target: Target, reached: int, now: PartitionNow
) -> str:
    """One line: the partition, how far it is, how much is left, and why."""
    goal = -1 if target.goal is None else target.goal
    left = goal - max(reached, target.begin - 1)
    at = f"read up to offset {reached}" if reached >= 0 else "nothing read"
    # A waiting target may already be reached as far as anything can be read.
    return f"{topic}[{partition}] is {left} offsets short of {goal} ({at}): " + why_short(
        target, reached, now
    )
