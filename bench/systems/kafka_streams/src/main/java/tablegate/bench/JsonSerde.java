package tablegate.bench;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** JSON values by Jackson, with a reader and a writer that are made for the type once. */
final class JsonSerde {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private JsonSerde() {}

    /** Values of one type; a tombstone stays null. */
    static <T> Serde<T> of(Class<T> type) {
        ObjectReader reader = MAPPER.readerFor(type);
        ObjectWriter writer = MAPPER.writerFor(type);
        return Serdes.serdeFrom(
                (topic, value) -> value == null ? null : write(writer, topic, value),
                (topic, bytes) -> bytes == null ? null : read(reader, topic, bytes));
    }

    private static <T> T read(ObjectReader reader, String topic, byte[] bytes) {
        try {
            return reader.readValue(bytes);
        } catch (IOException error) {
            throw new SerializationException(topic + ": not the JSON that was expected", error);
        }
    }

    private static byte[] write(ObjectWriter writer, String topic, Object value) {
        try {
            return writer.writeValueAsBytes(value);
        } catch (JsonProcessingException error) {
            throw new SerializationException(topic + ": cannot be written as JSON", error);
        }
    }
}
