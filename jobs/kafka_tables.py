"""Kafka topics as Flink tables: bytes in, bytes out, with the metadata that the job needs.

Keys and values stay raw bytes, so that what is passed on is what came in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyflink.table import DataTypes, Schema, TableDescriptor

from udfs.core.gate import FAR_FUTURE_MS

_BYTES = DataTypes.BYTES()
_HEADERS = DataTypes.MAP(DataTypes.STRING(), _BYTES)
_TIMESTAMP = DataTypes.TIMESTAMP_LTZ(3)
_EPOCH = "TO_TIMESTAMP_LTZ(0, 3)"

PAUSE_GROUP = "table-load"
"""Watermark alignment group of the two sources."""

# Kafka's own default is five minutes, for which the rows of a new partition would be missing.
_DISCOVERY = "10 s"

_START_MODES = {
    "earliest": "earliest-offset",
    "latest": "latest-offset",
    "committed": "group-offsets",
}


def _columns() -> Schema.Builder:
    return (
        Schema.new_builder()
        .column("k", _BYTES)
        .column("v", _BYTES)
        .column_by_metadata("h", _HEADERS, "headers", is_virtual=True)
        .column_by_metadata("ts", _TIMESTAMP, "timestamp", is_virtual=True)
        .column_by_metadata("p", DataTypes.INT(), "partition", is_virtual=True)
        .column_by_metadata("o", DataTypes.BIGINT(), "offset", is_virtual=True)
        .column_by_expression("rt", _EPOCH)
    )


def _topic(topic: str, client: Mapping[str, str]) -> TableDescriptor.Builder:
    builder = TableDescriptor.for_connector("kafka").option("topic", topic)
    for name, value in client.items():
        builder = builder.option(f"properties.{name}", value)
    return (
        builder.option("key.format", "raw")
        .option("key.fields", "k")
        .option("value.format", "raw")
        .option("value.fields-include", "EXCEPT_KEY")
    )


def _pause(builder: TableDescriptor.Builder) -> TableDescriptor.Builder:
    return (
        builder.option("scan.watermark.alignment.group", PAUSE_GROUP)
        .option("scan.watermark.alignment.max-drift", "1 min")
        .option("scan.watermark.alignment.update-interval", "200 ms")
    )


def stream_source(
    topic: str, client: Mapping[str, str], isolation_level: str, start: str, group: str, pause: bool
) -> TableDescriptor:
    """The stream topic. Its own watermark is beyond the gate's, so that only the gate counts.

    Offsets are committed to consumer group ``group`` at checkpoints: for people who watch the lag,
    and for ``start`` "committed". An idle timeout is needed for subtasks without a partition, which
    would never send a watermark.
    """
    beyond = f"TO_TIMESTAMP_LTZ({FAR_FUTURE_MS + 1}, 3)"
    builder = (
        _topic(topic, client)
        .schema(_columns().watermark("rt", beyond).build())
        .option("properties.isolation.level", isolation_level)
        .option("scan.startup.mode", _START_MODES[start])
        .option("properties.group.id", group)
        # A group that has committed nothing yet.
        .option("properties.auto.offset.reset", "earliest")
        .option("scan.topic-partition-discovery.interval", _DISCOVERY)
        .option("scan.watermark.idle-timeout", "1 s")
    )
    return (_pause(builder) if pause else builder).build()


def table_source(
    topic: str,
    client: Mapping[str, str],
    isolation_level: str,
    loaded_at: Mapping[int, int],
    pause: bool,
) -> TableDescriptor:
    """The table topic, always from its beginning (a restored job goes on where its state stands).

    Its watermark only ends the pause of the stream's source: it rises when each partition has read
    the offset in ``loaded_at``, or is idle. The gate does not depend on it.
    """
    columns = _columns()
    if pause:
        columns = columns.watermark("rt", pause_watermark(loaded_at))
    builder = (
        _topic(topic, client)
        .schema(columns.build())
        .option("properties.isolation.level", isolation_level)
        .option("scan.startup.mode", "earliest-offset")
        .option("scan.topic-partition-discovery.interval", _DISCOVERY)
    )
    if pause:
        builder = _pause(builder).option("scan.watermark.idle-timeout", "3 s")
    return builder.build()


def log(topics: Iterable[str], client: Mapping[str, str], isolation_level: str) -> TableDescriptor:
    """Topics from their begin to where they end when it is asked; belongs to no consumer group.

    An unfinished transaction at its end holds up whoever reads it until that is over.
    """
    return (
        _topic(";".join(topics), client)
        .schema(_columns().build())
        .option("properties.isolation.level", isolation_level)
        .option("scan.startup.mode", "earliest-offset")
        .option("scan.bounded.mode", "latest-offset")
        .build()
    )


def pause_watermark(loaded_at: Mapping[int, int]) -> str:
    """SQL for the watermark behind a table record: low while its partition is short of its offset.

    A partition that is not named was empty, or not there, when the job was submitted: it must not
    keep the stream waiting, however slowly it fills.
    """
    loaded = f"TO_TIMESTAMP_LTZ({FAR_FUTURE_MS}, 3)"
    short = " ".join(
        f"WHEN p = {partition} AND o < {offset} THEN {_EPOCH}"
        for partition, offset in sorted(loaded_at.items())
    )
    return f"CASE {short} ELSE {loaded} END" if short else loaded


def tick_seed() -> TableDescriptor:
    """A zero every second, of which ``jobs.sides`` makes the ticks.

    Not more of them: the generator emits a second's rows in one burst and then sleeps (source:
    ``DataGeneratorSource.run`` of Flink 2.3.0).
    """
    return (
        TableDescriptor.for_connector("datagen")
        .schema(
            Schema.new_builder()
            .column("zero", DataTypes.INT())
            .column_by_expression("pt", "PROCTIME()")
            .build()
        )
        .option("rows-per-second", "1")
        .option("fields.zero.kind", "random")
        .option("fields.zero.min", "0")
        .option("fields.zero.max", "0")
        .build()
    )


def sink(
    topic: str,
    client: Mapping[str, str],
    delivery: str,
    transactional_id_prefix: str | None,
    transaction_timeout_ms: int,
    max_message_bytes: int | None = None,
) -> TableDescriptor:
    """An output topic: columns k, v, h (headers) and ts (timestamp) of udfs.records.output_type."""
    builder = (
        _topic(topic, client)
        .schema(
            Schema.new_builder()
            .column("k", _BYTES)
            .column("v", _BYTES)
            .column_by_metadata("h", _HEADERS, "headers")
            .column_by_metadata("ts", _TIMESTAMP, "timestamp")
            .build()
        )
        .option("sink.delivery-guarantee", delivery)
    )
    if max_message_bytes is not None and "max.request.size" not in client:
        # The topic's own limit shall decide, not the producer's default of 1 MiB.
        builder = builder.option("properties.max.request.size", str(max_message_bytes))
    if transactional_id_prefix is not None:
        builder = builder.option("sink.transactional-id-prefix", transactional_id_prefix).option(
            "properties.transaction.timeout.ms", str(transaction_timeout_ms)
        )
    return builder.build()


def nowhere() -> TableDescriptor:
    """In the place of an output topic that is not wanted."""
    schema = Schema.new_builder().column("k", _BYTES).column("v", _BYTES)
    schema = schema.column("h", _HEADERS).column("ts", _TIMESTAMP)
    return TableDescriptor.for_connector("blackhole").schema(schema.build()).build()
