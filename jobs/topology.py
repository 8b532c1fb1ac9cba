"""The job's graph, free of Kafka: two keyed inputs in, four streams out."""

from __future__ import annotations

from typing import NamedTuple

from pyflink.datastream import DataStream
from pyflink.datastream.data_stream import KeyedStream

from jobs.uids import JOIN, SIDE_OUTPUTS
from jobs.wiring import adopt
from udfs.join import GatedJoin
from udfs.join_rules import JoinRules
from udfs.outcomes import dead_tag, nulls_tag, retry_tag
from udfs.records import output_type


class Joined(NamedTuple):
    """What the join returns; every stream has to be consumed, each is of output_type."""

    enriched: DataStream
    retry: DataStream
    dead: DataStream
    nulls: DataStream


def gated_join(events: KeyedStream, rows: KeyedStream, rules: JoinRules) -> Joined:
    """Join ``events`` with ``rows``, both of record_type and keyed by the join key."""
    joined = (
        events.connect(rows).process(GatedJoin(rules), output_type()).uid(JOIN.uid).name(JOIN.name)
    )
    sides = {}
    for tag in (retry_tag(), dead_tag(), nulls_tag()):
        sides[tag.tag_id] = joined.get_side_output(tag)
        transformation = sides[tag.tag_id]._j_data_stream.getTransformation()
        adopt(transformation, [SIDE_OUTPUTS[tag.tag_id]])
    return Joined(enriched=joined, **sides)
