"""How many letters there were of which kind: all that a list or a replay keeps of most of them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ops.retry.filters import Fate
from ops.retry.letters import Letter


class Kind(NamedTuple):
    """What letters are counted by; ``source_topic`` is "?" when a letter does not say it."""

    verdict: str
    source_topic: str


class Tally:
    """Counts of letters: ``found`` by kind, ``replayed`` of these, ``skipped`` by their fate.

    ``examples`` has the first letter of each fate, for the person who has to look at one.
    """

    def __init__(self) -> None:
        self.found: Counter[Kind] = Counter()
        self.replayed: Counter[Kind] = Counter()
        self.skipped: Counter[Fate] = Counter()
        self.examples: dict[Fate, Letter] = {}

    def add(self, letter: Letter) -> None:
        """Count a letter that is listed, or sent."""
        kind = Kind(letter.verdict, letter.source.topic if letter.source else "?")
        self.found[kind] += 1
        if letter.replayed:
            self.replayed[kind] += 1

    def skip(self, letter: Letter, fate: Fate) -> None:
        """Count a letter that is left where it is."""
        self.skipped[fate] += 1
        self.examples.setdefault(fate, letter)

    @property
    def total(self) -> int:
        """Letters that were added."""
        return self.found.total()

    def rows(self) -> Iterator[tuple[Kind, int, int]]:
        """Kind, letters and how many of them have been replayed; most letters first."""
        for kind, count in sorted(self.found.items(), key=lambda item: (-item[1], item[0])):
            yield kind, count, self.replayed[kind]


def newest(letters: Iterable[Letter], count: int) -> list[Letter]:
    """The ``count`` letters that were seen last, in order of time; keeps no more than these."""
    found = heapq.nlargest(count, letters, key=lambda one: (one.first_seen_ms or 0, one.place))
    return found[::-1]
