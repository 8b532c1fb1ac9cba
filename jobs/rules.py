"""The settings of the join as the plain values that the workers' functions take."""

from __future__ import annotations

from jobs.clients import librdkafka_config
from jobs.preflight.facts import ClusterFacts
from jobs.settings import KeySettings, Settings, TombstoneKeySettings
from udfs.brake import SLACK_EVENTS
from udfs.core.events import EventReader
from udfs.core.hold import Consistency
from udfs.core.identity import Identity
from udfs.core.keys import KeyFormat, KeyOrigin, KeyRule
from udfs.core.merge import AddFields, CustomMerge, Merge
from udfs.core.misses import MissPolicy
from udfs.core.retry import RetryPlan, parse_delays
from udfs.core.rows import RowReader, TableFormat
from udfs.core.stall import OnStall
from udfs.gate import GateRules
from udfs.join_rules import JoinRules, Lookup

# Around a single record: a batch header of 61 bytes and a record header of at most 21 (source:
# DefaultRecordBatch.RECORD_BATCH_OVERHEAD, DefaultRecord.MAX_RECORD_OVERHEAD), and some to spare.
_ENVELOPE_BYTES = 128


def join_rules(
    settings: Settings, max_message_bytes: int | None = None, *, gated: bool = True
) -> JoinRules:
    """What the join function and the routing need to know.

    ``max_message_bytes`` is the lowest limit of the topics of enriched events, None when it is not
    known.
    """
    table, tombstone = settings.table, settings.table.tombstone_key
    return JoinRules(
        stream_topic=settings.stream.topic,
        table_topic=table.topic,
        events=EventReader(_key_rule(settings.stream.key)),
        rows=RowReader(
            TableFormat(table.format),
            _key_rule(table.key),
            None if tombstone is None else _record_key_rule(tombstone),
        ),
        merge=_merge(settings),
        consistency=Consistency(settings.gate.consistency) if gated else Consistency.NONE,
        max_table_lag_ms=settings.gate.max_table_lag_ms,
        max_enriched_bytes=(
            None if max_message_bytes is None else max_message_bytes - _ENVELOPE_BYTES
        ),
        # Who turns the pause off wants the stream read, however much has to be held.
        hold_slack_events=SLACK_EVENTS if settings.gate.pause_stream else None,
        retry_topic=settings.output.retry,
        retries=RetryPlan(parse_delays(settings.miss.retry_after) if gated else ()),
        # Ungated is for comparison: every miss is told at once, and nothing else is done with it.
        on_miss=MissPolicy.of(settings.output.on_miss_of().values()) if gated else MissPolicy(),
        verdict_field=settings.miss.verdict_field,
        lookup=Lookup(settings.join.lookup_state),
        cached_rows=settings.join.cached_rows,
        miss_grace_ms=settings.miss.grace_ms if gated else 0,
    )


def gate_rules(settings: Settings, facts: ClusterFacts, ticked_partitions: int) -> GateRules:
    """What the gate needs to know; ``facts`` are the brokers' answers at submission."""
    table, gate = settings.table, settings.gate
    return GateRules(
        client=librdkafka_config(settings),
        topic=table.topic,
        isolation_level=table.isolation_level,
        ticked_partitions=ticked_partitions,
        continuous=gate.continuous,
        on_stall=OnStall(gate.on_stall),
        stall_after_ms=gate.stall_after_ms,
        max_table_lag_ms=gate.max_table_lag_ms,
        tick_interval_ms=gate.tick_interval_ms,
        # One opening a start: a skew of clocks cannot be seen there.
        max_clock_skew_ms=gate.max_clock_skew_ms if gate.continuous else 0,
        identity=identity(settings, facts),
        topic_ids={topic.name: topic.topic_id for topic in (facts.stream, facts.table)},
        tombstones_kept_ms=facts.table.delete_retention_ms if facts.table.compacted else None,
        fail_on_expired_tombstones=gate.on_expired_tombstones == "fail",
    )


def identity(settings: Settings, facts: ClusterFacts) -> Identity:
    """What the state of this job belongs to. Its texts are compared with those of earlier jobs."""
    stream, table, tombstone = settings.stream, settings.table, settings.table.tombstone_key
    return Identity(
        cluster=facts.cluster_id,
        stream=f"{stream.topic} {facts.stream.topic_id}",
        stream_key=_key_text(stream.key),
        table=f"{table.topic} {facts.table.topic_id}",
        table_rows=" ".join(
            (
                table.format,
                table.isolation_level,
                _key_text(table.key),
                "-" if tombstone is None else f"{tombstone.format} {tombstone.path}",
            )
        ),
        join_rows="" if settings.join.lookup_state == "keyed" else settings.join.lookup_state,
    )


def _key_text(key: KeySettings) -> str:
    return f"{key.from_} {key.format} {key.path}"


def _key_rule(key: KeySettings) -> KeyRule:
    if key.from_ == "value":
        return KeyRule(KeyOrigin.VALUE, KeyFormat.JSON, _steps(key.path))
    return _record_key_rule(key)


def _record_key_rule(key: KeySettings | TombstoneKeySettings) -> KeyRule:
    return KeyRule(KeyOrigin.KEY, KeyFormat(key.format), _steps(key.path))


def _merge(settings: Settings) -> Merge:
    if settings.job.merge:
        return CustomMerge(settings.job.merge)
    return AddFields(tuple((_steps(path), name) for path, name in settings.table.fields.items()))


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.split(".")) if path else ()
