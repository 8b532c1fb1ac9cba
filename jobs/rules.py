"""The settings of the join as the plain values that the workers' functions take."""

from __future__ import annotations

from jobs.settings import KeySettings, Settings, TombstoneKeySettings
from udfs.core.events import EventReader
from udfs.core.keys import KeyFormat, KeyOrigin, KeyRule
from udfs.core.merge import AddFields, CustomMerge, Merge
from udfs.core.rows import RowReader, TableFormat
from udfs.join import JoinRules

# Around a single record: a batch header of 61 bytes and a record header of at most 21 (source:
# DefaultRecordBatch.RECORD_BATCH_OVERHEAD, DefaultRecord.MAX_RECORD_OVERHEAD), and some to spare.
_ENVELOPE_BYTES = 128


def join_rules(
    settings: Settings, max_message_bytes: int | None = None, *, gated: bool = True
) -> JoinRules:
    """What the join function and the routing need to know.

    ``max_message_bytes`` is the limit of the enriched topic, None when it is not known.
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
        gated=gated,
        max_enriched_bytes=(
            None if max_message_bytes is None else max_message_bytes - _ENVELOPE_BYTES
        ),
    )


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
