"""What the job reads from an event, and the headers that it adds when the event is set aside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from udfs.core.jsontext import Fields, object_fields
from udfs.core.keys import KeyOrigin, KeyRule
from udfs.core.model import Header, Verdict

Headers = dict[str, bytes]

_ATTEMPT_DIGITS = 9
_ERROR_LENGTH = 500
TIME_DIGITS = 18
"""Of a time in a header, epoch milliseconds: what is longer fits no long."""
# Milliseconds until the year 5138.
_SEEN_DIGITS = 14
_OURS = frozenset(
    {
        Header.VERDICT,
        Header.ERROR,
        Header.SOURCE,
        Header.ATTEMPT,
        Header.FIRST_SEEN,
        Header.DUE,
        Header.TIMESTAMP,
        Header.REPLAYED,
    }
)


@dataclass(frozen=True, slots=True)
class EventReader:
    """Reads stream records: the join key and the fields of the value."""

    key: KeyRule

    def read(self, key: bytes | None, value: bytes | None) -> tuple[str | None, Fields]:
        """The canonical join key, None when the event has none, and the value's fields.

        Raises BadRecord when the value is no JSON object or the key cannot be read.
        """
        fields = object_fields(value, "event value")
        if self.key.origin is KeyOrigin.KEY:
            return self.key.in_record_key(key), fields
        return self.key.in_fields(fields), fields


def set_aside_headers(
    own: Mapping[str, bytes] | None,
    verdict: Verdict,
    source: str,
    now_ms: int,
    error: str | None = None,
    due_ms: int | None = None,
    *,
    timestamp_ms: int,
) -> Headers:
    """The record's own headers and ours, for the retry or the dead-letter topic.

    A record that comes round again, from the retry topic or copied back to the stream topic, keeps
    the time at which it was first seen, and its attempt number counts up. ``now_ms`` is epoch
    milliseconds, the time at which the job first read this record; ``due_ms`` the one at which it
    is to be tried again; ``timestamp_ms`` the record's own, negative when it has none. That goes
    into a header, as the record that is written has the time of its writing: retention goes by
    it, and would delete an old event's record before anybody has read it.
    """
    headers = dict(own) if own else {}
    # Anyone can write a header, and what is written here has to be readable as ours.
    attempt = min(attempts_before(headers) + 1, 10**_ATTEMPT_DIGITS - 1)
    headers.pop(Header.ERROR, None)
    headers.pop(Header.DUE, None)
    headers[Header.VERDICT] = verdict.encode()
    headers[Header.SOURCE] = source.encode()
    headers[Header.ATTEMPT] = str(attempt).encode()
    if number_in(headers, Header.FIRST_SEEN, _SEEN_DIGITS) is None:
        headers[Header.FIRST_SEEN] = str(now_ms).encode()
    headers.pop(Header.TIMESTAMP, None)
    if timestamp_ms >= 0:
        headers[Header.TIMESTAMP] = str(timestamp_ms).encode()
    if due_ms is not None:
        headers[Header.DUE] = str(due_ms).encode()
    if error is not None:
        # Short, as it may quote the record; and whatever a user's exception says can be written.
        headers[Header.ERROR] = error[:_ERROR_LENGTH].encode(errors="backslashreplace")
    return headers


def own_timestamp_ms(headers: Mapping[str, bytes] | None, written_ms: int) -> int:
    """The timestamp that a set-aside record had before, in epoch milliseconds.

    That of its writing, ``written_ms``, when its headers do not say: those of versions before this
    header were written with their own.
    """
    own_ms = number_in(headers, Header.TIMESTAMP, TIME_DIGITS)
    return written_ms if own_ms is None else own_ms


def record_bytes(key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
    """Bytes of a record's key, value and headers, without Kafka's few dozen around them."""
    size = len(key or b"") + len(value or b"")
    if headers:
        # Names are mostly ASCII; lengths in front of each name and value count as ten bytes.
        size += sum(len(n.encode()) + len(v or b"") + 10 for n, v in headers.items())
    return size


def without_ours(headers: Headers | None) -> Headers | None:
    """The headers of a record that is through: those that we added on an earlier round are gone.

    That it came late stays, if it is so: then it was another job's enriched event.
    """
    if not headers or _OURS.isdisjoint(headers):
        return headers
    return {name: value for name, value in headers.items() if name not in _OURS} or None


def attempts_before(headers: Mapping[str, bytes]) -> int:
    """How often a record has been set aside before, by its headers."""
    return number_in(headers, Header.ATTEMPT, _ATTEMPT_DIGITS) or 0


def number_in(headers: Mapping[str, bytes | None] | None, name: str, digits: int) -> int | None:
    """A header's number, of ``digits`` at most; None when there is none.

    Anyone can write a header; what cannot be a number of ours is none.
    """
    text = (headers or {}).get(name) or b""
    return int(text) if text.isdigit() and len(text) <= digits else None
