"""The configuration file: what is accepted, what is refused, and how the refusal reads."""

import pickle
import tomllib
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.rules import join_rules
from jobs.settings import ConfigErrors, Settings, from_mapping, key_names, load, load_merge
from udfs.core.errors import ConfigError
from udfs.join_rules import Lookup

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "conf" / "orders.toml"

MINIMAL: dict[str, Any] = {
    "job": {"name": "orders-enrich"},
    "kafka": {"bootstrap_servers": "localhost:9092"},
    "stream": {"topic": "orders", "key": {"from": "value", "path": "customer_id"}},
    "table": {"topic": "customers", "fields": {"tier": "customer_tier"}},
    "output": {"enriched": "orders.enriched", "retry": "orders.retry", "dead": "orders.dead"},
}
REMOVE = object()


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    data = deepcopy(MINIMAL)
    for key, value in changes.items():
        *outer, last = key.split("/")
        table = data
        for part in outer:
            table = table.setdefault(part, {})
        if value is REMOVE:
            del table[last]
        else:
            table[last] = value
    return data


def problems(changes: dict[str, Any], environment: dict[str, str] | None = None) -> dict[str, str]:
    with pytest.raises(ConfigErrors) as caught:
        from_mapping(changed(changes), environment or {})
    return {problem.key: problem.remedy for problem in caught.value.problems}


def write(folder: Path, text: str) -> Path:
    path = folder / "job.toml"
    path.write_text(text)
    return path


# ------------------------------------------------------------------------- the file as it should be


def test_the_smallest_file_gets_the_documented_defaults() -> None:
    settings = from_mapping(MINIMAL)
    assert settings.job.parallelism == 1
    assert settings.job.max_parallelism == 128
    assert settings.job.delivery == "at-least-once"
    assert settings.job.transaction_timeout_ms == 900_000
    assert settings.stream.start == "earliest"
    assert settings.stream.isolation_level == "read_committed"
    assert settings.table.isolation_level == "read_committed"
    assert settings.table.format == "json"
    assert settings.table.key.from_ == "key"
    assert settings.table.key.format == "text"
    assert settings.table.tombstone_key is None
    assert settings.gate.pause_stream
    assert settings.gate.consistency == "startup"
    assert settings.gate.on_stall == "wait"


def test_the_example_file_is_accepted_and_names_every_setting() -> None:
    settings = load(EXAMPLE)
    assert settings.table.fields == {"tier": "customer_tier"}
    text = EXAMPLE.read_text()
    for name in key_names():
        leaf = name.rpartition(".")[2]
        assert f"{leaf} = " in text or f"[{name}]" in text, name


def test_the_example_file_is_accepted_with_its_comments_taken_out(tmp_path: Path) -> None:
    def uncomment(line: str) -> str:
        is_setting = line.startswith("# ") and (" = " in line or line.startswith("# ["))
        return line[2:] if is_setting and line[2].islower() | (line[2] == "[") else line

    lines = [uncomment(line) for line in EXAMPLE.read_text().splitlines()]
    tomllib.loads("\n".join(lines))
    # Alternatives exclude each other, so the whole cannot be loaded; every line must at least be
    # TOML and a setting that exists.
    with pytest.raises(ConfigErrors) as caught:
        load(write(tmp_path, "\n".join(lines)))
    assert not [p for p in caught.value.problems if "no such setting" in p.remedy]


def test_the_manual_has_exactly_the_settings_of_the_model() -> None:
    rows = [
        line.split("`")[1]
        for line in (ROOT / "docs" / "configuration.md").read_text().splitlines()
        if line.startswith("| `") and line.split("`")[1].split(".")[0] in Settings.model_fields
    ]
    assert rows == list(key_names())


def test_the_join_is_told_where_to_look_rows_up_and_how_many_to_remember() -> None:
    rules = join_rules(from_mapping(changed({})))
    assert (rules.lookup, rules.cached_rows) == (Lookup.KEYED, 100_000)
    join = {"lookup_state": "broadcast", "cached_rows": 7}
    rules = join_rules(from_mapping(changed({"join": join})))
    assert (rules.lookup, rules.cached_rows) == (Lookup.BROADCAST, 7)


def test_keys_without_quotes_are_read_as_dotted_names(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        EXAMPLE.read_text().replace("[kafka.properties]", '[kafka.properties]\nclient.id = "a"'),
    )
    assert load(path).kafka.properties.plain() == {"client.id": "a"}


def test_numbers_and_booleans_become_the_text_that_java_reads() -> None:
    data = changed({"kafka/properties": {"fetch.min.bytes": 1, "check.crcs": True}})
    plain = from_mapping(data).kafka.properties.plain()
    assert plain == {"fetch.min.bytes": "1", "check.crcs": "true"}


def test_settings_are_frozen_and_hashable() -> None:
    settings = from_mapping(MINIMAL)
    with pytest.raises(Exception, match="frozen"):
        settings.job.name = "x"
    assert hash(settings) == hash(from_mapping(MINIMAL))


def test_settings_survive_pickling_with_their_real_values() -> None:
    settings = from_mapping(changed({"kafka/properties": {"client.id": "a"}}))
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 (our own bytes)


def test_the_callers_mapping_is_left_as_it_was() -> None:
    data = changed({"kafka/properties": {"client": {"id": "${env:ID}"}}})
    before = deepcopy(data)
    from_mapping(data, {"ID": "a"})
    assert data == before


# --------------------------------------------------------------------------------------- overrides


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("job.parallelism=4", lambda s: s.job.parallelism == 4),
        ("gate.pause_stream=false", lambda s: s.gate.pause_stream is False),
        ("job.name=plain text", lambda s: s.job.name == "plain text"),
        ('job.name="quoted"', lambda s: s.job.name == "quoted"),
        ("stream.topic=2024", lambda s: s.stream.topic == "2024"),
        ("stream.topic=2024-01-01", lambda s: s.stream.topic == "2024-01-01"),
        ("stream.start=latest", lambda s: s.stream.start == "latest"),
        ("table.fields.address.city=town", lambda s: s.table.fields["address.city"] == "town"),
        ("table.fields={a='b'}", lambda s: s.table.fields == {"a": "b"}),
        ("table.fields.tier=012", lambda s: s.table.fields["tier"] == "012"),
        (
            "kafka.properties.security.protocol=PLAINTEXT",
            lambda s: s.kafka.properties.plain() == {"security.protocol": "PLAINTEXT"},
        ),
        (
            "kafka.librdkafka.sasl.password=0x10=1_000",
            lambda s: s.kafka.librdkafka.plain() == {"sasl.password": "0x10=1_000"},
        ),
        (
            "kafka.librdkafka.sasl.password=1_000",
            lambda s: s.kafka.librdkafka.plain() == {"sasl.password": "1_000"},
        ),
        ("stream.key.path=customer.id", lambda s: s.stream.key.path == "customer.id"),
    ],
)
def test_an_override_changes_one_setting(override: str, read: Any) -> None:
    assert read(load(EXAMPLE, [override]))


def test_the_last_override_wins() -> None:
    assert load(EXAMPLE, ["job.parallelism=4", "job.parallelism=5"]).job.parallelism == 5


def test_an_override_with_a_line_break_cannot_bring_a_second_key() -> None:
    settings = load(EXAMPLE, ["job.name=1\nparallelism = 9"])
    assert settings.job.name == "1\nparallelism = 9"
    with pytest.raises(ConfigErrors, match=r"job\.parallelism = '1\\nvalue2 = 9': give a whole"):
        load(EXAMPLE, ["job.parallelism=1\nvalue2 = 9"])


@pytest.mark.parametrize("override", ["hunter2", "=hunter2", "job..name=hunter2", ".=hunter2"])
def test_a_malformed_override_is_refused_without_its_text(override: str) -> None:
    with pytest.raises(ConfigErrors, match="--set number 1") as caught:
        load(EXAMPLE, [override])
    assert "hunter2" not in str(caught.value)


def test_an_override_below_a_plain_value_is_refused() -> None:
    with pytest.raises(ConfigErrors, match=r"job\.name is one value, not a table"):
        load(EXAMPLE, ["job.name.first=x"])


# ---------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("changes", "key", "remedy"),
    [
        # Misspelt, missing, of a wrong kind.
        ({"job/paralelism": 2}, "job.paralelism", "did you mean job.parallelism?"),
        ({"stream/enriched": "x"}, "stream.enriched", "did you mean output.enriched?"),
        ({"kafak": {}}, "kafak", "no such setting"),
        ({"stream/topic": REMOVE}, "stream.topic", "no default"),
        ({"output": REMOVE}, "output", "add the table [output]; its settings are enriched"),
        ({"stream/key": REMOVE}, "stream.key", "add the table [stream.key]"),
        ({"job/parallelism": "2"}, "job.parallelism", "whole number without quotes"),
        ({"job/parallelism": True}, "job.parallelism", "whole number without quotes"),
        ({"job/parallelism": 1.5}, "job.parallelism", "whole number without quotes"),
        ({"gate/pause_stream": "yes"}, "gate.pause_stream", "true or false"),
        ({"job": 3}, "job", "[header]"),
        ({"table/fields": ["tier"]}, "table.fields", "a table of keys and texts"),
        ({"kafka/properties": "x"}, "kafka.properties", "a table of keys and texts"),
        ({"kafka/properties": {"a": 1.5}}, "kafka.properties.a", "text in quotes"),
        ({"table/fields/tier": 5}, "table.fields.tier", "text in quotes"),
        ({"job/delivery": "exactly_once"}, "job.delivery", "'at-least-once' or 'exactly-once'"),
        ({"job/name": " "}, "job.name", "not empty"),
        # Ranges.
        ({"job/parallelism": 0}, "job.parallelism", "at least 1"),
        ({"job/parallelism": 129}, "job.parallelism", "at most job.max_parallelism, which is 128"),
        ({"job/max_parallelism": 0}, "job.max_parallelism", "at least 1"),
        ({"gate/tick_interval_ms": 300}, "gate.tick_interval_ms", "a divisor of 1000"),
        ({"gate/on_stall": "open", "gate/consistency": "continuous"}, "gate.on_stall", "promises"),
        ({"job/max_parallelism": 32_769}, "job.max_parallelism", "at most 32768"),
        ({"job/transaction_timeout_ms": 9_999}, "job.transaction_timeout_ms", "at least 10000"),
        # Delivery.
        (
            {"job/delivery": "exactly-once"},
            "job.transactional_id_prefix",
            "no other job on these brokers uses",
        ),
        ({"job/transactional_id_prefix": "x"}, "job.transactional_id_prefix", "used only with"),
        # Merge and fields.
        ({"job/merge": "acme.joins"}, "job.merge", "module:function"),
        ({"job/merge": "acme:joins:x"}, "job.merge", "module:function"),
        ({"table/fields": REMOVE}, "table.fields", "or set job.merge"),
        ({"table/fields/name": "customer_tier"}, "table.fields.name", "table.fields.tier has"),
        ({"table/fields/name": ""}, "table.fields.name", "give the field a name"),
        ({"table/fields/a..b": "c"}, "table.fields.a..b", "single dots"),
        # Keys.
        ({"stream/key/path": REMOVE}, "stream.key.path", "needs the path of the key field"),
        ({"stream/key/path": ".id"}, "stream.key.path", "single dots"),
        ({"stream/key/format": "json"}, "stream.key.format", "a value is always JSON"),
        ({"stream/key": {"from": "key", "path": "id"}}, "stream.key.path", 'format = "json"'),
        ({"table/key": {"path": "id"}}, "table.key.path", 'table.key.format = "json"'),
        (
            {"table/key": {"from": "value", "path": "id"}},
            "table.tombstone_key",
            "a tombstone has no value",
        ),
        ({"table/tombstone_key": {}}, "table.tombstone_key", 'only with table.key.from = "value"'),
        (
            {"table/key": {"from": "value", "path": "id"}, "table/tombstone_key": {"path": "id"}},
            "table.tombstone_key.path",
            'table.tombstone_key.format = "json"',
        ),
        # Topics.
        ({"stream/topic": ""}, "stream.topic", "topic name"),
        ({"stream/topic": ".."}, "stream.topic", "topic name"),
        ({"stream/topic": "a" * 250}, "stream.topic", "249"),
        ({"stream/topic": "a b"}, "stream.topic", "ASCII letters"),
        ({"stream/topic": "ö"}, "stream.topic", "ASCII letters"),
        ({"output/dead": "orders.retry"}, "output.dead", "output.retry is the same topic"),
        ({"table/topic": "orders"}, "table.topic", "stream.topic is the same topic"),
        ({"output/dead": "orders_retry"}, "output.dead", "differ only in '.' and '_'"),
        ({"output/also": {"orders.dead": "route"}}, "output.also.orders.dead", "output.dead is"),
        ({"output/also": {"a b": "route"}}, "output.also.a b", "ASCII letters"),
        ({"stats/topic": "orders"}, "stats.topic", "stream.topic is the same topic"),
        ({"stats/topic": "a b"}, "stats.topic", "ASCII letters"),
        (
            {"output/also": {"x.live": "route"}, "stats/topic": "x_live"},
            "stats.topic",
            "differ only in",
        ),
        # Misses and their statistics.
        ({"output/on_miss": "drop"}, "output.on_miss", "'route', 'emit_null' or 'hold'"),
        ({"output/also": {"x": "drop"}}, "output.also.x", 'give one of "route", "emit_null", "h'),
        ({"output/also": {"x": "hold"}}, "output.also.x", 'output.on_miss is "route"'),
        (
            {"output/on_miss": "hold", "output/also": {"x": "route"}},
            "output.on_miss",
            'output.also.x is "route"',
        ),
        ({"miss/verdict_field": "customer_tier"}, "miss.verdict_field", "has this name"),
        ({"miss/verdict_field": " "}, "miss.verdict_field", "not empty"),
        ({"miss/retry_after": "soon"}, "miss.retry_after", "is no delay"),
        ({"stats/window_ms": 1_500}, "stats.window_ms", "whole seconds"),
        ({"stats/window_ms": 500}, "stats.window_ms", "at least 1000"),
        # Brokers.
        ({"kafka/bootstrap_servers": "localhost"}, "kafka.bootstrap_servers", "host:port"),
        ({"kafka/bootstrap_servers": "a:1,,b:2"}, "kafka.bootstrap_servers", "host:port"),
        ({"kafka/bootstrap_servers": "a:65536"}, "kafka.bootstrap_servers", "host:port"),
        # Properties that are not the user's to set.
        (
            {"kafka/properties": {"bootstrap.servers": "x:1"}},
            "kafka.properties.bootstrap.servers",
            "kafka.bootstrap_servers",
        ),
        (
            {"kafka/properties": {"isolation.level": "read_committed"}},
            "kafka.properties.isolation.level",
            "stream.isolation_level and table.isolation_level",
        ),
        (
            {"kafka/properties": {"transactional.id": "x"}},
            "kafka.properties.transactional.id",
            "job.transactional_id_prefix",
        ),
        (
            {"kafka/properties": {"key.deserializer": "x"}},
            "kafka.properties.key.deserializer",
            "bytes",
        ),
        ({"kafka/properties": {"acks": "1"}}, "kafka.properties.acks", "neither delivery"),
        (
            {"kafka/librdkafka": {"group.id": "x"}},
            "kafka.librdkafka.group.id",
            "without a consumer",
        ),
        # Environment.
        (
            {"kafka/properties": {"client.id": "${env:NOPE}"}},
            "kafka.properties.client.id",
            "the environment variable NOPE is not set",
        ),
        (
            {"kafka/properties": {"client.id": "${env:NO"}},
            "kafka.properties.client.id",
            "${env:NAME}",
        ),
        (
            {"kafka/bootstrap_servers": "${env:BROKERS}"},
            "kafka.bootstrap_servers",
            "the environment variable BROKERS is not set",
        ),
        # The Python side's translation is part of the check.
        (
            {"kafka/properties": {"security.protocol": "SASL_SSL"}},
            "kafka.properties.sasl.mechanism",
            "Kerberos",
        ),
    ],
)
def test_one_mistake_gives_one_error_with_key_and_remedy(
    changes: dict[str, Any], key: str, remedy: str
) -> None:
    found = problems(changes)
    assert list(found) == [key]
    assert remedy in found[key]


@pytest.mark.parametrize(
    "changes",
    [
        {"job/parallelism": 32_768, "job/max_parallelism": 32_768},
        {"job/delivery": "exactly-once", "job/transactional_id_prefix": "x"},
        {"job/merge": "acme.joins:add_tier", "table/fields": REMOVE},
        {"stream/key": {"from": "key", "format": "json", "path": "id"}},
        {
            "table/key": {"from": "value", "path": "id"},
            "table/tombstone_key": {"format": "json", "path": "id"},
        },
        {"job/transaction_timeout_ms": 10_000},
        {"stream/topic": "a" * 249},
        {"kafka/bootstrap_servers": "a.b-c:1, [::1]:65535"},
        {"kafka/properties": {"acks": "-1", "group.id": "lag"}},
    ],
)
def test_values_at_the_edge_and_full_sets_are_accepted_and_printed_so(
    changes: dict[str, Any],
) -> None:
    settings = from_mapping(changed(changes))
    assert from_mapping(tomllib.loads(settings.describe())) == settings


def test_all_mistakes_are_reported_at_once_also_those_between_two_settings() -> None:
    found = problems(
        {
            "job/parallelism": "many",
            "job/delivery": "exactly-once",
            "job/nmae": "x",
            "stream/key/path": REMOVE,
            "output/dead": "orders.retry",
            "kafka/properties": {"acks": "0", "client.id": "${env:NOPE}"},
            "gate": 3,
        }
    )
    assert set(found) == {
        "job.parallelism",
        "job.transactional_id_prefix",
        "job.nmae",
        "stream.key.path",
        "output.dead",
        "kafka.properties.acks",
        "kafka.properties.client.id",
        "gate",
    }


def test_outputs_may_want_different_things_as_long_as_none_excludes_another() -> None:
    def wishes(main: str, **also: str) -> list[tuple[str, str]]:
        changes = {"output/on_miss": main, "output/also": also}
        return list(from_mapping(changed(changes)).output.on_miss_of().items())

    main = MINIMAL["output"]["enriched"]
    assert wishes("route") == [(main, "route")]
    assert wishes("route", live="emit_null", copy="route") == [
        (main, "route"),
        ("live", "emit_null"),
        ("copy", "route"),
    ]
    assert wishes("emit_null", ledger="hold") == [(main, "emit_null"), ("ledger", "hold")]


def test_a_wrong_value_brings_no_consequential_error() -> None:
    # The stand-in for the faulty parallelism must not be compared with max_parallelism, and the
    # one for the missing table must not be compared with the topics that are there.
    found = problems({"job/parallelism": -5, "job/max_parallelism": 0, "output": REMOVE})
    assert set(found) == {"job.parallelism", "job.max_parallelism", "output"}


def test_several_errors_read_as_a_list_and_survive_pickling() -> None:
    with pytest.raises(ConfigErrors) as caught:
        from_mapping(changed({"job/name": "", "stream/topic": ""}))
    error = caught.value
    assert str(error).startswith("2 settings are wrong:\n  - job.name = '': give")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 (our own bytes)
    assert str(copy) == str(error)
    assert copy.key == "job.name"


def test_settings_made_without_load_hold_the_rules_too() -> None:
    with pytest.raises(ConfigErrors, match=r"table\.tombstone_key"):
        Settings.model_validate(changed({"table/tombstone_key": {}}))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(["job", "name", "key", "from", "properties", "a.b"]), inner
            )
        ),
        max_leaves=4,
    ),
    st.sampled_from([*key_names(), "job", "kafka", "stream", "stream.key", "table.tombstone_key"]),
)
def test_whatever_stands_in_a_setting_the_answer_is_settings_or_our_error(
    value: Any, key: str
) -> None:
    data = changed(
        {
            "table/key": {"from": "key"},
            "gate": {},
            "join": {},
            "miss": {},
            "stats": {},
            "table/tombstone_key": {},
        }
    )
    *outer, last = key.split(".")
    table = data
    for part in outer:
        table = table[part]
    table[last] = value
    with suppress(ConfigErrors):
        assert isinstance(from_mapping(data, {}), Settings)


# ------------------------------------------------------------------------------------------- file


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (b"[job\nname = 'hunter2'", "not valid TOML"),
        (b"name = '\xff'", "not UTF-8"),
        (None, "cannot be read (No such file or directory)"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, remedy: str
) -> None:
    path = tmp_path / "job.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigErrors) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert remedy in str(caught.value)
    assert "hunter2" not in str(caught.value)


# ------------------------------------------------------------------------------------- environment


def test_a_value_may_come_from_the_environment() -> None:
    data = changed(
        {
            "kafka/bootstrap_servers": "${env:HOST}:${env:PORT}",
            "kafka/properties": {"client.id": "a-${env:ID}"},
        }
    )
    settings = from_mapping(data, {"HOST": "kafka", "PORT": "9092", "ID": "${env:HOST}"})
    assert settings.kafka.bootstrap_servers == "kafka:9092"
    # The text of a variable is not searched again.
    assert settings.kafka.properties.plain() == {"client.id": "a-${env:HOST}"}


def test_other_dollar_signs_are_left_alone() -> None:
    data = changed({"kafka/properties": {"client.id": "$a ${b} $${c}"}})
    assert from_mapping(data, {}).kafka.properties.plain() == {"client.id": "$a ${b} $${c}"}


def test_an_empty_variable_is_no_value() -> None:
    found = problems({"kafka/properties": {"client.id": "${env:ID}"}}, {"ID": ""})
    assert "ID is empty" in found["kafka.properties.client.id"]


# ------------------------------------------------------------------------------------------- merge


def good_merge(event: dict[str, object], row: dict[str, object]) -> dict[str, object]:
    return event | row


def needs_three(event: object, row: object, more: object) -> None:
    """Not a merge function."""


not_callable = 3


def test_a_merge_function_is_found_by_its_path() -> None:
    assert load_merge(f"{__name__}:good_merge") is good_merge


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("no_such_module_here:f", "cannot be imported (ModuleNotFoundError"),
        (f"{__name__}:nope", "has no nope"),
        (f"{__name__}:not_callable", "has no callable not_callable"),
        (f"{__name__}:needs_three", "must take an event and a row"),
    ],
)
def test_a_merge_path_that_leads_nowhere_is_refused(path: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_merge(path)
    assert caught.value.key == "job.merge"
    assert remedy in caught.value.remedy
