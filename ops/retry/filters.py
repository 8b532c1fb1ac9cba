"""Which letters are meant: the filters of `list` and `replay`, and what a replay skips."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from ops.retry.errors import RetryError
from ops.retry.letters import KINDS, REPLAYED, UNREADABLE, Letter, Place

_UNIT_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"(\d{1,12})\s*([a-z]+)")


@dataclass(frozen=True, slots=True)
class Filter:
    """What a letter must be to be meant; an empty one means all of them.

    ``since_ms`` and ``until_ms`` (epoch ms, the second one not included) are of the time at which
    the job first saw the event: the record's own timestamp is the event's, and when it came to its
    topic is written nowhere.
    """

    verdicts: AbstractSet[str] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None
    at: AbstractSet[Place] = frozenset()
    key: bytes | None = None
    sources: AbstractSet[str] = frozenset()

    def means(self, letter: Letter) -> bool:
        """Whether ``letter`` is meant."""
        if self.verdicts and letter.verdict not in self.verdicts:
            return False
        if self.key is not None and letter.key != self.key:
            return False
        if self.at and letter.place not in self.at:
            return False
        if self.sources and (letter.source is None or letter.source.topic not in self.sources):
            return False
        return self._in_time(letter.first_seen_ms)

    def _in_time(self, first_seen_ms: int | None) -> bool:
        if self.since_ms is None and self.until_ms is None:
            return True
        if first_seen_ms is None:
            return False
        after = self.since_ms is None or first_seen_ms >= self.since_ms
        return after and (self.until_ms is None or first_seen_ms < self.until_ms)


def parse_filter(
    topic: str,
    now_ms: int,
    *,
    verdicts: Sequence[str] = (),
    since: str = "",
    until: str = "",
    at: Sequence[str] = (),
    key: str | None = None,
    sources: Sequence[str] = (),
) -> Filter:
    """The filter that the options name, over the letters of ``topic``, at ``now_ms`` (epoch ms).

    Raises:
        RetryError: an option that says nothing, or nothing about this topic.
    """
    for verdict in verdicts:
        if verdict not in KINDS:
            raise RetryError(
                f"--verdict {verdict!r} is none.", f"Give one of {', '.join(KINDS)} (in quotes)."
            )
    since_ms = _moment("--since", since, now_ms)
    until_ms = _moment("--until", until, now_ms)
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise RetryError(
            f"--since {since!r} is not before --until {until!r}.", "Nothing lies between them."
        )
    return Filter(
        frozenset(verdicts),
        since_ms,
        until_ms,
        frozenset(_place(text, topic) for text in at),
        None if key is None else key.encode(errors="surrogateescape"),
        frozenset(sources),
    )


def parse_moment(text: str, now_ms: int) -> int:
    """Epoch milliseconds of a time such as 2026-11-29T18:00 (UTC unless it says), or ``2h`` ago.

    Raises:
        ValueError: it is neither.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago is not None and ago[2] in _UNIT_MS:
        return now_ms - int(ago[1]) * _UNIT_MS[ago[2]]
    moment = datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1_000)


def _moment(option: str, text: str, now_ms: int) -> int | None:
    if not text:
        return None
    try:
        return parse_moment(text, now_ms)
    except ValueError:
        raise RetryError(
            f"{option} {text!r} is no time.",
            f'Give one such as 2026-11-29T18:00 (UTC), or how long ago: "2h", "30 min" '
            f"({', '.join(_UNIT_MS)}).",
        ) from None


def _place(text: str, topic: str) -> Place:
    place = Place.read(text)
    if place is None:
        raise RetryError(
            f"--at {text!r} names no record.", f"Write it as `list` does: '{topic}[0]@12'."
        )
    if place.topic != topic:
        raise RetryError(
            f"--at {text!r} is not in {topic}, which is what is read here.",
            "Give places of that topic, or the --config whose topic it is.",
        )
    return place


class Fate(StrEnum):
    """What a replay does with a letter that is meant."""

    SEND = "send"
    REPLAYED = "replayed before"
    TABLE_ROW = "row of the table"
    UNREADABLE = "no verdict of ours"
    ELSEWHERE = "event of another topic"


REMEDIES: Mapping[Fate, str] = {
    Fate.REPLAYED: "--again sends them once more; an event that died again is a new dead letter",
    Fate.TABLE_ROW: "no replay can mend the table: write the row again to its topic",
    Fate.UNREADABLE: "somebody else wrote them: look at them, then name --verdict '?'",
    Fate.ELSEWHERE: "replay them with the --config of the job that reads that topic, or name it "
    "with --source",
}
"""What to do about letters that are skipped."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Which of the letters that are meant a replay sends.

    ``home`` are the topics that this job reads events from; a dead-letter topic may be shared.
    """

    filter: Filter
    table_topic: str
    home: AbstractSet[str]
    again: bool = False

    def fate(self, letter: Letter) -> Fate:
        """What becomes of ``letter``."""
        source = letter.source.topic if letter.source else None
        # Whatever was named: a row among the events would be joined, or be a dead letter again.
        if source == self.table_topic:
            return Fate.TABLE_ROW
        if letter.verdict in {UNREADABLE, REPLAYED} and letter.verdict not in self.filter.verdicts:
            return Fate.UNREADABLE
        # A source that is named is in the filter, and all others have been left out by it.
        if source is not None and source not in self.home and not self.filter.sources:
            return Fate.ELSEWHERE
        return Fate.REPLAYED if letter.replayed and not self.again else Fate.SEND
