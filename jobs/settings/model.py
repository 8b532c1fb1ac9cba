"""The settings of the join job, as frozen values; one class for each table of the TOML file.

The model knows shapes, types and ranges of single values. What two settings demand of each other
stands in ``rules``; reading a file, overrides and the environment in ``source``.
``docs/configuration.md`` explains every setting to its users.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from jobs.settings.problems import ConfigErrors
from jobs.settings.rules import broken_rules
from jobs.settings.secrets import ClientProperties, TextTable
from jobs.settings.toml_text import describe
from jobs.settings.topic_rules import topic_name
from udfs.core.misses import GRACE_LIMIT_MS, OnMiss
from udfs.core.retry import parse_delays

_BROKER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]):(\d{1,5})")
_MERGE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_PORT_MAX = 65_535

# Flink refuses more key groups than this (KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM).
MAX_PARALLELISM_LIMIT = 32_768
_INT_MAX = 2**31 - 1


def _topic_or_none(name: str) -> str:
    return topic_name(name) if name else name


def _brokers(text: str) -> str:
    for entry in text.split(","):
        match = _BROKER.fullmatch(entry.strip())
        if match is None or not 0 < int(match[1]) <= _PORT_MAX:
            raise ValueError(
                'give host:port, several separated by commas, e.g. "kafka-1:9092,kafka-2:9092"'
            )
    return text


def _path(path: str) -> str:
    if path and not all(path.split(".")):
        raise ValueError('give names separated by single dots, e.g. "customer.id"')
    return path


def _merge(path: str) -> str:
    if path and not _MERGE.fullmatch(path):
        raise ValueError('give "module:function", e.g. "acme.joins:add_tier"')
    return path


def _delays(text: str) -> str:
    # One form of "none", so that whoever asks whether there are any may ask the text.
    return text if parse_delays(text) else ""


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("give a text that is not empty")
    return text


Topic = Annotated[str, AfterValidator(topic_name)]
Path = Annotated[str, AfterValidator(_path)]
Isolation = Literal["read_committed", "read_uncommitted"]
KeyFormat = Literal["text", "json"]


class _Table(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        # The input may hold a password; pydantic would print it in its error.
        hide_input_in_errors=True,
    )


class JobSettings(_Table):
    """``[job]``: the job as Flink sees it."""

    name: Annotated[str, AfterValidator(_not_blank)]
    parallelism: int = Field(default=1, ge=1, le=MAX_PARALLELISM_LIMIT)
    max_parallelism: int = Field(default=128, ge=1, le=MAX_PARALLELISM_LIMIT)
    delivery: Literal["at-least-once", "exactly-once"] = "at-least-once"
    transactional_id_prefix: str = ""
    transaction_timeout_ms: int = Field(default=900_000, ge=10_000, le=_INT_MAX)
    merge: Annotated[str, AfterValidator(_merge)] = ""

    @property
    def exactly_once(self) -> bool:
        """Whether the outputs are written in Kafka transactions."""
        return self.delivery == "exactly-once"


class KafkaSettings(_Table):
    """``[kafka]``: where the brokers are and how to reach them."""

    bootstrap_servers: Annotated[str, AfterValidator(_brokers)]
    properties: ClientProperties = ClientProperties()
    librdkafka: ClientProperties = ClientProperties()


class KeySettings(_Table):
    """Where a record's join key is: in the value's JSON, or in the record key."""

    from_: Literal["value", "key"] = Field(alias="from")
    path: Path = ""
    # Says nothing when the key is in the value: that is always JSON.
    format: KeyFormat = "text"


class TableKeySettings(KeySettings):
    """``[table.key]``: as ``[stream.key]``, but a table's key is usually the record key."""

    from_: Literal["value", "key"] = Field(default="key", alias="from")


class TombstoneKeySettings(_Table):
    """``[table.tombstone_key]``: where a tombstone, having no value, holds its join key."""

    format: KeyFormat = "text"
    path: Path = ""


class StreamSettings(_Table):
    """``[stream]``: the topic of events."""

    topic: Topic
    start: Literal["earliest", "latest", "committed"] = "earliest"
    isolation_level: Isolation = "read_committed"
    key: KeySettings


class TableSettings(_Table):
    """``[table]``: the compacted topic of rows, and what of a row is added to an event."""

    topic: Topic
    format: Literal["json", "debezium-json"] = "json"
    isolation_level: Isolation = "read_committed"
    key: TableKeySettings = TableKeySettings()
    tombstone_key: TombstoneKeySettings | None = None
    # Field path in the row = name in the enriched record.
    fields: TextTable = TextTable()


class OutputSettings(_Table):
    """``[output]``: the topics that the job writes, and what they get when there is no row."""

    enriched: Topic
    retry: Topic
    dead: Topic
    on_miss: Literal["route", "emit_null", "hold"] = "route"
    # Further topic of enriched events = its on_miss.
    also: TextTable = TextTable()

    def on_miss_of(self) -> dict[str, OnMiss]:
        """What each topic of enriched events gets when there is no row; the main one first."""
        return {topic: OnMiss(how) for topic, how in self._enriched()}

    def _enriched(self) -> Iterator[tuple[str, str]]:
        yield self.enriched, self.on_miss
        yield from self.also.items()


class GateSettings(_Table):
    """``[gate]``: how long events wait for the table, and what happens when it does not come."""

    pause_stream: bool = True
    consistency: Literal["startup", "continuous"] = "startup"
    on_stall: Literal["wait", "fail", "open"] = "wait"
    stall_after_ms: int = Field(default=60_000, ge=1_000, le=_INT_MAX)
    max_table_lag_ms: int = Field(default=60_000, ge=1_000, le=_INT_MAX)
    tick_interval_ms: int = Field(default=1_000, ge=20, le=1_000)
    max_clock_skew_ms: int = Field(default=50, ge=0, le=60_000)
    on_expired_tombstones: Literal["warn", "fail"] = "warn"

    @property
    def continuous(self) -> bool:
        """Whether each event waits until the table is complete up to the time it was read."""
        return self.consistency == "continuous"


class JoinSettings(_Table):
    """``[join]``: where the join looks rows up."""

    lookup_state: Literal["keyed", "broadcast"] = "keyed"
    cached_rows: int = Field(default=100_000, ge=0, le=_INT_MAX)


class MissSettings(_Table):
    """``[miss]``: what happens to an event that finds no row."""

    grace_ms: int = Field(default=5_000, ge=0, le=GRACE_LIMIT_MS)
    retry_after: Annotated[str, AfterValidator(_delays)] = "10 s, 5 min, 1 h"
    verdict_field: Annotated[str, AfterValidator(_not_blank)] = "tablegate_verdict"


class StatsSettings(_Table):
    """``[stats]``: where the hit rate is told."""

    topic: Annotated[str, AfterValidator(_topic_or_none)] = ""
    window_ms: int = Field(default=10_000, ge=1_000, le=86_400_000)


class Settings(_Table):
    """Everything that the job is told. Made by ``load`` or ``from_mapping``.

    Raises:
        ConfigErrors: when settings contradict each other or one is half-set.
    """

    job: JobSettings
    kafka: KafkaSettings
    stream: StreamSettings
    table: TableSettings
    output: OutputSettings
    gate: GateSettings = GateSettings()
    join: JoinSettings = JoinSettings()
    miss: MissSettings = MissSettings()
    stats: StatsSettings = StatsSettings()

    @model_validator(mode="after")
    def _hold_the_rules(self, info: ValidationInfo) -> Settings:
        if not (isinstance(info.context, dict) and info.context.get("shapes_only")):
            problems = broken_rules(self)
            if problems:
                raise ConfigErrors(problems)
        return self

    @property
    def stream_group(self) -> str:
        """The consumer group that the stream's offsets are committed to."""
        return self.kafka.properties.plain().get("group.id") or self.job.name

    def describe(self) -> str:
        """All settings, defaults included, as TOML; secrets are ``***``."""
        return describe(self)


def key_names(model: type[BaseModel] = Settings, prefix: str = "") -> dict[str, Any]:
    """Dotted name in the TOML file to annotation; a table of free keys is one name."""
    names: dict[str, Any] = {}
    for attribute, field in model.model_fields.items():
        name = prefix + (field.alias or attribute)
        inner = table_class(field.annotation)
        if inner is None:
            names[name] = field.annotation
        else:
            names |= key_names(inner, name + ".")
    return names


def table_class(annotation: Any) -> type[BaseModel] | None:
    """The settings class behind an annotation such as ``TombstoneKeySettings | None``, if any."""
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
