"""What settings demand of each other, and of the client properties that are passed through.

A rule is a function over settings whose single values are valid; it yields what is wrong. Each rule
names the keys that it reads, so that a key which is already known to be wrong does not bring
consequential errors with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

from jobs import clients
from jobs.settings import topic_rules
from jobs.settings.problems import shown
from jobs.settings.secrets import UNSET, ClientProperties
from udfs.core.errors import ConfigError

if TYPE_CHECKING:
    from jobs.settings.model import KeySettings, Settings, TombstoneKeySettings

Check = Callable[["Settings"], Iterator[ConfigError]]


@dataclass(frozen=True)
class Rule:
    """A check, and the dotted keys that it reads."""

    keys: tuple[str, ...]
    check: Check

    def reads_any(self, faulty: Collection[str]) -> bool:
        """Whether one of the keys, a part of one or a table around one is in ``faulty``."""
        return any(
            key == bad or key.startswith(bad + ".") or bad.startswith(key + ".")
            for key in self.keys
            for bad in faulty
        )


def broken_rules(settings: Settings, faulty: Collection[str] = ()) -> list[ConfigError]:
    """What is wrong with settings whose values are valid one by one, ``faulty`` keys left aside."""
    return [
        problem for rule in RULES if not rule.reads_any(faulty) for problem in rule.check(settings)
    ]


# ------------------------------------------------------------------------------------------- job


def _parallelism(settings: Settings) -> Iterator[ConfigError]:
    job = settings.job
    if job.parallelism > job.max_parallelism:
        yield ConfigError(
            "job.parallelism",
            job.parallelism,
            f"give at most job.max_parallelism, which is {job.max_parallelism}; raising that one "
            "is possible only when the job starts without a savepoint",
        )


def _transactional_id_prefix(settings: Settings) -> Iterator[ConfigError]:
    job = settings.job
    key = "job.transactional_id_prefix"
    prefix = job.transactional_id_prefix
    if job.exactly_once and not prefix.strip():
        yield ConfigError(
            key,
            prefix,
            'job.delivery = "exactly-once" needs a prefix that no other job on these brokers uses, '
            f'e.g. "{job.name}"',
        )
    if not job.exactly_once and prefix:
        yield ConfigError(
            key, prefix, 'used only with job.delivery = "exactly-once": remove it or set that'
        )


def _fields_or_merge(settings: Settings) -> Iterator[ConfigError]:
    if not settings.table.fields and not settings.job.merge:
        yield ConfigError(
            "table.fields",
            UNSET,
            'name at least one field to add, e.g. tier = "customer_tier", or set job.merge',
        )


# ------------------------------------------------------------------------------------------ gate

_SECOND_MS = 1_000


def _on_stall(settings: Settings) -> Iterator[ConfigError]:
    gate = settings.gate
    if gate.on_stall == "open" and gate.continuous:
        yield ConfigError(
            "gate.on_stall",
            gate.on_stall,
            'gate.consistency = "continuous" promises that no event passes before the table is '
            'complete: use "wait" or "fail", or gate.consistency = "startup"',
        )


def _tick_interval(settings: Settings) -> Iterator[ConfigError]:
    interval = settings.gate.tick_interval_ms
    if _SECOND_MS % interval:
        yield ConfigError(
            "gate.tick_interval_ms", interval, "give a divisor of 1000, e.g. 100, 200, 250 or 500"
        )


def _window(settings: Settings) -> Iterator[ConfigError]:
    window = settings.stats.window_ms
    if window % _SECOND_MS:
        yield ConfigError("stats.window_ms", window, "give whole seconds, e.g. 10000")


# ------------------------------------------------------------------------------------------ keys


def _key_in(side: str) -> Rule:
    key = f"{side}.key"

    def check(settings: Settings) -> Iterator[ConfigError]:
        rule: KeySettings = getattr(settings, side).key
        if rule.from_ == "value":
            if not rule.path:
                yield ConfigError(
                    f"{key}.path",
                    UNSET,
                    f'{key}.from = "value" needs the path of the key field, e.g. "customer_id"',
                )
            if "format" in rule.model_fields_set:
                yield ConfigError(
                    f"{key}.format",
                    rule.format,
                    f'used only with {key}.from = "key" (a value is always JSON): remove it',
                )
        else:
            yield from _json_for_path(key, rule)

    return Rule((key,), check)


def _json_for_path(key: str, rule: KeySettings | TombstoneKeySettings) -> Iterator[ConfigError]:
    if rule.path and rule.format != "json":
        yield ConfigError(
            f"{key}.path",
            rule.path,
            f'a path needs a record key that is a JSON object: set {key}.format = "json", '
            "or remove the path",
        )


def _tombstone_key(settings: Settings) -> Iterator[ConfigError]:
    key = "table.tombstone_key"
    rule = settings.table.tombstone_key
    if settings.table.key.from_ == "value" and rule is None:
        yield ConfigError(
            key,
            UNSET,
            'table.key.from = "value", and a tombstone has no value: say where the same key stands '
            'in the record key, e.g. [table.tombstone_key] with format = "json", path = "id"',
        )
    if settings.table.key.from_ == "key" and rule is not None:
        yield ConfigError(
            key,
            shown(key, {}),
            'used only with table.key.from = "value": remove it '
            "(table.key already reads the record key)",
        )
    if rule is not None:
        yield from _json_for_path(key, rule)


# ---------------------------------------------------------------------------------------- fields


def _enriched_names(settings: Settings) -> Iterator[ConfigError]:
    owners: dict[str, str] = {}
    for path, name in settings.table.fields.items():
        key = f"table.fields.{path}"
        if not path or not all(path.split(".")):
            yield ConfigError(
                key, name, 'give field names separated by single dots, e.g. "address.city"'
            )
        if not name.strip():
            yield ConfigError(key, name, "give the field a name in the enriched record")
        elif name in owners:
            yield ConfigError(
                key, name, f"table.fields.{owners[name]} has this name already: give another"
            )
        owners.setdefault(name, path)


def _verdict_field(settings: Settings) -> Iterator[ConfigError]:
    name = settings.miss.verdict_field
    if name in settings.table.fields.values():
        yield ConfigError(
            "miss.verdict_field", name, "a field of the row has this name: give another"
        )


# ----------------------------------------------------------------------------- client properties

_BOOTSTRAP = "set kafka.bootstrap_servers instead"
_ISOLATION = "set stream.isolation_level and table.isolation_level instead"
_START = "set stream.start instead; the table is always read from the beginning"
_BYTES = "remove it: the job reads and writes bytes and decodes them itself"
_COMMIT = "remove it: positions are kept in Flink's state, and Flink commits at checkpoints"
_TRANSACTION = "set job.transactional_id_prefix instead"

OWNED_JAVA = {
    "bootstrap.servers": _BOOTSTRAP,
    "isolation.level": _ISOLATION,
    "auto.offset.reset": _START,
    "enable.auto.commit": _COMMIT,
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "transactional.id": _TRANSACTION,
    "transaction.timeout.ms": "set job.transaction_timeout_ms instead",
}
OWNED_LIBRDKAFKA = {
    "bootstrap.servers": _BOOTSTRAP,
    "metadata.broker.list": _BOOTSTRAP,
    "isolation.level": _ISOLATION,
    "auto.offset.reset": _START,
    "enable.auto.commit": _COMMIT,
    "enable.auto.offset.store": _COMMIT,
    "enable.partition.eof": "remove it: the gate sets it",
    "group.id": "remove it: the gate reads without a consumer group",
    "transactional.id": _TRANSACTION,
}


def _owned(table: str, owned: dict[str, str]) -> Rule:
    key = f"kafka.{table}"

    def check(settings: Settings) -> Iterator[ConfigError]:
        properties: ClientProperties = getattr(settings.kafka, table)
        for name in properties:
            if name in owned:
                yield ConfigError(f"{key}.{name}", properties.shown(name), owned[name])

    # A single bad value in the table does not hide that another one is not the user's to set.
    return Rule((), check)


def _acks(settings: Settings) -> Iterator[ConfigError]:
    properties = settings.kafka.properties
    if properties.plain().get("acks", "all") not in {"all", "-1"}:
        yield ConfigError(
            "kafka.properties.acks",
            properties.shown("acks"),
            'give "all" or remove it: with less, a record is lost when a broker dies, '
            "and neither delivery guarantee holds",
        )


def _python_side(settings: Settings) -> Iterator[ConfigError]:
    kafka = settings.kafka
    properties = kafka.properties
    translation = clients.translate(properties.plain(), kafka.librdkafka.plain(), properties.shown)
    yield from translation.problems


RULES: tuple[Rule, ...] = (
    Rule(("job.parallelism", "job.max_parallelism"), _parallelism),
    Rule(("job.delivery", "job.transactional_id_prefix", "job.name"), _transactional_id_prefix),
    _owned("properties", OWNED_JAVA),
    _owned("librdkafka", OWNED_LIBRDKAFKA),
    Rule(("kafka.properties.acks",), _acks),
    Rule(("kafka.properties", "kafka.librdkafka"), _python_side),
    _key_in("stream"),
    _key_in("table"),
    Rule(("table.key.from", "table.tombstone_key"), _tombstone_key),
    Rule(("table.fields", "job.merge"), _fields_or_merge),
    Rule(("table.fields",), _enriched_names),
    Rule(("table.fields", "miss.verdict_field"), _verdict_field),
    Rule(("gate.on_stall", "gate.consistency"), _on_stall),
    Rule(("gate.tick_interval_ms",), _tick_interval),
    *(
        Rule(pair, partial(topic_rules.distinct, pair))
        for pair in combinations(topic_rules.TOPIC_KEYS, 2)
    ),
    Rule((*topic_rules.TOPIC_KEYS, "output.also", "stats.topic"), topic_rules.further_are_distinct),
    Rule(("output.on_miss", "output.also"), topic_rules.on_miss),
    Rule(("stats.window_ms",), _window),
)
