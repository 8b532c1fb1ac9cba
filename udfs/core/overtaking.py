"""Which corrections come too late: a newer event of their key went out before them.

A miss goes away for minutes or hours. When it comes back and meets its row, newer events of its key
may be out already, and whoever keeps the newest record of each key would put an old one in place of
a new one. So such a correction is marked.

Nothing is asked for keys that never missed, so that a hit costs no more than before. What this
subtask cannot know, since it began later or has too many keys to watch, counts as overtaken: a mark
too many makes a consumer compare two records, one too few makes it keep the wrong one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from udfs.core.model import Header

_MAX_KEYS = 200_000
_DIGITS = 18


class Position(NamedTuple):
    """Of two events of a key the newer one is the greater: seen later, or behind it in the log."""

    first_seen_ms: int
    offset: int


def position_in(headers: Mapping[str, bytes] | None) -> Position | None:
    """Where an event that comes again stood, by our headers; None when they do not tell."""
    headers = headers or {}
    first_seen = headers.get(Header.FIRST_SEEN) or b""
    offset = (headers.get(Header.SOURCE) or b"").rpartition(b"@")[2]
    if not all(text.isdigit() and len(text) <= _DIGITS for text in (first_seen, offset)):
        return None
    return Position(int(first_seen), int(offset))


class _Key:
    __slots__ = ("away", "newest_out", "since")

    def __init__(self, since: Position) -> None:
        # From where on everything is known about the key.
        self.since = since
        self.away = 0
        self.newest_out: Position | None = None


class Overtaking:
    """The keys of one subtask that have events in the retry topic."""

    def __init__(self, max_keys: int = _MAX_KEYS) -> None:
        self._keys: dict[str, _Key] = {}
        self._max_keys = max_keys

    def __len__(self) -> int:
        return len(self._keys)

    def watches(self, key: str) -> bool:
        """Whether it matters for anybody that an event of ``key`` goes out."""
        return key in self._keys

    def goes_away(self, key: str, position: Position) -> None:
        """An event of ``key`` goes to the retry topic for the first time."""
        watched = self._keys.get(key)
        if watched is None:
            if len(self._keys) >= self._max_keys:
                return
            watched = self._keys[key] = _Key(position)
        if position >= watched.since:
            watched.away += 1

    def goes_out(self, key: str, position: Position) -> None:
        """An event of ``key`` goes to an output."""
        watched = self._keys.get(key)
        if watched is not None and (watched.newest_out is None or watched.newest_out < position):
            watched.newest_out = position

    def comes_back(self, key: str, position: Position | None) -> bool:
        """An event of ``key`` is back for good; whether a newer one went out before it.

        ``position`` is None when its headers do not tell.
        """
        watched = self._keys.get(key)
        if watched is None or position is None or position < watched.since:
            return True
        overtaken = watched.newest_out is not None and watched.newest_out > position
        watched.away -= 1
        if not watched.away:
            del self._keys[key]
        return overtaken
