"""Where an event goes that found no row: what the outputs together demand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

GRACE_LIMIT_MS = 600_000
"""The longest that a miss may be told to wait for its row before it is decided."""


class OnMiss(StrEnum):
    """What an output of enriched events gets when an event finds no row."""

    ROUTE = "route"
    """Nothing: the event goes to the retry topic, and comes out when it meets its row."""
    EMIT_NULL = "emit_null"
    """The event with nulls for the row's fields, and the verdict in a field of its own."""
    HOLD = "hold"
    """Nothing: the event waits in the job's state until its row comes, however long."""


@dataclass(frozen=True, slots=True)
class MissPolicy:
    """All outputs' wishes in one. ``hold`` and ``route`` exclude each other."""

    route: bool = True
    hold: bool = False
    emit_null: bool = False

    def __post_init__(self) -> None:
        if self.route and self.hold:
            raise ValueError("an event cannot wait in the job and go to the retry topic as well")

    @classmethod
    def of(cls, outputs: Iterable[OnMiss]) -> MissPolicy:
        """The policy of a job with these outputs. Raises ValueError for ``hold`` with ``route``."""
        wanted = set(outputs)
        return cls(
            route=OnMiss.ROUTE in wanted,
            hold=OnMiss.HOLD in wanted,
            emit_null=OnMiss.EMIT_NULL in wanted,
        )
