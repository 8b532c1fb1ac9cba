/** Kafka Streams, measured by {@code bench.versus}. */
package tablegate.bench;
