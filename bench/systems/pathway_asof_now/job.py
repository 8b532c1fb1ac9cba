"""The join as a Pathway program; run by the interpreter of its own environment.

`asof_now_join_left` is Pathway's join of a stream with a table: each event meets the rows of that
moment, leaves once, and is not corrected later.

Events are parsed by Pathway's engine. Two functions are Python, because the connectors have no
other way: rows have their key in the record's key, as text, where the JSON format expects JSON; and
no column may be named ``id``, as the enriched event's field is.
"""

from __future__ import annotations

import json
import sys

import orjson
import pathway as pw

# How long events are gathered before they are joined. By default 1,500, and so long would an event
# wait.
COMMIT_MS = 100
# Its documentation asks for a limit wherever a backlog may wait: without one the whole of it is
# taken into memory. From the upper end of what it names, since this is about throughput.
BACKLOG_EVENTS = 50_000
# For throughput, as librdkafka's documentation says; the default lingers for 5 ms.
PRODUCER = {
    "linger.ms": "50",
    "batch.num.messages": "10000",
    "batch.size": "1000000",
    "queue.buffering.max.messages": "500000",
}


class Event(pw.Schema):
    """What is read of an event."""

    customer: str
    n: int
    pad: str


def tier(row: str) -> str:
    """The field of a row that events get."""
    return orjson.loads(row)["tier"]


def enriched(customer: str, n: int, pad: str, tier: str | None) -> str:
    """An event's output value."""
    return orjson.dumps({"id": customer, "n": n, "pad": pad, "tier": tier}).decode()


def is_newer(new: tuple[int, str], old: tuple[int, str]) -> bool:
    """Whether a version of a row replaces the one that is known; both begin with their offset."""
    return new[0] > old[0]


def main(work: dict[str, str]) -> None:
    """Run until SIGTERM."""
    client = {"bootstrap.servers": work["brokers"], "auto.offset.reset": "earliest"}
    events = pw.io.kafka.read(
        client | {"group.id": f"{work['name']}-events"},
        work["stream"],
        schema=Event,
        format="json",
        json_field_paths={"customer": "/id"},
        autocommit_duration_ms=COMMIT_MS,
        max_backlog_size=BACKLOG_EVENTS,
    )
    versions = pw.io.kafka.read(
        client | {"group.id": f"{work['name']}-rows"},
        work["table"],
        format="plaintext",
        with_metadata=True,
        autogenerate_key=True,
        autocommit_duration_ms=COMMIT_MS,
    )
    # A second record of a key is a second row to the connector, and within a batch records have no
    # order: the offset says which version is the newest.
    offset = pw.this["_metadata"]["offset"].as_int(unwrap=True)
    version = pw.make_tuple(offset, pw.apply_with_type(tier, str, pw.this.data))
    rows = versions.select(pw.this.key, version=version).deduplicate(
        value=pw.this.version, instance=pw.this.key, acceptor=is_newer
    )
    rows = rows.select(pw.this.key, tier=pw.this.version[1])
    joined = events.asof_now_join_left(rows, pw.left.customer == pw.right.key).select(
        key=pw.left.customer,
        value=pw.apply_with_type(
            enriched, str, pw.left.customer, pw.left.n, pw.left.pad, pw.right.tier
        ),
    )
    pw.io.kafka.write(
        joined,
        {"bootstrap.servers": work["brokers"], **PRODUCER},
        work["enriched"],
        format="plaintext",
        key=joined.key,
        value=joined.value,
    )
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
