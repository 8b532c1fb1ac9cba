"""What the brokers say, and what follows from it. No I/O here: facts in, verdicts out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from jobs.settings import Settings
from udfs.core.errors import PreflightError
from udfs.core.retry import parse_delays


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic as the brokers describe it; times in milliseconds, -1 means for ever."""

    name: str
    # As Kafka's tools print it (URL-safe base 64). It changes when a topic is created anew.
    topic_id: str
    partitions: int
    # Of the partition that has the fewest.
    replicas: int
    # Partitions that nobody can read or write at the moment.
    leaderless: tuple[int, ...]
    cleanup_policy: frozenset[str]
    retention_ms: int
    delete_retention_ms: int
    min_insync_replicas: int
    timestamp_type: str
    # The largest batch of records, compressed, that the topic takes.
    max_message_bytes: int

    @property
    def compacted(self) -> bool:
        """Whether an older record of a key may be removed for a newer one."""
        return "compact" in self.cleanup_policy

    @property
    def expires(self) -> bool:
        """Whether records are removed by age."""
        return "delete" in self.cleanup_policy and self.retention_ms >= 0


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Everything that was read from the brokers; ``warnings`` are for printing."""

    cluster_id: str
    stream: TopicFacts
    table: TopicFacts
    enriched: TopicFacts
    retry: TopicFacts
    dead: TopicFacts
    # The lowest limit among the brokers. None: they did not tell, and nothing relies on it.
    transaction_max_timeout_ms: int | None
    # Further topics of enriched events, in the order of the settings.
    also: tuple[TopicFacts, ...] = ()
    stats: TopicFacts | None = None
    warnings: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[TopicFacts, ...]:
        """The topics that the job writes events to."""
        return self.enriched, self.retry, self.dead, *self.also

    @property
    def written(self) -> tuple[TopicFacts, ...]:
        """All topics that the job writes."""
        return self.outputs if self.stats is None else (*self.outputs, self.stats)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason not to submit: what is wrong, and what to do."""

    what: str
    remedy: str


def refuse(refusals: Iterable[Refusal]) -> None:
    """Raises one PreflightError with all refusals, if there are any."""
    found = list(refusals)
    if len(found) == 1:
        raise PreflightError(found[0].what, found[0].remedy)
    if found:
        lines = "".join(f"\n  - {refusal.what} {refusal.remedy}" for refusal in found)
        what = f"The brokers are not ready for this job:{lines}\n"
        raise PreflightError(what, "Nothing was submitted.")


def judge(settings: Settings, facts: ClusterFacts, notes: Iterable[str] = ()) -> ClusterFacts:
    """The facts with their warnings, ``notes`` first.

    Raises:
        PreflightError: when the job would fail or lose records.
    """
    refuse(_refusals(settings, facts))
    return replace(facts, warnings=(*notes, *_warnings(settings, facts)))


def _refusals(settings: Settings, facts: ClusterFacts) -> Iterator[Refusal]:
    retry = facts.retry
    if retry.compacted:
        yield Refusal(
            f"output.retry: topic {retry.name} has cleanup.policy={_policy(retry)}: compaction "
            "would remove a pending event when another of the same key is written.",
            f"Set cleanup.policy=delete on {retry.name}, or name another topic.",
        )
    for topic in facts.written:
        if topic.min_insync_replicas > topic.replicas:
            yield Refusal(
                f"Topic {topic.name} has min.insync.replicas={topic.min_insync_replicas} but "
                f"{topic.replicas} replicas: no write to it can succeed.",
                "Lower min.insync.replicas or add replicas.",
            )
    limit, wanted = facts.transaction_max_timeout_ms, settings.job.transaction_timeout_ms
    if settings.job.exactly_once and limit is not None and wanted > limit:
        yield Refusal(
            f"job.transaction_timeout_ms is {wanted}, and the brokers allow at most {limit} "
            "(transaction.max.timeout.ms).",
            f"Set it to {limit} or less, or raise the brokers' limit.",
        )


def _warnings(settings: Settings, facts: ClusterFacts) -> Iterator[str]:
    yield from _table_warnings(facts.table)
    if facts.stream.compacted:
        yield (
            f"stream topic {facts.stream.name} is compacted: an event is lost when a newer one has "
            "the same key, unless the job has read it by then"
        )
    for topic in facts.outputs:
        yield from _output_warnings(topic)
        # Retry records and dead letters have the event's own timestamp in a header.
        if topic.timestamp_type == "LogAppendTime" and topic not in (facts.retry, facts.dead):
            yield (
                f"output topic {topic.name} has message.timestamp.type=LogAppendTime: the events' "
                "own timestamps are replaced by the time of writing"
            )
        if topic.max_message_bytes < facts.stream.max_message_bytes:
            yield (
                f"output topic {topic.name} has max.message.bytes={topic.max_message_bytes}, less "
                f"than the stream topic's {facts.stream.max_message_bytes}: an event that does not "
                "fit the enriched topic becomes a dead letter, one that does not fit the retry or "
                "dead-letter topic stops the job"
            )
    longest_ms = max(parse_delays(settings.miss.retry_after), default=0)
    if 0 <= facts.retry.retention_ms < longest_ms:
        yield (
            f"retry topic {facts.retry.name} has retention.ms={facts.retry.retention_ms}, less "
            f"than the longest delay of miss.retry_after ({longest_ms} ms): a reload of the table "
            "reads the waiting records there once more, and would find some of them deleted"
        )
    for topic in (facts.stream, facts.table, *facts.written):
        if topic.leaderless:
            partitions = ", ".join(f"{topic.name}[{number}]" for number in topic.leaderless)
            yield f"{partitions} has no leader: the job waits for it"
    for key, side in (("stream", settings.stream), ("table", settings.table)):
        if settings.job.exactly_once and side.isolation_level == "read_uncommitted":
            yield (
                f'job.delivery is "exactly-once", but {key}.isolation_level is "read_uncommitted": '
                f"records of aborted transactions of {side.topic} reach the outputs"
            )


def _table_warnings(table: TopicFacts) -> Iterator[str]:
    gone = f"retention.ms={table.retention_ms} are gone at a cold start"
    if not table.compacted:
        kept = "every version of a row is kept, and read again at each cold start"
        yield (
            f"table topic {table.name} is not compacted (cleanup.policy={_policy(table)}): "
            + (f"rows older than {gone}" if table.expires else kept)
        )
    elif table.expires:
        yield (
            f"table topic {table.name} is compacted and deletes by age too: rows that did not "
            f"change for {gone}"
        )


def _output_warnings(topic: TopicFacts) -> Iterator[str]:
    # A compacted retry topic never gets here: it is refused.
    if topic.compacted:
        yield (
            f"output topic {topic.name} is compacted: of several records with one key only the "
            "last stays"
        )


def _policy(topic: TopicFacts) -> str:
    return ",".join(sorted(topic.cleanup_policy))
