"""The job's graph, free of Kafka: events and rows in, four streams out."""

from __future__ import annotations

from typing import NamedTuple

from pyflink.datastream import DataStream
from pyflink.datastream.data_stream import KeyedStream

from jobs.sides import keyed
from jobs.uids import BROADCAST_JOIN, JOIN, SIDE_OUTPUTS
from jobs.wiring import adopt
from udfs.broadcast import rows_state
from udfs.join import BroadcastJoin, GatedJoin
from udfs.join_rules import JoinRules, Lookup
from udfs.outcomes import dead_tag, nulls_tag, retry_tag
from udfs.records import output_type


class Joined(NamedTuple):
    """What the join returns; every stream has to be consumed, each is of output_type."""

    enriched: DataStream
    retry: DataStream
    dead: DataStream
    nulls: DataStream


def gated_join(events: KeyedStream, rows: DataStream, rules: JoinRules) -> Joined:
    """Join ``events``, keyed by the join key, with ``rows``, both of pair_type."""
    if rules.lookup is Lookup.BROADCAST:
        operator = BROADCAST_JOIN
        both = events.connect(rows.broadcast(rows_state()))
        joined = both.process(BroadcastJoin(rules), output_type())
    else:
        operator = JOIN
        joined = events.connect(keyed(rows)).process(GatedJoin(rules), output_type())
    joined.uid(operator.uid).name(operator.name)
    sides = {}
    for tag in (retry_tag(), dead_tag(), nulls_tag()):
        sides[tag.tag_id] = joined.get_side_output(tag)
        transformation = sides[tag.tag_id]._j_data_stream.getTransformation()
        adopt(transformation, [SIDE_OUTPUTS[tag.tag_id]])
    return Joined(enriched=joined, **sides)
