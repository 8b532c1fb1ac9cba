"""What the headers of a retry record or a dead letter say, and what a replay makes of them.

Values in, values out: no Kafka, no clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from udfs.core.events import number_in
from udfs.core.model import Header, Verdict, source_of

Headers = Sequence[tuple[str, bytes | None]]
"""Of one record, in its order; a name may be there twice, and then the last one counts."""

UNREADABLE = "?"
"""Stands for the verdict of a record whose headers are not as the job writes them."""
REPLAYED = "REPLAYED"
"""Stands for the verdict of a record that a replay sent: it has none until it is joined."""
KINDS = (*Verdict, REPLAYED, UNREADABLE)

_VERDICTS = frozenset(Verdict)
_PLACE = re.compile(r"([a-zA-Z0-9._-]+)\[(\d{1,10})\]@(\d{1,19})")
_ATTEMPT_DIGITS = 9
# Milliseconds until the year 5138; datetime goes no further than 9999.
_TIME_DIGITS = 14
# They are about the round that is over. Without an attempt the tiers begin anew, and without a due
# time the record is due at once.
_OF_THE_LAST_ROUND = frozenset(
    {Header.VERDICT, Header.ERROR, Header.ATTEMPT, Header.DUE, Header.REPLAYED}
)


class Place(NamedTuple):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return source_of(*self)

    @classmethod
    def read(cls, text: str) -> Self | None:
        """The place that ``orders.dead[0]@12`` names; None when the text names none."""
        match = _PLACE.fullmatch(text)
        return cls(match[1], int(match[2]), int(match[3])) if match else None


@dataclass(frozen=True, slots=True)
class Letter:
    """A record of the retry or the dead-letter topic, without its value.

    Attributes:
        place: where it stands.
        verdict: one of `KINDS`.
        source: where the job read it first; None when it does not say so.
        first_seen_ms: when, in epoch milliseconds.
        attempts: how often it was set aside.
        error: why it is a dead letter, "" when it does not say so.
        key: the record key.
        replayed_from: the dead letter that a replay made it of, "" when none did.
        replayed: whether it has been replayed itself.
    """

    place: Place
    verdict: str
    source: Place | None
    first_seen_ms: int | None
    attempts: int | None
    error: str
    key: bytes | None
    replayed_from: str
    replayed: bool = False


def read_letter(
    place: Place, key: bytes | None, headers: Headers | None, *, replayed: bool = False
) -> Letter:
    """The letter at ``place``. Anyone can write to a topic, so its headers may say anything."""
    found = dict(headers or ())
    source = Place.read(_text(found, Header.SOURCE))
    first_seen_ms = number_in(found, Header.FIRST_SEEN, _TIME_DIGITS)
    attempts = number_in(found, Header.ATTEMPT, _ATTEMPT_DIGITS)
    verdict, replayed_from = _text(found, Header.VERDICT), _text(found, Header.REPLAYED)
    origin_is_known = source is not None and first_seen_ms is not None
    if origin_is_known and attempts is not None and verdict in _VERDICTS:
        kind = verdict
    elif origin_is_known and not verdict and Place.read(replayed_from):
        kind = REPLAYED
    else:
        kind = UNREADABLE
    error = _text(found, Header.ERROR)
    return Letter(
        place,
        kind,
        source,
        first_seen_ms,
        attempts,
        # The job repeats the source, for who reads the header alone.
        error.removeprefix(f"{source}: ") if source else error,
        key,
        replayed_from,
        replayed,
    )


def replayed_headers(letter: Letter, headers: Headers | None) -> list[tuple[str, bytes | None]]:
    """The headers with which ``letter`` goes back, given those that it has.

    Its own stay in their order, and so do source and first seen, for as long as they can be read:
    the job goes on to name a record by them. New is where it was replayed from.
    """
    dropped = set(_OF_THE_LAST_ROUND)
    if letter.source is None:
        dropped.add(Header.SOURCE)
    if letter.first_seen_ms is None:
        dropped.add(Header.FIRST_SEEN)
    kept = [(name, value) for name, value in headers or () if name not in dropped]
    return [*kept, (Header.REPLAYED, str(letter.place).encode())]


def sent_again(
    headers: Headers, written_ms: int | None, *, as_event: bool
) -> tuple[list[tuple[str, bytes | None]], int]:
    """The headers and the Kafka timestamp (epoch ms, 0: now) of a record that is sent once more.

    ``written_ms`` is the timestamp that it has where it stands, None when it has none. Where it
    stands as an event again it gets its own back; a retry record has the time of its writing, since
    retention goes by that, and its own in a header.
    """
    own_ms = number_in(dict(headers), Header.TIMESTAMP, _TIME_DIGITS)
    if not as_event and own_ms is not None:
        return list(headers), 0
    kept = [(name, value) for name, value in headers if name != Header.TIMESTAMP]
    if as_event:
        return kept, (written_ms if own_ms is None else own_ms) or 0
    if written_ms is not None:
        kept.append((Header.TIMESTAMP, str(written_ms).encode()))
    return kept, 0


def readable(text: bytes | str | None, longest: int) -> str:
    """A key or an error as a terminal may show it: on one line, without control characters."""
    if text is None:
        return ""
    if isinstance(text, bytes):
        text = text.decode(errors="backslashreplace")
    shown = "".join(_printable(text[: longest + 1]))
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def _printable(text: str) -> Iterable[str]:
    return (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _text(found: dict[str, bytes | None], name: str) -> str:
    return (found.get(name) or b"").decode(errors="backslashreplace")
