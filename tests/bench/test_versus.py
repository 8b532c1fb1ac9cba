"""The harness of `bench.versus` on a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import records
from bench.systems.limit_broker import LimitBroker
from bench.versus import filling
from bench.versus.ground import Size
from bench.versus.phases import Ground, Plan, measure
from ops.demo import topics
from tests.support.kafka import Kafka

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.timeout(300)]


def test_what_was_filled_in_passes_by_once_from_any_offsets_on(kafka: Kafka) -> None:
    topic = kafka.create_topic("filled", 4, topics.KEEP)
    brokers = kafka.bootstrap_servers
    assert filling.fill(brokers, topic, records.events(0, 25_000, 100, 1)) == 25_000
    before = topics.ends(brokers, topic)
    filling.fill(brokers, topic, records.events(25_000, 5_000, 100, 1))
    all_of_it = sorted(int((m.key() or b"")[1:]) for m in filling.passed(brokers, topic))
    behind = sorted(int((m.key() or b"")[1:]) for m in filling.passed(brokers, topic, before))
    assert all_of_it == list(range(30_000))
    assert behind == list(range(25_000, 30_000))
    assert list(filling.passed(brokers, topic, topics.ends(brokers, topic))) == []


def test_a_limit_is_measured_over_the_middle_of_its_backlog(kafka: Kafka, tmp_path: Path) -> None:
    plan = Plan(Size(1_000, 100), seconds=2.0, latency_seconds=2.0, limit_events=6_000_000)
    found = measure(Ground(kafka.bootstrap_servers, tmp_path), LimitBroker(), plan, "limit-test")
    assert found.events_per_s > 0
    assert 1.0 <= found.seconds <= 3.0
    assert 0 < found.p50_ms <= found.p99_ms
    assert found.wrong_warm == 0
