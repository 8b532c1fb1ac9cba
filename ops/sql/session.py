"""What the settings of a job become for a session that only looks. Pure.

A session reads the job's topics beside the job, and must not touch what the job keeps there: the
offsets of its consumer group and the transactions of its producers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobs.settings import ClientProperties, MissSettings, Settings
from jobs.settings.secrets import MASK
from jobs.sql.files import option_list
from jobs.sql.refusals import refuse

_OUTPUTS = ("ENRICHED_OPTIONS", "RETRY_OPTIONS", "DEAD_OPTIONS")


def for_session(settings: Settings, name: str, start: str | None) -> Settings:
    """The settings of session ``name``, which reads the stream from ``start``.

    ``start`` is that of ``stream.start``, whose value it is when None. Raises ConfigErrors for
    settings that SQL cannot keep. What becomes of a miss later is no such setting: a session tells
    a miss when it is decided, and ``notes`` says so.
    """
    start = start or settings.stream.start
    kafka, job, miss = settings.kafka, settings.job, settings.miss
    properties = kafka.properties
    # The job's own offsets are where "committed" begins; read, and never written.
    group = settings.stream_group if start == "committed" else f"{settings.stream_group}.{name}"
    own = properties.plain() | {"group.id": group, "commit.offsets.on.checkpoint": "false"}
    hidden = [key for key in properties if properties.shown(key) is MASK]
    # Kafka fences producers that share a transactional id: the running job's would be the one.
    prefix = f"{job.transactional_id_prefix}.{name}" if job.exactly_once else ""
    changed = settings.model_copy(
        update={
            "kafka": kafka.model_copy(update={"properties": ClientProperties(own, hidden)}),
            "stream": settings.stream.model_copy(update={"start": start}),
            "job": job.model_copy(update={"transactional_id_prefix": prefix}),
            "miss": miss.model_copy(update={"grace_ms": 0, "retry_after": ""}),
            # Where the job looks rows up is nothing to a query's answers.
            "join": settings.join.model_copy(update={"lookup_state": "keyed"}),
        }
    )
    refuse(changed)
    return changed


def for_reading(known: Mapping[str, str]) -> dict[str, str]:
    """The names with options that let the job's outputs be read, from their beginning."""
    more = {"scan.startup.mode": "earliest-offset", "properties.isolation.level": "read_committed"}
    return {
        name: f"{text}, {option_list(more)}" if name in _OUTPUTS else text
        for name, text in known.items()
    }


def notes(settings: Settings, start: str | None) -> Iterator[str]:
    """What whoever opens a session with these settings has to know of it."""
    start = start or settings.stream.start
    places = {
        "earliest": "from its beginning",
        "latest": "from its end on",
        "committed": f"from where the job's group {settings.stream_group} stands",
    }
    yield (
        f"Every query reads {settings.table.topic} whole, and {settings.stream.topic} "
        f"{places[start]} (--start); offsets are not committed."
    )
    if _waits(settings.miss):
        yield (
            "A miss is told at once here: the job's grace and retries (miss.grace_ms, "
            "miss.retry_after) may still find its row."
        )


def _waits(miss: MissSettings) -> bool:
    return bool(miss.grace_ms or miss.retry_after.strip(" ,"))
