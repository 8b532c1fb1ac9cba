"""Restarts of the main job: when, how, and what must have come out in the end.

What comes out is told by a model without Flink and without restarts: the rows in the order in which
they were written, and for each order the row of its key. At least once may write an event twice,
and an event that was joined before the restart may be joined again after it; so what is compared is
the set of answers that each event got.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

from tests.support.kafka import Record


class Moment(StrEnum):
    """What the job was doing when it was restarted."""

    LOADING = auto()
    HELD = auto()
    JUST_OPEN = auto()
    STEADY = auto()

    @property
    def shut(self) -> bool:
        """Whether the gate was shut from the start to the restart."""
        return self in {Moment.LOADING, Moment.HELD}


class Kind(StrEnum):
    """How it was restarted."""

    TASK_MANAGERS = auto()
    JOB_MANAGER = auto()
    TASK = auto()
    BROKER = auto()
    SAVEPOINT = auto()
    SAVEPOINT_UP = auto()
    SAVEPOINT_DOWN = auto()
    IN_PLACE_UP = auto()
    IN_PLACE_DOWN = auto()
    ROLLBACK = auto()
    NEW_FIELDS = auto()
    NEW_MERGE = auto()

    @property
    def parallelism(self) -> tuple[int, int]:
        """Of the join, before and after."""
        if self in {Kind.SAVEPOINT_UP, Kind.IN_PLACE_UP}:
            return 1, 2
        return (2, 1) if self in {Kind.SAVEPOINT_DOWN, Kind.IN_PLACE_DOWN} else (1, 1)

    @property
    def new_attempt(self) -> bool:
        """Whether the gate takes new targets: a broker's restart is waited out by the clients."""
        return self is not Kind.BROKER


Row = tuple[str, str | None]
"""Key and name; no name is a tombstone."""
Order = tuple[int, str]
"""Number and the product's key."""

DELETED = "DELETED"
NOT_FOUND = "NOT_FOUND"


@dataclass(frozen=True)
class Scenario:
    """What is written before and after the restart."""

    before: list[Row]
    hidden: list[Row]
    """In a transaction at the table's end: open until the restart is over where the gate must be
    shut, else written in the gap."""
    commits: bool
    gap: list[Row]
    early: list[Order]
    late: list[Order]

    def answers(self, moment: Moment, kind: Kind) -> dict[int, set[str]]:
        """For each order the answers that are right."""
        hidden = self.hidden if self.commits else []
        final = _table([*self.before, *hidden, *self.gap])
        # The table that the first attempt's targets vouch for.
        first = _table([*self.before, *hidden] if moment.shut else self.before)
        # An early event was joined by the first attempt where that opened; a late one was read by
        # the second, whose targets cover the gap, or else by the first while it read the gap.
        tables = {
            "early": [final] if moment.shut and kind.new_attempt else [first, final],
            "late": [final] if kind.new_attempt else [first, final],
        }
        return {
            number: {table.get(key, NOT_FOUND) for table in tables[when]}
            for when, orders in (("early", self.early), ("late", self.late))
            for number, key in orders
        }


def scenario(seed: int, rows: int, orders: int = 200) -> Scenario:
    """A random one; the same for the same arguments."""
    dice = random.Random(seed)
    keys = [f"p{n}" for n in range(rows)]
    before: list[Row] = [(key, f"old-{key}") for key in keys]
    before += [(key, f"newer-{key}") for key in dice.sample(keys, rows // 10)]
    before += [(key, None) for key in dice.sample(keys, rows // 10)]
    # Half of the orders ask for keys that the gap touches: these are the ones that can go wrong.
    touched = dice.sample(keys, min(rows, orders))
    fresh = [f"n{n}" for n in range(20)]
    hidden = [f"t{n}" for n in range(20)]
    gap: list[Row] = [
        (key, None if dice.random() < 0.2 else f"gap-{key}") for key in (*touched, *fresh)
    ]
    dice.shuffle(gap)
    asked = [*touched, *dice.choices(keys, k=orders), *fresh, *hidden, "x0", "x1"]
    dice.shuffle(asked)
    half = len(asked) // 2
    return Scenario(
        before=before,
        hidden=[(key, f"hidden-{key}") for key in hidden],
        commits=dice.random() < 0.7,
        gap=gap,
        early=list(enumerate(asked[:half])),
        late=list(enumerate(asked[half:], start=10_000)),
    )


def _table(rows: Iterable[Row]) -> dict[str, str]:
    return {key: DELETED if name is None else name for key, name in rows}


def answers_of(enriched: Iterable[Record], retry: Iterable[Record]) -> dict[int, set[str]]:
    """For each order the answers that it got: a row's name, or a verdict."""
    found: dict[int, set[str]] = {}
    for record in enriched:
        event = json.loads(record.value or b"{}")
        # The name's field is one thing that a new version of the code may change.
        (name,) = (event[field] for field in NAME_FIELDS if field in event)
        found.setdefault(event["n"], set()).add(name)
    for record in retry:
        number = int((record.key or b"").decode().removeprefix("o"))
        found.setdefault(number, set()).add(record.header("tablegate-verdict") or "")
    return found


NAME_FIELDS = ("product_name", "title", "merged_name")
"""Where the name stands in an enriched event: as first submitted, with new fields, a new merge."""


def wrong(got: Mapping[int, set[str]], right: Mapping[int, set[str]]) -> dict[int, object]:
    """Orders without an answer, and those with one that is not right; empty when all is well."""
    return {
        number: {"got": sorted(got.get(number, ())), "right": sorted(answers)}
        for number, answers in right.items()
        if not got.get(number) or not got[number] <= answers
    }
