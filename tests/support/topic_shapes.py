"""Shapes that a table topic's partition can have, and what each does to target and join.

A shape is written into one partition, so that one run of the job meets all of them at once. Each
says what the broker holds then; `check` compares that with the broker before anything is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.support.join_job import product
from tests.support.kafka import Kafka, Message

ISOLATIONS = ("read_committed", "read_uncommitted")
UNREADABLE = b"{not json"

# More than two looks back of the target's search (16 and 256 offsets).
_LONG_TAIL = 300
_LONG_PARTITION = 40_000


@dataclass(frozen=True)
class Shape:
    """One partition: how it is made, what the broker holds then, what orders for it must become.

    Attributes:
        name: for people; the orders are named for it.
        make: writes it, given Kafka, topic and partition.
        bounds: first offset and log end.
        last: the last readable offset for each of ISOLATIONS; None: nothing is readable.
        outcomes: product key to the product's name, or to the verdict of a miss, for each of
            ISOLATIONS.
        dead: offsets of the rows that must be dead letters, whatever the isolation.
    """

    name: str
    make: Callable[[Kafka, str, int], None]
    bounds: tuple[int, int]
    last: tuple[int | None, int | None]
    outcomes: Mapping[str, tuple[str, str]]
    dead: Sequence[int] = ()


def row(partition: int, key: str, name: str) -> Message:
    """A row in that partition."""
    return Message(*product(key, name), partition=partition)


def tombstone(partition: int, key: str) -> Message:
    """A deletion in that partition."""
    return Message(key.encode(), None, partition=partition)


def check(kafka: Kafka, topic: str, shapes: Sequence[Shape]) -> None:
    """Fail unless partition n of the topic is as ``shapes[n]`` says."""
    bounds = kafka.bounds(topic)
    found: dict[str, tuple[object, ...]] = {s.name: (bounds[n],) for n, s in enumerate(shapes)}
    for isolation in ISOLATIONS:
        # Sorted by offset, so that the last one of a partition stays.
        last = {record.partition: record.offset for record in kafka.consume_all(topic, isolation)}
        for n, shape in enumerate(shapes):
            found[shape.name] += (last.get(n),)
    assert found == {s.name: (s.bounds, *s.last) for s in shapes}


# ------------------------------------------------------------------------------ the shapes


def _nothing(_kafka: Kafka, _topic: str, _partition: int) -> None:
    pass


def _emptied(kafka: Kafka, topic: str, partition: int) -> None:
    kafka.produce(topic, [row(partition, "emptied", "gone")] * 57)
    kafka.delete_records(topic, {partition: 57})


def _half_deleted(kafka: Kafka, topic: str, partition: int) -> None:
    kafka.produce(topic, [row(partition, "in front", "gone")] * 30)
    kafka.produce(topic, [row(partition, "behind", "left")])
    kafka.delete_records(topic, {partition: 30})


def _one_row(kafka: Kafka, topic: str, partition: int) -> None:
    kafka.produce(topic, [row(partition, "single", "one")])


def _updated(kafka: Kafka, topic: str, partition: int) -> None:
    kafka.produce(topic, [row(partition, "updated", f"v{n}") for n in range(100)])


def _commit_marker(kafka: Kafka, topic: str, partition: int) -> None:
    kafka.produce(topic, [row(partition, "committed", "yes")], transactional=True)


def _abort_marker(kafka: Kafka, topic: str, partition: int) -> None:
    with kafka.transaction() as aborted:
        key, value, *_ = row(partition, "before the marker", "ghost")
        aborted.produce(topic, value, key, partition=partition)
        aborted.flush()
        kafka.produce(topic, [row(partition, "at the marker", "real")])
        aborted.abort_transaction()
    kafka.wait_for_ends(topic, {partition: 3})


def _aborted_rows(kafka: Kafka, topic: str, partition: int) -> None:
    kafka.produce(topic, [row(partition, "overwritten", "real")])
    ghosts = [row(partition, "overwritten", "ghost")] * (_LONG_TAIL - 1)
    deleted = tombstone(partition, "deleted by a ghost")
    kafka.produce(topic, [row(partition, "deleted by a ghost", "real")])
    kafka.produce(topic, [deleted, *ghosts], transactional=True, abort=True)


def _only_aborted(kafka: Kafka, topic: str, partition: int) -> None:
    ghosts = [row(partition, "only aborted", "ghost")] * _LONG_TAIL
    kafka.produce(topic, ghosts, transactional=True, abort=True)


def _tombstones(kafka: Kafka, topic: str, partition: int) -> None:
    rows = [row(partition, "deleted", "gone"), row(partition, "kept", "left")]
    kafka.produce(topic, [*rows, *[tombstone(partition, "deleted")] * 20])


def _only_tombstones(kafka: Kafka, topic: str, partition: int) -> None:
    kafka.produce(topic, [tombstone(partition, "never there")] * 2)


def _unreadable(kafka: Kafka, topic: str, partition: int) -> None:
    bad = [
        Message(b"damaged", UNREADABLE, partition=partition),
        Message(b"always damaged", b"\x00\x01", partition=partition),
        Message(None, b'{"name":"whose?"}', partition=partition),
    ]
    kafka.produce(topic, [row(partition, "damaged", "before"), *bad])


def _only_unreadable(kafka: Kafka, topic: str, partition: int) -> None:
    kafka.produce(topic, [Message(b"unreadable", UNREADABLE, partition=partition)] * 2)


def _long(kafka: Kafka, topic: str, partition: int) -> None:
    filler = (row(partition, f"filler-{n}", "x") for n in range(_LONG_PARTITION))
    first, last = row(partition, "first of many", "first"), row(partition, "last of many", "last")
    kafka.produce(topic, [first, *filler, last])


def _same(outcome: str) -> tuple[str, str]:
    return outcome, outcome


SHAPES = (
    Shape("empty", _nothing, (0, 0), (None, None), {"nowhere": _same("NOT_FOUND")}),
    Shape("emptied", _emptied, (57, 57), (None, None), {"emptied": _same("NOT_FOUND")}),
    Shape(
        "half deleted",
        _half_deleted,
        (30, 31),
        (30, 30),
        {"in front": _same("NOT_FOUND"), "behind": _same("left")},
    ),
    Shape("one row", _one_row, (0, 1), (0, 0), {"single": _same("one")}),
    Shape("updated", _updated, (0, 100), (99, 99), {"updated": _same("v99")}),
    Shape("commit marker last", _commit_marker, (0, 2), (0, 0), {"committed": _same("yes")}),
    Shape(
        "abort marker last",
        _abort_marker,
        (0, 3),
        (1, 1),
        {"before the marker": ("NOT_FOUND", "ghost"), "at the marker": _same("real")},
    ),
    Shape(
        "aborted rows last",
        _aborted_rows,
        (0, _LONG_TAIL + 3),
        (1, _LONG_TAIL + 1),
        {"overwritten": ("real", "ghost"), "deleted by a ghost": ("real", "DELETED")},
    ),
    Shape(
        "only aborted rows",
        _only_aborted,
        (0, _LONG_TAIL + 1),
        (None, _LONG_TAIL - 1),
        {"only aborted": ("NOT_FOUND", "ghost")},
    ),
    Shape(
        "tombstones last",
        _tombstones,
        (0, 22),
        (21, 21),
        {"deleted": _same("DELETED"), "kept": _same("left")},
    ),
    Shape(
        "only tombstones",
        _only_tombstones,
        (0, 2),
        (1, 1),
        {"never there": _same("DELETED")},
    ),
    Shape(
        "unreadable rows last",
        _unreadable,
        (0, 4),
        (3, 3),
        {"damaged": _same("before"), "always damaged": _same("NOT_FOUND")},
        dead=(1, 2, 3),
    ),
    Shape(
        "only unreadable rows",
        _only_unreadable,
        (0, 2),
        (1, 1),
        {"unreadable": _same("NOT_FOUND")},
        dead=(0, 1),
    ),
    Shape(
        "far longer than the others",
        _long,
        (0, _LONG_PARTITION + 2),
        (_LONG_PARTITION + 1, _LONG_PARTITION + 1),
        {"first of many": _same("first"), "last of many": _same("last")},
    ),
)
