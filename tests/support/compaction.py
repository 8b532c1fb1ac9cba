"""Topics that the broker has really compacted, or emptied by retention, as read back from it.

The newest segment of a log is never cleaned, so the last offset of a partition always holds
something. A hole can reach the end of what is readable, but behind it stands a transaction's marker
(here: that of `nudge`), which is no record either.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from tests.support.join_job import product
from tests.support.kafka import Kafka, Message

COMPACTED = {
    "cleanup.policy": "compact",
    # A new segment with every batch, as only closed segments are cleaned...
    "segment.ms": "1",
    # ...at once, however little there is to gain...
    "min.cleanable.dirty.ratio": "0.001",
    # ...and tombstones go with the pass after the one that found them.
    "delete.retention.ms": "0",
}
EXPIRING = {"cleanup.policy": "delete", "segment.ms": "1", "retention.ms": "100"}

HOLES: Mapping[str, tuple[int, ...]] = {
    "hole in the middle": (0, 40, 41, 42),
    "aborted rows compacted away at the end": (0, 1),
    "tombstone compacted away at the end": (1,),
    "everything compacted away": (),
}
"""What `write_holes` leaves: shape, in the order of partitions, to the readable offsets."""

HOLE_OUTCOMES = {
    "middle-a": "first",
    "middle-b": "last",
    "middle-c": "between",
    "aborted-a": "real",
    "aborted-b": "too",
    "tombstone-a": "NOT_FOUND",
    "tombstone-b": "left",
    "everything-a": "NOT_FOUND",
}
"""Product key to name or verdict, for a table that is loaded from such a topic."""

_DEADLINE_S = 60.0
_POLL_S = 0.3
_GHOSTS = 300


def write_holes(kafka: Kafka, topic: str) -> dict[int, tuple[int, int]]:
    """Write HOLES into the four partitions of a COMPACTED topic, and return when the broker has
    compacted it. Returns first offset and log end of each partition.
    """
    middle = [("middle-b", f"v{n}") for n in range(40)]
    rows = [("middle-a", "first"), *middle, ("middle-c", "between"), ("middle-b", "last")]
    _each_in_a_segment(kafka, topic, 0, rows)
    _each_in_a_segment(kafka, topic, 1, [("aborted-a", "real"), ("aborted-b", "too")])
    ghosts = [Message(*product("aborted-a", "ghost"), partition=1)] * _GHOSTS
    kafka.produce(topic, ghosts, transactional=True, abort=True)
    rows_2 = [("tombstone-a", "gone"), ("tombstone-b", "left"), ("tombstone-a", None)]
    _each_in_a_segment(kafka, topic, 2, rows_2)
    _each_in_a_segment(kafka, topic, 3, [("everything-a", "gone"), ("everything-a", None)])

    wanted = dict(enumerate(HOLES.values()))
    deadline = time.monotonic() + _DEADLINE_S
    while (found := _readable(kafka, topic)) != wanted:
        assert time.monotonic() < deadline, f"not compacted in time: {found}, wanted {wanted}"
        for partition, offsets in wanted.items():
            if partition and found[partition] != offsets:
                _nudge(kafka, topic, partition)
        time.sleep(_POLL_S)
    bounds = kafka.bounds(topic)
    ends = {p: end for p, (_, end) in bounds.items()}
    # The log ends stand: what the holes took away is behind them.
    assert ends[0] == len(rows)
    assert ends[1] > _GHOSTS
    assert ends[2] > len(rows_2)
    return bounds


def _readable(kafka: Kafka, topic: str) -> dict[int, tuple[int, ...]]:
    """Offsets that any consumer gets: aborted rows, too, must be gone from the log itself."""
    offsets: dict[int, list[int]] = {partition: [] for partition in range(len(HOLES))}
    for record in kafka.consume_all(topic, "read_uncommitted"):
        offsets[record.partition].append(record.offset)
    return {partition: tuple(found) for partition, found in offsets.items()}


def _each_in_a_segment(
    kafka: Kafka, topic: str, partition: int, rows: Sequence[tuple[str, str | None]]
) -> None:
    # The broker closes a segment by the records' timestamps, so that nobody has to wait for it.
    start = int(time.time() * 1000) - 10_000_000
    for n, (key, name) in enumerate(rows):
        value = None if name is None else product(key, name)[1]
        message = Message(key.encode(), value, timestamp=start + n * 10, partition=partition)
        kafka.produce(topic, [message])


def _nudge(kafka: Kafka, topic: str, partition: int) -> None:
    """A reason for the cleaner to come again: closes the last segment, and adds nothing readable.

    Where its row and its marker fall into one segment, the row stays until the next nudge.
    """
    ghost = Message(b"nudge", b"{}", partition=partition)
    kafka.produce(topic, [ghost], transactional=True, abort=True)
