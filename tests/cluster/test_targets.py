"""The gate's targets on a real broker: the last record that can be read, never the log end."""

from __future__ import annotations

import pytest

from tests.support.kafka import Kafka, Message
from udfs.core.errors import TargetError
from udfs.core.gate import Target
from udfs.targets import TargetResolver

ROW = Message(b"p1", b'{"name":"mug"}')


def _targets(kafka: Kafka, topic: str, isolation: str = "read_committed") -> dict[int, Target]:
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    with TargetResolver(client, topic, isolation) as resolver:
        return resolver.resolve()


def test_empty_partitions_have_no_target(kafka: Kafka) -> None:
    topic = kafka.create_topic("products", 3)
    kafka.produce(topic, [Message(b"p1", b"{}", partition=1)])
    targets = _targets(kafka, topic)
    assert {p: t.last for p, t in targets.items()} == {0: None, 1: 0, 2: None}


def test_a_commit_marker_at_the_end_is_no_record(kafka: Kafka) -> None:
    topic = kafka.create_topic("products")
    kafka.produce(topic, [ROW, ROW], transactional=True)
    assert _targets(kafka, topic) == {0: Target(begin=0, end=3, last=1)}


@pytest.mark.parametrize(("isolation", "last"), [("read_committed", 0), ("read_uncommitted", 42)])
def test_aborted_rows_at_the_end_count_only_where_they_are_delivered(
    kafka: Kafka, isolation: str, last: int
) -> None:
    topic = kafka.create_topic("products")
    kafka.produce(topic, [ROW])
    # More than one look back long.
    kafka.produce(topic, [ROW] * 42, transactional=True, abort=True)
    assert _targets(kafka, topic, isolation) == {0: Target(begin=0, end=44, last=last)}


def test_a_topic_of_nothing_but_aborted_rows_has_no_target(kafka: Kafka) -> None:
    topic = kafka.create_topic("products")
    kafka.produce(topic, [ROW] * 300, transactional=True, abort=True)
    assert _targets(kafka, topic) == {0: Target(begin=0, end=301, last=None)}


def test_a_tombstone_at_the_end_is_a_record(kafka: Kafka) -> None:
    topic = kafka.create_topic("products")
    kafka.produce(topic, [ROW, Message(b"p1", None)])
    assert _targets(kafka, topic)[0].last == 1


def test_a_partition_emptied_by_retention_has_no_target(kafka: Kafka) -> None:
    topic = kafka.create_topic("products")
    kafka.produce(topic, [ROW] * 57)
    kafka.delete_records(topic, {0: 57})
    assert _targets(kafka, topic) == {0: Target(begin=57, end=57, last=None)}


def test_an_unfinished_transaction_hides_the_target_until_it_ends(kafka: Kafka) -> None:
    topic = kafka.create_topic("products")
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    with (
        kafka.transaction() as open_one,
        TargetResolver(client, topic, "read_committed") as resolver,
    ):
        open_one.produce(topic, b'{"name":"lost"}', b"p9")
        open_one.flush()
        # Committed rows of others behind it cannot be read yet either.
        kafka.produce(topic, [ROW])
        waiting = resolver.resolve()
        assert waiting == {0: Target(begin=0, end=2, last=None, waiting=True)}
        assert resolver.resolve_again(waiting)[0].waiting
        open_one.abort_transaction()
        kafka.wait_for_ends(topic, {0: 3})
        kafka.produce(topic, [ROW])
        assert resolver.resolve_again(waiting) == {0: Target(begin=0, end=2, last=1)}


def test_a_transaction_that_began_behind_the_end_is_not_waited_for(kafka: Kafka) -> None:
    topic = kafka.create_topic("products")
    kafka.produce(topic, [ROW])
    kafka.produce(topic, [ROW] * 30, transactional=True, abort=True)
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    with (
        kafka.transaction() as later,
        TargetResolver(client, topic, "read_committed") as resolver,
    ):
        later.produce(topic, b"{}", b"p9")
        later.flush()
        # The reader stops in front of it, with nothing but aborted rows since the answer.
        asked = {0: Target(begin=0, end=32, last=None, waiting=True)}
        assert resolver.resolve_again(asked) == {0: Target(begin=0, end=32, last=0)}
        later.abort_transaction()


def test_rows_deleted_since_the_end_was_taken_are_not_waited_for(kafka: Kafka) -> None:
    topic = kafka.create_topic("products")
    kafka.produce(topic, [ROW] * 57)
    kafka.delete_records(topic, {0: 57})
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    with TargetResolver(client, topic, "read_committed") as resolver:
        asked = {0: Target(begin=0, end=57, last=None, waiting=True)}
        assert resolver.resolve_again(asked) == {0: Target(begin=0, end=57, last=None)}
        kafka.produce(topic, [ROW])
        assert resolver.resolve_again(asked) == {0: Target(begin=0, end=57, last=None)}


def test_who_reads_uncommitted_waits_for_no_transaction(kafka: Kafka) -> None:
    topic = kafka.create_topic("products")
    with kafka.transaction() as open_one:
        open_one.produce(topic, b"{}", b"p9")
        open_one.flush()
        assert _targets(kafka, topic, "read_uncommitted") == {0: Target(0, 1, 0)}
        open_one.abort_transaction()


def test_a_missing_topic_is_named(kafka: Kafka) -> None:
    with pytest.raises(TargetError, match="no-such-topic"):
        _targets(kafka, "no-such-topic")


def test_unreachable_brokers_are_an_error_and_not_an_empty_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("udfs.targets._RPC_TIMEOUT_S", 1.0)
    with (
        TargetResolver({"bootstrap.servers": "127.0.0.1:1"}, "products", "read_committed") as one,
        pytest.raises(TargetError, match="did not say where"),
    ):
        one.resolve()


def test_the_first_readable_record_stands_behind_what_was_aborted_or_deleted(kafka: Kafka) -> None:
    topic = kafka.create_topic("products", 3)
    aborted = [Message(b"p1", b"{}", partition=0)] * 20
    kafka.produce(topic, aborted, transactional=True, abort=True)
    kafka.produce(topic, [Message(b"p1", b"{}", partition=0)] * 3)
    kafka.produce(topic, [Message(b"p1", b"{}", partition=1)] * 5)
    kafka.delete_records(topic, {1: 2})
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    with TargetResolver(client, topic, "read_committed") as resolver:
        assert resolver.first_readable(resolver.resolve()) == {0: 21, 1: 2}
