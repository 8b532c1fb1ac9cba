"""The job's graph, free of Kafka: two keyed inputs in, three streams out."""

from __future__ import annotations

from typing import NamedTuple

from pyflink.datastream import DataStream
from pyflink.datastream.data_stream import KeyedStream

from jobs.uids import JOIN
from udfs.join import GatedJoin, JoinRules, dead_tag, retry_tag
from udfs.records import output_type


class Joined(NamedTuple):
    """What the join returns; every stream has to be consumed, each is of output_type."""

    enriched: DataStream
    retry: DataStream
    dead: DataStream


def gated_join(events: KeyedStream, rows: KeyedStream, rules: JoinRules) -> Joined:
    """Join ``events`` with ``rows``, both of record_type and keyed by the join key."""
    joined = (
        events.connect(rows).process(GatedJoin(rules), output_type()).uid(JOIN.uid).name(JOIN.name)
    )
    return Joined(
        enriched=joined,
        retry=joined.get_side_output(retry_tag()),
        dead=joined.get_side_output(dead_tag()),
    )
