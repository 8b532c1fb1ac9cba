"""`tablegate sql-ddl` and `sql-client`, without a cluster."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ops.cli import app
from ops.sqlclient import cli, ddl
from ops.stack.flink import FlinkCluster
from ops.stack.gateway import SqlGateway
from ops.stack.local import Stack
from udfs.core.errors import StackError

CONFIG = """
[job]
name = "orders"
[kafka]
bootstrap_servers = "kafka:9092"
[kafka.properties]
"security.protocol" = "SASL_PLAINTEXT"
"sasl.mechanism" = "PLAIN"
"sasl.jaas.config" = 'org.apache.kafka.common.security.plain.PlainLoginModule required \
username="u" password="hunter2";'
[stream]
topic = "orders"
[stream.key]
from = "value"
path = "customer"
[table]
topic = "customers"
[table.fields]
tier = "tier"
[output]
enriched = "orders.ok"
retry = "orders.retry"
dead = "orders.dead"
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "orders.toml"
    path.write_text(CONFIG)
    return str(path)


@pytest.fixture(autouse=True)
def no_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ddl, "table_topic_id", lambda _: "id-1")
    monkeypatch.setattr(ddl, "package", lambda: False)


def test_what_is_printed_holds_no_password_and_says_so(config: str) -> None:
    ran = CliRunner().invoke(app, ["sql-ddl", "--config", config])
    assert ran.exit_code == 0
    assert "CREATE TEMPORARY TABLE enriched_topic" in ran.stdout
    assert "hunter2" not in ran.output
    assert "passwords are masked" in ran.stderr


def test_a_password_is_printed_when_it_is_asked_for(config: str) -> None:
    ran = CliRunner().invoke(app, ["sql-ddl", "--config", config, "--show-secrets"])
    assert 'password="hunter2"' in ran.stdout
    assert not ran.stderr


def test_the_gated_table_is_written_with_its_module(config: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["--gated-table", "--rest-url", "http://there:8081", "--out", str(out)]
    ran = CliRunner().invoke(app, ["sql-ddl", "--config", config, *arguments])
    assert ran.stdout.strip() == str(out / "gated.sql")
    (module,) = out.glob("tablegate_gate_*.py")
    assert f"AS '{module.stem}.table_gate' LANGUAGE PYTHON" in (out / "gated.sql").read_text()
    assert "'rest_url': 'http://there:8081'" in module.read_text()
    assert {stat.S_IMODE(file.stat().st_mode) for file in out.iterdir()} == {0o600}


def test_a_printed_gated_table_says_that_its_module_is_missing(config: str) -> None:
    arguments = ["--gated-table", "--rest-url", "http://there:8081"]
    ran = CliRunner().invoke(app, ["sql-ddl", "--config", config, *arguments])
    assert "only written with --out" in ran.stderr
    assert "hunter2" not in ran.output


def test_the_sql_client_needs_a_stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cli, "Stack", lambda: Stack(tmp_path / "none"))
    ran = CliRunner().invoke(app, ["sql-client"])
    assert isinstance(ran.exception, StackError)
    assert "tablegate up" in str(ran.exception)


def test_a_gateway_without_its_jar_says_what_to_do(tmp_path: Path) -> None:
    gateway = SqlGateway(
        tmp_path / "gateway", FlinkCluster(tmp_path / "flink", home=tmp_path / "home")
    )
    with pytest.raises(StackError, match="make setup"):
        gateway.start()
    assert not gateway.running
    with pytest.raises(StackError, match="tablegate up --sql-gateway"):
        _ = gateway.url
