"""The words that the job, its outputs and its operators share.

An *event* comes from the stream topic, a *row* from the table topic. Each event that is joined gets
exactly one verdict; a held event has none yet.
"""

from __future__ import annotations

from enum import StrEnum

from udfs.core.hold import Completeness


class Verdict(StrEnum):
    """What became of an event, or why it went to the dead-letter topic."""

    HIT = "HIT"
    """The table held a row for the key. A row whose fields are all null is still a hit."""
    NOT_FOUND = "NOT_FOUND"
    """The gate was open and the table has no row for the key."""
    DELETED = "DELETED"
    """The gate was open and the last thing seen for the key was a deletion."""
    NOT_LOADED = "NOT_LOADED"
    """No row, but the gate was opened by policy while the table was short: it may be on its way."""
    STALE_TABLE = "STALE_TABLE"
    """No row, but the table lags by more than is accepted: it may be on its way."""
    NO_KEY = "NO_KEY"
    """The event's join key is missing or null: no retry can help."""
    BAD_RECORD = "BAD_RECORD"
    """The record cannot be read, so nothing can be said about its key."""


class Header:
    """Names of the Kafka headers on retry and dead-letter records; every value is UTF-8 text."""

    VERDICT = "tablegate-verdict"
    ERROR = "tablegate-error"
    SOURCE = "tablegate-source"
    ATTEMPT = "tablegate-attempt"
    FIRST_SEEN = "tablegate-first-seen"
    DUE = "tablegate-due"
    TIMESTAMP = "tablegate-timestamp"
    LATE = "tablegate-late"
    REPLAYED = "tablegate-replayed"


DELETED_ROW = b""
"""What the row state holds after a deletion. No row is ever empty: a row is a JSON object."""


def source_of(topic: str, partition: int, offset: int) -> str:
    """Where a record stands, written the way the person on call reads it: ``orders[2]@1234``."""
    return f"{topic}[{partition}]@{offset}"


def verdict_for(row: bytes | None, completeness: Completeness = Completeness.KNOWN) -> Verdict:
    """The rule of the join, over what the row state holds for the event's key.

    Only to be asked once the event may be joined; before that it is held and has no verdict.
    ``completeness`` decides what a miss means; a hit is one whatever the table lacks.
    """
    if row:
        return Verdict.HIT
    if completeness is Completeness.SHORT:
        return Verdict.NOT_LOADED
    if completeness is Completeness.STALE:
        return Verdict.STALE_TABLE
    return Verdict.NOT_FOUND if row is None else Verdict.DELETED
