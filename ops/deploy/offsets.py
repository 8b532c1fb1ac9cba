"""Hands the stream's offsets over from a savepoint to a job that starts without that savepoint.

A job that starts from a savepoint of the table alone begins the stream at the offsets of its
consumer group. Flink commits these when a checkpoint or savepoint completes, but in the background:
a job that stops may be gone before. So the offsets are read from the savepoint itself, compared
with the group's, and written where they differ; the group has no members then.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from jobs.preflight.admin import TIMEOUT_S, Admin
from jobs.settings import Settings
from ops.deploy.errors import DeployError
from ops.deploy.savepoints import RETRY_SOURCE, Savepoint, source_offsets
from ops.status.reader import committed_offsets


def differing(wanted: Mapping[int, int], committed: Mapping[int, int]) -> dict[int, int]:
    """The offsets that the group has to be given, by partition."""
    return {p: offset for p, offset in wanted.items() if committed.get(p) != offset}


def hand_over(old: Settings, new: Settings, savepoint: Savepoint) -> str:
    """Make the new version's consumer group stand where the savepoint does.

    Args:
        old: settings of the version that the savepoint is of.
        new: settings of the version that will read on.
        savepoint: the old version's.

    Returns:
        What was done, for a person.

    Raises:
        DeployError: the brokers did not take the offsets, or tell others afterwards.
        PreflightError: they do not answer.
    """
    topic, group = new.stream.topic, new.stream_group
    with Admin(new) as admin:
        # The retry topic's alike; what waited is written to it once more (``waiting``).
        if retry := retry_offsets(old, new, savepoint):
            _stand(admin, group, new.output.retry, retry)
        if old.stream.topic != topic:
            return (
                f"The stream's topic changed from {old.stream.topic} to {topic}: the new version "
                f"starts where group {group} stands, or else at the beginning."
            )
        wanted = source_offsets(savepoint, topic)
        set_anew = _stand(admin, group, topic, wanted)
    done = f"; {set_anew} were behind and were set" if set_anew else ""
    return f"Group {group} stands at the savepoint in {len(wanted)} partitions of {topic}{done}."


def retry_offsets(old: Settings, new: Settings, savepoint: Savepoint) -> dict[int, int]:
    """How far the old version had read the retry topic; none when the new one reads another.

    Raises DeployError as ``source_offsets``.
    """
    if not reads_the_same_retries(old, new):
        return {}
    return source_offsets(savepoint, new.output.retry, RETRY_SOURCE)


def reads_the_same_retries(old: Settings, new: Settings) -> bool:
    """Whether both versions read a retry topic, and the same one."""
    read = bool(old.miss.retry_after and new.miss.retry_after)
    return read and old.output.retry == new.output.retry


def _stand(admin: Admin, group: str, topic: str, wanted: Mapping[int, int]) -> int:
    """Set the group's offsets where they are others; how many these were."""
    missing = differing(wanted, committed_offsets(admin, group, topic, sorted(wanted)))
    if missing:
        _commit(admin, group, topic, missing)
        left = differing(wanted, committed_offsets(admin, group, topic, sorted(wanted)))
        if left:
            raise DeployError(
                f"Group {group} was given offsets of {topic} and tells others: {left}.",
                "Does another consumer use this group? Give the job one of its own.",
            )
    return len(missing)


def _commit(admin: Admin, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    request = ConsumerGroupTopicPartitions(
        group, [TopicPartition(topic, p, offset) for p, offset in sorted(offsets.items())]
    )
    question = admin.client.alter_consumer_group_offsets([request], request_timeout=TIMEOUT_S)
    try:
        found = admin.answer(question[group], f"offsets of consumer group {group} to be set")
    except KafkaException as error:
        raise DeployError(
            f"Group {group} was not given its offsets of {topic}: "
            f"{admin.scrub(error.args[0].str())}.",
            "Grant READ on the group; nobody else may be using it.",
        ) from None
    refused = [tp for tp in found.topic_partitions if tp.error is not None]
    if refused:
        raise DeployError(
            f"Group {group} was not given its offsets of "
            f"{', '.join(f'{topic}[{tp.partition}]: {tp.error}' for tp in refused)}.",
            "Grant READ on the group; nobody else may be using it.",
        )
