"""Kafka's classes by the names under which the connector's jar holds them."""

import zipfile

import pytest

from jobs.shading import RELOCATED, for_connector
from ops.paths import CONNECTOR_JARS

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("sasl.jaas.config", f'{SCRAM} required a="b";', f'{RELOCATED}{SCRAM} required a="b";'),
        ("sasl.jaas.config", f" {SCRAM} required;\n {SCRAM} optional;", None),
        ("sasl.jaas.config", "com.acme.Login required;", "com.acme.Login required;"),
        (
            "sasl.login.callback.handler.class",
            "org.apache.kafka.X",
            f"{RELOCATED}org.apache.kafka.X",
        ),
        ("interceptor.classes", "com.acme.A,org.apache.kafka.B", None),
        ("client.id", "org.apache.kafka.", "org.apache.kafka."),
        ("security.protocol", "SASL_SSL", "SASL_SSL"),
    ],
)
def test_only_classes_of_kafka_are_renamed(name: str, value: str, expected: str | None) -> None:
    if expected is None:
        expected = value.replace("org.apache.kafka", f"{RELOCATED}org.apache.kafka")
    assert for_connector({name: value}) == {name: expected}


def test_a_password_that_looks_like_a_class_stays_as_it_is() -> None:
    login = f'{SCRAM} required password="x; org.apache.kafka.y\\"; org.apache.kafka.z";'
    renamed = for_connector({"sasl.jaas.config": login})["sasl.jaas.config"]
    assert renamed == RELOCATED + login


def test_the_connector_s_jar_really_holds_them_there() -> None:
    (jar,) = CONNECTOR_JARS.glob("flink-sql-connector-kafka-*.jar")
    with zipfile.ZipFile(jar) as content:
        names = set(content.namelist())
    assert f"{RELOCATED}{SCRAM}".replace(".", "/") + ".class" in names
    assert SCRAM.replace(".", "/") + ".class" not in names
