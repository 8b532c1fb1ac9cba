"""The join as a Quix Streams program; run by the interpreter of its own environment."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

from quixstreams import Application

# For throughput, as librdkafka's documentation says; the default lingers for 5 ms.
PRODUCER = {
    "linger.ms": 50,
    "batch.num.messages": 10_000,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 500_000,
}
# A join asks librdkafka for 10,000 records at a time, and that waits so long for the last of them:
# with the default of 1 s, an event on a quiet topic does.
POLL_S = 0.05


def main(work: dict[str, Any]) -> None:
    """Run until SIGTERM."""
    app = Application(
        broker_address=work["brokers"],
        consumer_group=work["name"],
        auto_offset_reset="earliest",
        state_dir=work["state"],
        producer_extra_config=PRODUCER,
        consumer_poll_timeout=POLL_S,
        loglevel="INFO",
    )
    # Plain text for keys throughout: as JSON they would be quoted, and land in other partitions
    # than the rows.
    events = app.topic(work["stream"], key_deserializer="bytes", value_deserializer="json")
    rows = app.topic(work["table"], key_deserializer="str", value_deserializer="json")
    output = app.topic(work["enriched"], key_serializer="str", value_serializer="json")
    # Only what is used goes into the state and its changelog.
    table = app.dataframe(rows).apply(needed)
    stream = app.dataframe(events).group_by("id", key_serializer="str", key_deserializer="str")
    joined = stream.join_asof(
        table,
        how="left",
        on_merge=enriched,
        # One version of each row: an older one is dropped as a newer arrives.
        grace_ms=timedelta(0),
    )
    joined.to_topic(output)
    app.run()


def needed(row: dict[str, Any]) -> dict[str, Any]:
    """The fields of a row that events get."""
    return {"tier": row["tier"]}


def enriched(event: dict[str, Any], row: dict[str, Any] | None) -> dict[str, Any]:
    """An event with its row's tier, null without one."""
    return {**event, "tier": row["tier"] if row else None}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
