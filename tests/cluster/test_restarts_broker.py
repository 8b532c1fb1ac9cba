"""The gate's questions to brokers that were away meanwhile."""

from __future__ import annotations

from pathlib import Path

from ops.stack.broker import Broker
from ops.stack.processes import wait_until
from tests.support.kafka import Kafka
from udfs.core.errors import NoAnswerError
from udfs.core.gate import Target
from udfs.targets import TargetResolver

_DEADLINE_S = 60.0


def test_log_ends_are_told_again_after_the_broker_was_killed_and_started(
    tmp_path: Path, stack_folder: Path
) -> None:
    assert stack_folder  # its finaliser looks for what this broker might leave
    with Broker(tmp_path / "broker", heap="512m") as broker:
        kafka = Kafka(broker.bootstrap_servers)
        topic = kafka.create_topic("products", 2)
        row = (b"p1", b"{}", (), None, 0)
        kafka.produce(topic, [row])
        client = {"bootstrap.servers": broker.bootstrap_servers}
        with TargetResolver(client, topic, "read_committed") as resolver:
            assert resolver.log_ends([0, 1]) == {0: 1, 1: 0}
            resolver.patience_s = 3
            broker.kill()
            broker.start()
            kafka.produce(topic, [row])

            def answered() -> bool:
                try:
                    return resolver.log_ends([0, 1]) == {0: 2, 1: 0}
                except NoAnswerError as error:
                    said.append(str(error))
                    return False

            said: list[str] = []
            wait_until(
                answered,
                deadline_s=_DEADLINE_S,
                what="the log ends",
                give_up=lambda: None,
            )
            assert resolver.resolve() == {0: Target(0, 2, 1), 1: Target(0, 0, None)}
