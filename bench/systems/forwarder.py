"""Forward a topic's records to another topic, as bytes, until a signal comes.

    python bench/systems/forwarder.py BROKERS GROUP FROM TO

At-least-once would need offsets committed behind deliveries; this is a limit and commits by time.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

from confluent_kafka import Consumer, KafkaException, Producer

_AT_ONCE = 10_000
_POLL_S = 0.1
_FLUSH_S = 10.0


def main(brokers: str, group: str, source: str, target: str) -> None:
    """Consume and produce."""
    stopped = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    consumer = Consumer(
        {"bootstrap.servers": brokers, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([source])
    producer = Producer(
        {
            "bootstrap.servers": brokers,
            # As the Flink systems' producers, and room for what is read at once.
            "linger.ms": 20,
            "batch.size": 262_144,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    while not stopped:
        for message in consumer.consume(_AT_ONCE, _POLL_S):
            if (error := message.error()) is not None:
                raise KafkaException(error)
            while True:
                try:
                    producer.produce(target, message.value(), message.key())
                    break
                except BufferError:
                    producer.poll(_POLL_S)
        producer.poll(0)
    producer.flush(_FLUSH_S)
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
