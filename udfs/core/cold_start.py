"""The gate of a session's query: a start from nothing, and no other.

A function in a table's DDL is told the place of every record and nothing else: it has no state and
no ticks. So it can only vouch for an attempt that reads the topic from its first readable record
on, and that has something to read in it. Whoever begins further on has skipped rows, or goes on
where another attempt stopped; both look alike from here, and both are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from udfs.core.errors import TargetError
from udfs.core.gate import Target


class ColdStart:
    """Targets against records, partition by partition; opens once and stays open.

    ``targets`` are those of the attempt's begin, none of them waiting. ``first`` holds the offset
    of the first readable record of each partition that has one.

    Raises TargetError when there is nothing to read: no record would ever open it.
    """

    def __init__(self, topic: str, targets: Mapping[int, Target], first: Mapping[int, int]) -> None:
        self._topic = topic
        self._left = {p: goal for p, target in targets.items() if (goal := target.goal) is not None}
        # Partitions whose first record has not come yet.
        self._first = {p: first[p] for p in self._left if p in first}
        if not self._left:
            raise TargetError(
                f"Topic {topic} holds nothing that can be read. A gate in a table's DDL is called "
                "with its records only, so it would never open, and nothing would say so.",
                "Write a row and start again, or use jobs/enrich_sql.py, whose gate has ticks.",
            )

    @property
    def is_open(self) -> bool:
        """Whether every target has been reached. Never goes back to False."""
        return not self._left

    def take(self, partition: int, offset: int) -> bool:
        """Take note of a record that was read; whether the gate is open behind it.

        Records of one partition come in the order of their offsets. Raises TargetError when the
        partition was not read from its beginning.
        """
        first = self._first.pop(partition, None)
        if first is not None and offset > first:
            raise TargetError(
                f"The first record that was read is {self._topic}[{partition}]@{offset}, but the "
                f"topic can be read from offset {first} on. The query goes on from a checkpoint or "
                "savepoint, or its table begins elsewhere (scan.startup.mode): what came before is "
                "unknown to a gate in DDL.",
                "Start without a savepoint, leave checkpoints off and scan.startup.mode at "
                "earliest-offset; or use jobs/enrich_sql.py, whose gate knows what was read.",
            )
        goal = self._left.get(partition)
        if goal is not None and offset >= goal:
            del self._left[partition]
        return not self._left
