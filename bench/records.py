"""The events and rows of `bench.versus`, the same for every system, and the right answer."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator

from ops.demo.data import Draft

PAD_BYTES = 150
"""Of an event's ``pad``; with it an event's value has about 190 bytes."""

# Pads are cut out of this, each at another place: state and batches shrink no better than those of
# real records.
_NOISE = base64.urlsafe_b64encode(hashlib.shake_256(b"pads").digest(3 << 14))

# Shares no factor with the counts of rows that are measured: events spread over all keys, and two
# that follow each other have keys far apart.
_STEP = 7919


def row_key(n: int) -> bytes:
    """Kafka key of row ``n``."""
    return b"c%d" % n


def tier(n: int, revision: int = 0) -> str:
    """What row ``n`` adds to an event; another text in each revision of the row."""
    return f"tier-{(n + revision) % 5}"


def row(n: int, size: int, written_ms: int, revision: int = 0) -> Draft:
    """Row ``n``, with a value of about ``size`` bytes: ``{"tier": ..., "pad": ...}``."""
    # Formatted and not dumped: a writer that takes a third of the time can fill a queue for systems
    # that empty it fast.
    pad = _pad(n, max(0, size - 26))
    value = b'{"tier":"%b","pad":"%b"}' % (tier(n, revision).encode(), pad)
    return Draft(row_key(n), value, (), written_ms)


def rows(count: int, size: int, written_ms: int) -> Iterator[Draft]:
    """Rows 0 to ``count`` - 1."""
    return (row(n, size, written_ms) for n in range(count))


def event(n: int, rows: int, written_ms: int) -> Draft:
    """Event ``n``: ``{"id": <row's key>, "n": n, "pad": ...}`` under a Kafka key of its own."""
    return event_for(n * _STEP % rows, n, written_ms)


def event_for(row: int, n: int, written_ms: int) -> Draft:
    """Event ``n`` with the row of that number."""
    value = b'{"id":"%b","n":%d,"pad":"%b"}' % (row_key(row), n, _pad(n, PAD_BYTES))
    return Draft(b"o%d" % n, value, (), written_ms)


def events(first: int, count: int, rows: int, written_ms: int) -> Iterator[Draft]:
    """Events ``first`` to ``first + count - 1``, each with a row among the first ``rows``."""
    return (event(n, rows, written_ms) for n in range(first, first + count))


def _pad(n: int, size: int) -> bytes:
    """Raises ValueError for more than half of the noise."""
    places = len(_NOISE) - size
    if size > places:
        raise ValueError(f"a pad of {size} bytes is too long")
    begin = n * _STEP % places
    return _NOISE[begin : begin + size]


def is_right(enriched: bytes | None, revision: int = 0) -> bool:
    """Whether an enriched value holds the event and the ``tier`` of that revision of its row.

    Written ``{"id": ..., "n": ..., "pad": ..., "tier": ...}``, in any order; a null or missing tier
    is the wrong null that this project is about.
    """
    if enriched is None:
        return False
    found = json.loads(enriched)
    return bool(
        found.get("tier") == tier(int(found["id"][1:]), revision) and len(found["pad"]) == PAD_BYTES
    )
