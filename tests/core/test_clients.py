"""The same Kafka client by two names: Java's properties, and librdkafka's made from them."""

import pickle
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st

from jobs.clients import SAME_NAME, java_properties, librdkafka_config, translate
from jobs.jaas import JaasSyntaxError, parse_jaas
from jobs.settings import ConfigErrors, Settings, from_mapping

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{PLAIN} required username="me" password="pw";',
}
TLS = {"security.protocol": "SSL"}
KERBEROS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}
OAUTH = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


def make(
    properties: dict[str, str],
    librdkafka: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
) -> Settings:
    return from_mapping(
        {
            "job": {"name": "orders-enrich"},
            "kafka": {
                "bootstrap_servers": "a:9092",
                "properties": properties,
                "librdkafka": librdkafka or {},
            },
            "stream": {"topic": "orders", "key": {"from": "key"}},
            "table": {"topic": "customers", "fields": {"tier": "tier"}},
            "output": {"enriched": "e", "retry": "r", "dead": "d"},
        },
        environment or {},
    )


def python_config(properties: dict[str, str], **more: Any) -> dict[str, str]:
    config = librdkafka_config(make(properties, **more))
    assert config.pop("bootstrap.servers") == "a:9092"
    return config


# ------------------------------------------------------------------------------------ translation


def test_java_gets_the_properties_as_they_are_and_the_brokers() -> None:
    assert java_properties(make(LOGIN)) == {**LOGIN, "bootstrap.servers": "a:9092"}


@pytest.mark.parametrize(
    ("java", "python"),
    [
        ({}, {}),
        ({"client.id": "me", "client.rack": "r1"}, {"client.id": "me", "client.rack": "r1"}),
        ({"security.protocol": " SSL "}, {"security.protocol": "SSL"}),
        (
            LOGIN,
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": "PLAIN",
                "sasl.username": "me",
                "sasl.password": "pw",
            },
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": "a.ScramLoginModule required username=me password='p\"w';",
            },
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanisms": "SCRAM-SHA-512",
                "sasl.username": "me",
                "sasl.password": 'p"w',
            },
        ),
        (
            {**TLS, "ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
            {**TLS, "ssl.ca.location": "/ca.pem"},
        ),
        (
            {**TLS, "ssl.truststore.type": "PEM", "ssl.truststore.certificates": "-----BEGIN"},
            {**TLS, "ssl.ca.pem": "-----BEGIN"},
        ),
        (
            {
                **TLS,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": "/me.pem",
                "ssl.key.password": "pw",
            },
            {
                **TLS,
                "ssl.key.location": "/me.pem",
                "ssl.certificate.location": "/me.pem",
                "ssl.key.password": "pw",
            },
        ),
        (
            {
                **TLS,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": "K",
                "ssl.keystore.certificate.chain": "C",
            },
            {**TLS, "ssl.key.pem": "K", "ssl.certificate.pem": "C"},
        ),
        (
            {
                **TLS,
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": "/me.p12",
                "ssl.keystore.password": "pw",
                "ssl.key.password": "pw",
            },
            {**TLS, "ssl.keystore.location": "/me.p12", "ssl.keystore.password": "pw"},
        ),
        (
            {**TLS, "ssl.endpoint.identification.algorithm": ""},
            {**TLS, "ssl.endpoint.identification.algorithm": "none"},
        ),
        (
            {**TLS, "ssl.endpoint.identification.algorithm": "HTTPS"},
            {**TLS, "ssl.endpoint.identification.algorithm": "https"},
        ),
        # Throughput is Java's affair; so is the group, which the gate does without.
        (
            {"max.poll.records": "5", "fetch.max.bytes": "5", "linger.ms": "5", "group.id": "lag"},
            {},
        ),
        ({**LOGIN, "sasl.login.refresh.window.factor": "0.5"}, None),
    ],
)
def test_a_java_property_becomes_what_librdkafka_calls_it(
    java: dict[str, str], python: dict[str, str] | None
) -> None:
    assert python_config(java) == (python if python is not None else python_config(LOGIN))


@pytest.mark.parametrize(
    ("java", "own", "expected"),
    [
        # One credential, or both, of a user of its own.
        (LOGIN, {"sasl.password": "mine"}, {"sasl.username": "me", "sasl.password": "mine"}),
        (
            {**LOGIN, "sasl.jaas.config": "anything"},
            {"sasl.username": "you", "sasl.password": "mine"},
            {"sasl.username": "you", "sasl.password": "mine"},
        ),
        # librdkafka's alias must not stand beside its original.
        (LOGIN, {"sasl.mechanism": "SCRAM-SHA-256"}, {"sasl.mechanisms": "SCRAM-SHA-256"}),
        (LOGIN, {"security.protocol": "SASL_PLAINTEXT"}, {"security.protocol": "SASL_PLAINTEXT"}),
        (
            {**TLS, "ssl.truststore.location": "/ca.jks", "ssl.truststore.password": "pw"},
            {"ssl.ca.location": "/ca.pem"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {**TLS, "ssl.keystore.location": "/me.jks", "ssl.key.password": "java's"},
            {"ssl.key.location": "/me.key", "ssl.certificate.location": "/me.pem"},
            {"ssl.key.location": "/me.key", "ssl.certificate.location": "/me.pem"},
        ),
        (
            {**OAUTH, "sasl.oauthbearer.token.endpoint.url": "https://x"},
            {"sasl.oauthbearer.method": "oidc"},
            {"sasl.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"},
        ),
        (
            {**KERBEROS, "sasl.kerberos.service.name": "kafka"},
            {"sasl.kerberos.keytab": "/me.keytab"},
            {"sasl.mechanisms": "GSSAPI", "sasl.kerberos.service.name": "kafka"},
        ),
        ({**TLS, "ssl.cipher.suites": "TLS_A"}, {"ssl.cipher.suites": "A"}, {}),
    ],
)
def test_a_librdkafka_setting_wins_over_the_translation(
    java: dict[str, str], own: dict[str, str], expected: dict[str, str]
) -> None:
    config = python_config(java, librdkafka=own)
    assert (
        config.items()
        >= (expected | {k: v for k, v in own.items() if k != "sasl.mechanism"}).items()
    )
    assert "sasl.mechanism" not in config
    assert not config.keys() & {"ssl.key.password", "sasl.jaas.config"}


@pytest.mark.parametrize(
    ("java", "name", "remedy"),
    [
        (KERBEROS, "sasl.mechanism", "sasl.kerberos.keytab"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism", "GSSAPI is the default"),
        (OAUTH, "sasl.mechanism", 'sasl.oauthbearer.method = "oidc"'),
        (
            {**OAUTH, "sasl.mechanism": "AWS_MSK_IAM"},
            "sasl.mechanism",
            "Python's client knows PLAIN",
        ),
        (LOGIN | {"sasl.jaas.config": ""}, "sasl.jaas.config", "PLAIN needs a login"),
        (LOGIN | {"sasl.jaas.config": f"{PLAIN} required"}, "sasl.jaas.config", "end with ';'"),
        (
            LOGIN | {"sasl.jaas.config": f"{PLAIN} required username=a;"},
            "sasl.jaas.config",
            "no option password",
        ),
        (
            LOGIN | {"sasl.jaas.config": f"{PLAIN} required username=a password=b tokenauth=true;"},
            "sasl.jaas.config",
            "delegation token",
        ),
        (
            {**TLS, "ssl.truststore.location": "/ca.jks"},
            "ssl.truststore.location",
            "add under [kafka.librdkafka] ssl.ca.location",
        ),
        (
            {**TLS, "ssl.truststore.type": "PKCS12", "ssl.truststore.location": "/ca.p12"},
            "ssl.truststore.location",
            "add under [kafka.librdkafka] ssl.ca.location",
        ),
        (
            {**TLS, "ssl.truststore.certificates": "x"},
            "ssl.truststore.type",
            "needs PEM",
        ),
        (
            {**TLS, "ssl.keystore.location": "/me.jks"},
            "ssl.keystore.location",
            "set ssl.keystore.type to PKCS12 or PEM if it is one",
        ),
        (
            {**TLS, "ssl.keystore.type": "PEM", "ssl.keystore.key": "K"},
            "ssl.keystore.certificate.chain",
            "go together",
        ),
        (
            {**TLS, "ssl.endpoint.identification.algorithm": "ldap"},
            "ssl.endpoint.identification.algorithm",
            'give "https"',
        ),
        ({**TLS, "ssl.cipher.suites": "TLS_A"}, "ssl.cipher.suites", "as OpenSSL does"),
        ({**TLS, "ssl.engine.factory.class": "a.B"}, "ssl.engine.factory.class", "a Java class"),
        # Whatever looks like security is never dropped in silence.
        ({**TLS, "ssl.new.in.kafka.9": "x"}, "ssl.new.in.kafka.9", "no translation"),
        ({"my.auth.plugin": "x"}, "my.auth.plugin", "no translation"),
        # Half-set: without a protocol these do nothing, and the client goes in unauthenticated.
        ({"sasl.mechanism": "PLAIN"}, "sasl.mechanism", "set that to SASL_SSL"),
        ({"ssl.truststore.type": "PEM"}, "ssl.truststore.type", "set that to SSL"),
        (
            {"security.protocol": "SSL", "sasl.jaas.config": "x"},
            "sasl.jaas.config",
            "set that to SASL_SSL",
        ),
    ],
)
def test_what_python_cannot_follow_is_refused_with_what_to_add(
    java: dict[str, str], name: str, remedy: str
) -> None:
    with pytest.raises(ConfigErrors) as caught:
        make(java)
    (problem,) = caught.value.problems
    assert problem.key == f"kafka.properties.{name}"
    assert remedy in problem.remedy


@pytest.mark.parametrize(
    "name", ["ssl.enabled.protocols", "ssl.protocol", "sasl.login.callback.handler.class"]
)
def test_security_that_only_java_knows_is_noted(name: str) -> None:
    translation = translate({**LOGIN, name: "x"}, {})
    assert not translation.problems
    assert [name in note for note in translation.notes] == [True]
    assert name not in translation.config


def test_an_unknown_security_property_is_noted_when_its_family_is_overridden() -> None:
    translation = translate({**TLS, "ssl.new.in.kafka.9": "x"}, {"ssl.ca.location": "/ca.pem"})
    assert not translation.problems
    assert "ssl.new.in.kafka.9" in translation.notes[0]


def test_the_result_is_a_plain_dict_that_workers_can_unpickle() -> None:
    config = librdkafka_config(make(LOGIN))
    assert type(config) is dict
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301 (our own bytes)


def test_librdkafka_accepts_every_name_that_a_translation_can_give() -> None:
    # A name that it does not know fails at once, before any file is opened or broker asked.
    names = SAME_NAME | {
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "sasl.kerberos.service.name",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.endpoint.identification.algorithm",
    }
    values = {
        "security.protocol": "PLAINTEXT",
        "client.dns.lookup": "use_all_dns_ips",
        "ssl.endpoint.identification.algorithm": "none",
        "sasl.mechanisms": "PLAIN",
    }
    # No brokers are named, so that the client has nobody to connect to.
    AdminClient({name: values.get(name, "x") for name in names})


# ------------------------------------------------------------------------------------------- JAAS


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("a.B required;", {}),
        ("a.B Required x=y;", {"x": "y"}),
        ('a.B required\n  username="me"\n  password="p w";', {"username": "me", "password": "p w"}),
        (r'a.B required p="a\"b\\c\n\101";', {"p": 'a"b\\c\nA'}),
        ("a.B required p='a\"b;=';", {"p": 'a"b;='}),
        ("a.B required /* p=no */ p=yes; // more", {"p": "yes"}),
        ("a.B required p=_a-b$1.c;", {"p": "_a-b$1.c"}),
        ('a.B required p="";', {"p": ""}),
        ("a$B required p=true ;", {"p": "true"}),
    ],
)
def test_a_jaas_line_is_read_as_java_reads_it(line: str, options: dict[str, str]) -> None:
    assert parse_jaas(line).options == options


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "names no login module"),
        ("a.B", "must be followed by"),
        ("a.B needed;", "must be followed by"),
        ("a.B required", "end with ';'"),
        ("a.B required p=x", "end with ';'"),
        ("a.B required p;", "option number 1"),
        ("a.B required a=b p=;", "option number 2"),
        ("a.B required p=123;", "option number 1"),
        ("a.B required p=a@b;", "option number 2"),
        ("a.B required p=x; a.C required;", "one entry"),
    ],
)
def test_a_jaas_line_that_java_refuses_is_refused(line: str, reason: str) -> None:
    with pytest.raises(JaasSyntaxError, match=reason):
        parse_jaas(line)


def test_a_login_modules_repr_hides_its_options() -> None:
    assert "pw" not in repr(parse_jaas(LOGIN["sasl.jaas.config"]))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_password_from_the_environment_arrives_as_it_is(password: str) -> None:
    for quote in "\"'":
        jaas = f"{PLAIN} required username=me password={quote}${{env:PW}}{quote};"
        config = python_config({**LOGIN, "sasl.jaas.config": jaas}, environment={"PW": password})
        assert config["sasl.password"] == password


def test_a_whole_jaas_line_from_the_environment_is_not_escaped() -> None:
    environment = {"JAAS": LOGIN["sasl.jaas.config"]}
    config = python_config({**LOGIN, "sasl.jaas.config": "${env:JAAS}"}, environment=environment)
    assert config["sasl.password"] == "pw"
