"""Facts of brokers that nobody asked: what a healthy cluster says of the five topics."""

from dataclasses import replace
from typing import Any

from jobs.preflight.facts import ClusterFacts, TopicFacts

DAY_MS = 86_400_000


def topic(name: str, **changes: Any) -> TopicFacts:
    plain = TopicFacts(
        name=name,
        topic_id="AAAAAAAAAAAAAAAAAAAAAA",
        partitions=2,
        replicas=3,
        leaderless=(),
        cleanup_policy=frozenset({"delete"}),
        retention_ms=-1,
        delete_retention_ms=DAY_MS,
        min_insync_replicas=2,
        timestamp_type="CreateTime",
        max_message_bytes=1_048_588,
    )
    return replace(plain, **changes)


COMPACT = frozenset({"compact"})
BOTH = frozenset({"compact", "delete"})
HEALTHY = ClusterFacts(
    cluster_id="c",
    stream=topic("orders"),
    table=topic("customers", cleanup_policy=COMPACT),
    enriched=topic("e"),
    retry=topic("r"),
    dead=topic("d"),
    transaction_max_timeout_ms=900_000,
)
