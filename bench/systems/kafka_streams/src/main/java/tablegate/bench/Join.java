package tablegate.bench;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KafkaStreams.State;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs one join until SIGTERM: {@code Join ktable|global <properties> <stream> <table> <enriched>}.
 *
 * <p>Ends with status 1 when Streams gave up, after its log said why.
 */
public final class Join {
    private static final Logger LOG = LoggerFactory.getLogger(Join.class);
    private static final Duration CLOSE = Duration.ofSeconds(30);

    private Join() {}

    public static void main(String[] args) throws IOException, InterruptedException {
        if (args.length != 5) {
            throw new IllegalArgumentException(
                    "expected: ktable|global <properties> <stream> <table> <enriched>");
        }
        Properties settings = read(Path.of(args[1]));
        Topology topology = topology(args[0], settings, args[2], args[3], args[4]);
        LOG.info("{}", topology.describe());
        int status = run(new KafkaStreams(topology, settings));
        System.exit(status);
    }

    private static Topology topology(
            String mode, Properties settings, String stream, String table, String enriched) {
        return switch (mode) {
            case "ktable" -> Topologies.ktable(settings, stream, table, enriched);
            case "global" -> Topologies.global(settings, stream, table, enriched);
            default -> throw new IllegalArgumentException(mode + " is neither ktable nor global");
        };
    }

    private static Properties read(Path file) throws IOException {
        Properties settings = new Properties();
        try (Reader reader = Files.newBufferedReader(file)) {
            settings.load(reader);
        }
        return settings;
    }

    private static int run(KafkaStreams streams) throws InterruptedException {
        CountDownLatch failed = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(
                error -> {
                    LOG.error("Streams gives up", error);
                    return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
                });
        streams.setStateListener(
                (now, before) -> {
                    LOG.info("state: {}, was {}", now, before);
                    if (now == State.ERROR) {
                        failed.countDown();
                    }
                });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> close(streams), "close"));
        streams.start();
        failed.await();
        return 1;
    }

    private static void close(KafkaStreams streams) {
        // The harness looks for these words: a JVM that was ended by a signal exits with 143, come
        // what may.
        LOG.info(streams.close(CLOSE) ? "closed in order" : "not closed within {}", CLOSE);
    }
}
