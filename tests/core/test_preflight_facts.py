"""What follows from the facts that the brokers tell; no broker is needed for that."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.preflight.facts import ClusterFacts, judge
from jobs.settings import Settings, from_mapping
from tests.support.facts import BOTH, COMPACT, HEALTHY, topic
from udfs.core.errors import PreflightError


def settings(**changes: dict[str, Any]) -> Settings:
    data: dict[str, dict[str, Any]] = {
        "job": {"name": "orders-enrich"},
        "kafka": {"bootstrap_servers": "a:9092"},
        "stream": {"topic": "orders", "key": {"from": "key"}},
        "table": {"topic": "customers", "fields": {"tier": "tier"}},
        "output": {"enriched": "e", "retry": "r", "dead": "d"},
    }
    for section, values in changes.items():
        data[section] |= values
    return from_mapping(data)


EXACTLY_ONCE = {"delivery": "exactly-once", "transactional_id_prefix": "x"}


def refusal(facts: ClusterFacts, **changes: dict[str, Any]) -> str:
    with pytest.raises(PreflightError) as caught:
        judge(settings(**changes), facts)
    return str(caught.value)


def test_healthy_brokers_give_no_warning() -> None:
    assert judge(settings(job=EXACTLY_ONCE), HEALTHY) == HEALTHY


@pytest.mark.parametrize("policy", [COMPACT, BOTH])
def test_a_compacted_retry_topic_is_refused(policy: frozenset[str]) -> None:
    facts = replace(HEALTHY, retry=topic("r", cleanup_policy=policy))
    text = refusal(facts)
    assert f"topic r has cleanup.policy={','.join(sorted(policy))}" in text
    assert "Set cleanup.policy=delete on r" in text


def test_a_transaction_timeout_above_the_brokers_limit_is_refused_with_both_numbers() -> None:
    facts = replace(HEALTHY, transaction_max_timeout_ms=60_000)
    text = refusal(facts, job=EXACTLY_ONCE)
    assert "job.transaction_timeout_ms is 900000" in text
    assert "at most 60000" in text
    # At the limit it is allowed, and without transactions nobody asks.
    judge(settings(job=EXACTLY_ONCE | {"transaction_timeout_ms": 60_000}), facts)
    judge(settings(), facts)
    judge(settings(), replace(HEALTHY, transaction_max_timeout_ms=None))


@pytest.mark.parametrize("role", ["enriched", "retry", "dead"])
def test_an_output_that_cannot_have_enough_replicas_is_refused(role: str) -> None:
    changes: dict[str, Any] = {role: topic("x", replicas=1)}
    facts = replace(HEALTHY, **changes)
    assert "Topic x has min.insync.replicas=2 but 1 replicas" in refusal(facts)


def test_several_refusals_come_at_once() -> None:
    facts = replace(HEALTHY, retry=topic("r", cleanup_policy=COMPACT), dead=topic("d", replicas=1))
    text = refusal(facts)
    assert text.startswith("The brokers are not ready for this job:\n  - output.retry")
    assert "\n  - Topic d has min.insync.replicas" in text
    assert text.endswith("\nNothing was submitted.")


@pytest.mark.parametrize(
    ("facts", "warning"),
    [
        ({"table": topic("t")}, "t is not compacted (cleanup.policy=delete): every version"),
        ({"table": topic("t", retention_ms=5)}, "rows older than retention.ms=5 are gone"),
        (
            {"table": topic("t", cleanup_policy=BOTH, retention_ms=5)},
            "rows that did not change for retention.ms=5 are gone",
        ),
        ({"stream": topic("s", cleanup_policy=COMPACT)}, "stream topic s is compacted"),
        ({"enriched": topic("e", cleanup_policy=COMPACT)}, "output topic e is compacted"),
        ({"dead": topic("d", cleanup_policy=BOTH)}, "output topic d is compacted"),
        ({"enriched": topic("e", timestamp_type="LogAppendTime")}, "e has message.timestamp.type"),
        ({"retry": topic("r", retention_ms=3_599_999)}, "the longest delay of miss.retry_after"),
        ({"stream": topic("s", leaderless=(0, 3))}, "s[0], s[3] has no leader"),
    ],
)
def test_what_only_looks_wrong_is_a_warning(facts: dict[str, Any], warning: str) -> None:
    found = judge(settings(), replace(HEALTHY, **facts)).warnings
    assert [warning in text for text in found] == [True]


def test_an_output_that_takes_less_than_the_stream_is_a_warning() -> None:
    facts = replace(HEALTHY, retry=topic("r", max_message_bytes=1_000))
    (warning,) = judge(settings(), facts).warnings
    assert "output topic r has max.message.bytes=1000" in warning


def test_retry_records_and_dead_letters_may_have_the_time_of_their_writing() -> None:
    facts = replace(
        HEALTHY,
        retry=topic("r", timestamp_type="LogAppendTime", retention_ms=3_600_000),
        dead=topic("d", timestamp_type="LogAppendTime"),
    )
    assert judge(settings(), facts).warnings == ()


def test_a_table_kept_for_ever_by_both_policies_is_fine() -> None:
    facts = replace(HEALTHY, table=topic("t", cleanup_policy=BOTH, retention_ms=-1))
    assert judge(settings(), facts).warnings == ()


@pytest.mark.parametrize("side", ["stream", "table"])
def test_exactly_once_over_uncommitted_records_is_a_warning(side: str) -> None:
    uncommitted = {side: {"isolation_level": "read_uncommitted"}}
    (warning,) = judge(settings(job=EXACTLY_ONCE, **uncommitted), HEALTHY).warnings
    assert f"{side}.isolation_level" in warning
    assert judge(settings(**uncommitted), HEALTHY).warnings == ()


def test_notes_of_the_translation_stand_among_the_warnings() -> None:
    assert judge(settings(), HEALTHY, ["a note"]).warnings == ("a note",)
