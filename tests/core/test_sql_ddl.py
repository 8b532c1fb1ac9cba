"""The DDL for other SQL clients: what it holds, what it refuses, and that it shows no password."""

from __future__ import annotations

import importlib.util
import stat
from pathlib import Path
from typing import Any

import pytest

from jobs.settings import Settings, from_mapping
from jobs.sql.client_names import gate_names, output_names, printed
from jobs.sql.files import SqlError, of_text
from ops.sqlclient import ddl
from udfs.core.errors import ConfigError

PASSWORD = "hunter2;'--"  # noqa: S105
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    f'username="orders" password="{PASSWORD}";'
)


def _settings(secret: bool = False, **tables: dict[str, Any]) -> Settings:
    kafka: dict[str, Any] = {"bootstrap_servers": "kafka:9092"}
    if secret:
        kafka["properties"] = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": JAAS,
            "group.id": "orders-job",
        }
    given: dict[str, Any] = {
        "job": {"name": "orders"},
        "kafka": kafka,
        "stream": {"topic": "orders", "key": {"from": "value", "path": "customer"}},
        "table": {"topic": "customers", "fields": {"tier": "tier"}},
        "output": {"enriched": "orders.ok", "retry": "orders.retry", "dead": "orders.dead"},
    }
    for name, values in tables.items():
        given[name] = given.get(name, {}) | values
    return from_mapping(given)


def _gated(settings: Settings, with_secrets: bool = False) -> ddl.Ddl:
    return ddl.gated_ddl(
        settings, "http://here:8081", "id-1", Path("/somewhere"), with_secrets=with_secrets
    )


def _statements(text: str) -> list[str]:
    return [statement.text for statement in of_text(Path("ddl.sql"), text, {})]


def test_each_output_is_a_table_and_a_view() -> None:
    text = ddl.outputs_ddl(_settings()).text
    created = [" ".join(statement.split()[:4]) for statement in _statements(text)]
    assert created == [
        "CREATE TEMPORARY TABLE enriched_topic",
        "CREATE TEMPORARY VIEW enriched",
        "CREATE TEMPORARY TABLE retry_topic",
        "CREATE TEMPORARY VIEW misses",
        "CREATE TEMPORARY TABLE dead_topic",
        "CREATE TEMPORARY VIEW dead_letters",
    ]
    assert "'topic' = 'orders.ok'" in text
    assert "${" not in text


def test_the_statistics_are_there_where_they_are_written() -> None:
    text = ddl.outputs_ddl(_settings(stats={"topic": "orders.stats"})).text
    assert "CREATE TEMPORARY VIEW hit_rates" in text
    assert "'topic' = 'orders.stats'" in text


def test_the_outputs_are_read_to_their_end_and_only_what_is_committed() -> None:
    for options in output_names(_settings()).values():
        assert "'scan.startup.mode' = 'earliest-offset'" in options
        assert "'scan.bounded.mode' = 'latest-offset'" in options
        assert "'properties.isolation.level' = 'read_committed'" in options


def test_no_password_is_printed_unless_asked_for() -> None:
    settings = _settings(secret=True)
    for made in (ddl.outputs_ddl(settings), _gated(settings)):
        assert "hunter2" not in made.text
        assert "'properties.sasl.jaas.config' = '***'" in made.text
        assert "'properties.sasl.mechanism' = 'SCRAM-SHA-512'" in made.text


def test_a_password_that_is_asked_for_stands_there_as_sql_and_as_the_connector_has_it() -> None:
    settings = _settings(secret=True)
    for made in (
        ddl.outputs_ddl(settings, with_secrets=True),
        _gated(settings, with_secrets=True),
    ):
        assert PASSWORD.replace("'", "''") in made.text
        assert "'org.apache.flink.kafka.shaded.org.apache.kafka.common.security" in made.text
        assert len(_statements(made.text)) > 5


def test_a_session_has_no_consumer_group() -> None:
    # It would move the offsets that the job's group has committed.
    settings = _settings(secret=True)
    for made in (ddl.outputs_ddl(settings, with_secrets=True), _gated(settings)):
        assert "orders-job" not in made.text
        assert "group.id" not in made.text


def test_the_gated_table_is_read_whole_raw_and_by_one_subtask() -> None:
    text = _gated(_settings()).text
    table = next(s for s in _statements(text) if "TABLE table_topic" in s)
    assert "WATERMARK FOR rt AS TO_TIMESTAMP_LTZ(complete_until, 3)" in table
    assert "'value.format' = 'raw'" in table
    assert "'scan.startup.mode' = 'earliest-offset'" in table
    for option in ("scan.bounded", "idle-timeout", "scan.parallelism"):
        assert option not in table
    statements = _statements(text)
    for setting in (
        "SET 'parallelism.default' = '1'",
        "SET 'python.execution-mode' = 'thread'",
        "SET 'execution.checkpointing.interval' = '9223372036854775807 ms'",
        "SET 'table.exec.source.idle-timeout' = '0'",
    ):
        assert setting in statements


def test_the_module_holds_the_rules_and_the_sql_names_it(tmp_path: Path) -> None:
    settings = _settings(secret=True)
    made = ddl.gated_ddl(settings, "http://here:8081", "id-1", tmp_path)
    ((file, source),) = made.modules.items()
    assert f"AS '{file.removesuffix('.py')}.table_gate' LANGUAGE PYTHON" in made.text
    assert f",{tmp_path / file}'" in made.text
    (tmp_path / file).write_text(source)
    spec = importlib.util.spec_from_file_location("made", tmp_path / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rules = module._RULES
    assert rules.client["sasl.password"] == PASSWORD
    assert (rules.topic, rules.topic_id) == ("customers", "id-1")
    assert rules.isolation_level == "read_committed"
    assert rules.rest_url == "http://here:8081"
    assert module.table_gate._func._rules == rules


def test_other_rules_have_a_module_of_another_name() -> None:
    assert _gated(_settings()).modules.keys() == _gated(_settings()).modules.keys()
    other = ddl.gated_ddl(_settings(), "http://here:8081", "id-2", Path("/somewhere"))
    assert other.modules.keys() != _gated(_settings()).modules.keys()


def test_what_is_written_is_for_its_owner_only(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(ddl, "package", lambda: False)
    (tmp_path / "gated.sql").write_text("of yesterday")
    path = ddl.write(tmp_path, "gated.sql", _gated(_settings(), with_secrets=True))
    assert path.read_text().startswith("-- ===")
    assert len(list(tmp_path.iterdir())) == 2
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        ({"table": {"format": "debezium-json"}}, "table.format"),
        ({"stream": {"start": "committed"}}, "stream.start"),
    ],
)
def test_settings_under_which_it_would_not_be_exact_are_refused(
    tables: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        gate_names(_settings(**tables), "module", "a.zip")


def test_a_name_that_nobody_knows_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "10.sql").write_text("-- one\nSELECT 1\nFROM ${ENRICHED_REED};\n")
    with pytest.raises(SqlError, match=r"10\.sql:3: .*ENRICHED_REED.*Did you mean"):
        printed(tmp_path, {"ENRICHED_READ": ""})


def test_a_name_in_a_comment_stays_as_it_is(tmp_path: Path) -> None:
    text = "-- ${READ}, ${OF_OLD}\nSELECT '--${READ}' /* ${READ} */ FROM ${READ} /*+ ${READ} */;\n"
    (tmp_path / "10.sql").write_text(text)
    assert printed(tmp_path, {"READ": "t"}) == (
        "-- ${READ}, ${OF_OLD}\nSELECT '--t' /* ${READ} */ FROM t /*+ t */;\n"
    )


def test_a_folder_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SqlError, match=r"no \*\.sql files"):
        printed(tmp_path, {})
