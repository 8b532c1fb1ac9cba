"""Makes the join of the lookup under test."""

from __future__ import annotations

from udfs.join import BroadcastJoin, GatedJoin
from udfs.join_rules import JoinRules, Lookup

LOOKUP = Lookup.KEYED
"""Set by the fixture ``lookup``."""

_ROWS = {Lookup.KEYED: "table-row", Lookup.BROADCAST: "table-rows"}


def join(rules: JoinRules) -> GatedJoin | BroadcastJoin:
    """The join as a Flink function."""
    return BroadcastJoin(rules) if LOOKUP is Lookup.BROADCAST else GatedJoin(rules)


def rows_name() -> str:
    """The state that holds the table."""
    return _ROWS[LOOKUP]
