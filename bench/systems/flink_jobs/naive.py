"""The keyed join as people write it in PyFlink today: nothing waits for the table.

    flink run -d -py bench/systems/flink_jobs/naive.py --brokers HOST:PORT --name JOB \
        --stream TOPIC --table TOPIC --enriched TOPIC

One file, lambdas, a process function with the row in ``ValueState``. PyFlink's Kafka source reads
values only and a row's key is its record's: so the table comes through a SQL table with a key
column, which is what people do.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from pyflink.common import SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import (
    DataStream,
    KeyedCoProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.table import StreamTableEnvironment


class Enrich(KeyedCoProcessFunction):
    """Adds the row's tier, or a null when no row has come so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the state."""
        self._tier = runtime_context.get_state(ValueStateDescriptor("tier", Types.STRING()))

    def process_element1(self, value: dict[str, Any], ctx: Any) -> Iterator[str]:
        """An event."""
        value["tier"] = self._tier.value()
        yield json.dumps(value)

    def process_element2(self, value: tuple[str, dict[str, Any] | None], ctx: Any) -> None:
        """A row."""
        row = value[1]
        if row is None:
            self._tier.clear()
        else:
            self._tier.update(row["tier"])


def main() -> None:
    """Draw the graph and submit it."""
    arguments = _arguments()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(arguments.parallelism)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(arguments.brokers)
        .set_topics(arguments.stream)
        .set_group_id(arguments.name)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    events = env.from_source(source, WatermarkStrategy.no_watermarks(), "events")
    if arguments.pass_through:
        written = events.map(lambda text: json.dumps(json.loads(text)), output_type=Types.STRING())
    else:
        written = joined(env, events, arguments)
    written.sink_to(_sink(arguments))
    env.execute(arguments.name)


def joined(
    env: StreamExecutionEnvironment, events: DataStream, arguments: argparse.Namespace
) -> DataStream:
    """Events, as JSON, with the tier of their rows."""
    t = StreamTableEnvironment.create(env)
    t.execute_sql(f"""
        CREATE TEMPORARY TABLE table_rows (id STRING, content STRING) WITH (
          'connector' = 'kafka',
          'topic' = '{arguments.table}',
          'properties.bootstrap.servers' = '{arguments.brokers}',
          'properties.group.id' = '{arguments.name}',
          'scan.startup.mode' = 'earliest-offset',
          'key.format' = 'raw',
          'key.fields' = 'id',
          'value.format' = 'raw',
          'value.fields-include' = 'EXCEPT_KEY'
        )""")
    parsed = events.map(lambda text: json.loads(text))  # noqa: PLW0108  (as people write it)
    rows = t.to_data_stream(t.from_path("table_rows")).map(
        lambda row: (row[0], json.loads(row[1]) if row[1] else None)
    )
    return (
        parsed.key_by(lambda event: event["id"], key_type=Types.STRING())
        .connect(rows.key_by(lambda row: row[0], key_type=Types.STRING()))
        .process(Enrich(), output_type=Types.STRING())
    )


def _sink(arguments: argparse.Namespace) -> KafkaSink:
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(arguments.brokers)
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic(arguments.enriched)
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
    )
    for option in arguments.producer:
        name, _, value = option.partition("=")
        sink.set_property(name, value)
    return sink.build()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("brokers", "name", "stream", "table", "enriched"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--producer", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument(
        "--pass-through",
        action="store_true",
        help="join nothing: one map that reads an event's JSON and writes it",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
