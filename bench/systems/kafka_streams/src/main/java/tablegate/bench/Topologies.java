package tablegate.bench;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/** The two ways in which Kafka Streams joins a stream with a table that has another key. */
final class Topologies {
    /**
     * A row: of its JSON only the tier is read, and kept.
     *
     * <p>A store that Streams restores from the topic holds the whole JSON instead, which reads the
     * same.
     */
    @JsonIgnoreProperties(ignoreUnknown = true)
    record Row(String tier) {}

    private static final Serde<String> KEYS = Serdes.String();
    private static final Serde<Row> ROWS = JsonSerde.of(Row.class);
    private static final Serde<ObjectNode> EVENTS = JsonSerde.of(ObjectNode.class);

    private Topologies() {}

    /** The events go through a topic of Streams' own, partitioned by id, to the rows' partition. */
    static Topology ktable(Properties settings, String stream, String table, String enriched) {
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, Row> rows = builder.table(table, Consumed.with(KEYS, ROWS), store());
        KStream<String, ObjectNode> events = builder.stream(stream, Consumed.with(KEYS, EVENTS));
        events.selectKey((key, event) -> event.get("id").textValue())
                .leftJoin(rows, Topologies::enrich, Joined.with(KEYS, EVENTS, ROWS, "by-id"))
                .to(enriched, Produced.with(KEYS, EVENTS));
        return builder.build(settings);
    }

    /** All rows are beside each partition of the events. */
    static Topology global(Properties settings, String stream, String table, String enriched) {
        StreamsBuilder builder = new StreamsBuilder();
        GlobalKTable<String, Row> rows =
                builder.globalTable(table, Consumed.with(KEYS, ROWS), store());
        KStream<String, ObjectNode> events = builder.stream(stream, Consumed.with(KEYS, EVENTS));
        events.leftJoin(rows, (key, event) -> event.get("id").textValue(), Topologies::enrich)
                .to(enriched, Produced.with(KEYS, EVENTS));
        return builder.build(settings);
    }

    // The node is ours alone: nothing but the join reads it. Records of fields in its place cost as
    // much, and would lose what they do not name.
    private static ObjectNode enrich(ObjectNode event, Row row) {
        return event.put("tier", row == null ? null : row.tier());
    }

    private static Materialized<String, Row, KeyValueStore<Bytes, byte[]>> store() {
        Materialized<String, Row, KeyValueStore<Bytes, byte[]>> rows = Materialized.as("rows");
        return rows.withKeySerde(KEYS).withValueSerde(ROWS);
    }
}
