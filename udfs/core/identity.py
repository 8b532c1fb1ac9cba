"""What a job's state belongs to: kept in the state itself, compared at every start.

A savepoint finds its operators by uid and nothing else. Given to a job that reads another topic, it
would be restored without a word: rows of a foreign table, positions of a foreign log.
"""

from __future__ import annotations

import hashlib
from dataclasses import astuple, dataclass
from itertools import zip_longest

_MEANINGS = (
    "Kafka cluster",
    "stream topic (or one of that name which was deleted and created again)",
    "stream.key",
    "table topic (or one of that name which was deleted and created again)",
    "table.key, table.tombstone_key, table.format or table.isolation_level",
    "join.lookup_state",
)


@dataclass(frozen=True, slots=True)
class Identity:
    """The facts that state depends on, each as one text. APPEND ONLY, as a stamp is compared by it.

    ``cluster`` is Kafka's cluster id, ``stream`` and ``table`` a topic's name and id,
    ``stream_key`` and ``table_rows`` the rules by which records were read. ``join_rows`` says where
    rows are looked up, "" in keyed state: stamps of before this could be chosen have no such part.
    """

    cluster: str
    stream: str
    stream_key: str
    table: str
    table_rows: str
    join_rows: str = ""

    @property
    def stamp(self) -> str:
        """Eight hex digits for each fact: short, since it is kept for each partition."""
        *facts, join_rows = astuple(self)
        return "-".join(
            hashlib.blake2s(fact.encode(), digest_size=4).hexdigest()
            for fact in (*facts, *filter(None, [join_rows]))
        )

    def differences(self, stamp: str) -> list[str]:
        """In what the state with this stamp differs, in words; empty if it is ours."""
        both = zip_longest(self.stamp.split("-"), stamp.split("-"))
        pairs = zip(_MEANINGS, both, strict=False)
        return [meaning for meaning, (ours, theirs) in pairs if ours != theirs]
