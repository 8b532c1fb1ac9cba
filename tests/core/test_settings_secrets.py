"""No secret is ever printed: not by settings, not by errors, not by pickled errors."""

import pickle
import traceback
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from jobs import clients
from jobs.settings import ConfigErrors, Settings, from_mapping, load
from jobs.settings.secrets import is_secret

SECRET = "hunter2-Zq"  # noqa: S105 (what must not be seen again)
JAAS = f'a.b.PlainLoginModule required username="me" password="{SECRET}";'

MINIMAL: dict[str, Any] = {
    "job": {"name": "orders-enrich"},
    "kafka": {
        "bootstrap_servers": "localhost:9092",
        "properties": {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": JAAS,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": "/keys/me.p12",
            "ssl.keystore.password": SECRET,
            "client.id": "${env:SECRET_ID}",
        },
        "librdkafka": {"sasl.password": SECRET},
    },
    "stream": {"topic": "orders", "key": {"from": "key"}},
    "table": {"topic": "customers", "fields": {"tier": "tier"}},
    "output": {"enriched": "e", "retry": "r", "dead": "d"},
}
ENVIRONMENT = {"SECRET_ID": SECRET, "EMPTY": ""}


def everything_printed_of(error: BaseException) -> str:
    texts = [str(error), repr(error), *traceback.format_exception(error)]
    seen: BaseException | None = error
    while seen is not None:
        # Chained errors are hidden by a default traceback, not by every logger.
        texts += [str(seen), repr(seen), str(vars(seen)), str(seen.args)]
        seen = seen.__cause__ or seen.__context__
    texts += [repr(problem) for problem in getattr(error, "problems", ())]
    texts.append(pickle.dumps(error).decode("latin-1"))
    return "\n".join(texts)


def test_settings_print_masks_and_clients_get_the_values() -> None:
    settings = from_mapping(MINIMAL, ENVIRONMENT)
    for text in (
        str(settings),
        repr(settings),
        settings.describe(),
        str(settings.model_dump()),
        settings.model_dump_json(),
        str(settings.kafka),
        f"{settings.kafka.properties}",
        str(list(settings.kafka.properties)),
    ):
        assert SECRET not in text
    assert '"sasl.jaas.config" = "***"' in settings.describe()
    assert '"client.id" = "***"' in settings.describe()
    assert '"ssl.keystore.location" = "/keys/me.p12"' in settings.describe()
    assert clients.java_properties(settings)["sasl.jaas.config"] == JAAS
    assert clients.java_properties(settings)["client.id"] == SECRET
    assert clients.librdkafka_config(settings)["sasl.password"] == SECRET


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        # A misspelt name, table or section: nothing tells that the value is a secret.
        (("kafka",), "sasl_pasword", SECRET),
        (("kafak",), "properties", {"sasl.password": SECRET}),
        (("kafka", "propertys"), "x", SECRET),
        (("job",), "kafka_key", [SECRET]),
        # A right name with a wrong kind of value, or with one that is not the user's to set.
        (("kafka", "properties"), "sasl.jaas.config", [SECRET]),
        (("kafka", "properties"), "ssl.key.password", {"a": [SECRET]}),
        (("kafka",), "properties", [SECRET]),
        (("kafka",), "properties", f"sasl.password={SECRET}"),
        (("kafka",), "bootstrap_servers", f"kafka://me:{SECRET}@host:9092"),
        (("kafka", "properties"), "sasl.jaas.config", JAAS[:-1]),
        (("kafka", "properties"), "sasl.jaas.config", JAAS + JAAS),
        (("kafka", "properties"), "sasl.jaas.config", f"{SECRET} required"),
        (("kafka", "properties"), "sasl.jaas.config", f"{SECRET} required a=b;"),
        (("kafka", "properties"), "sasl.jaas.config", JAAS.replace("username", "user")),
        (("kafka", "properties"), "sasl.jaas.config", JAAS + "${env:NOPE}"),
        (("kafka", "properties"), "sasl.jaas.config", JAAS + "${env:EMPTY}"),
        (("kafka", "properties"), "sasl.jaas.config", "${env:" + SECRET),
        (("kafka", "properties"), "transactional.id", "${env:SECRET_ID}"),
        (("kafka", "properties"), "acks", "${env:SECRET_ID}"),
        (("kafka", "properties"), "security.protocol", "PLAINTEXT"),
        (("kafka", "properties"), "sasl.unheard.of", SECRET),
        (("kafka", "properties"), "ssl.truststore.location", SECRET + "=password:x"),
        (("kafka", "properties"), "sasl.mechanism", "${env:SECRET_ID}"),
        (("kafka", "properties"), "security.protocol", "${env:SECRET_ID}"),
        (("kafka", "properties"), "ssl.keystore.type", "${env:SECRET_ID}"),
        (("job",), "name", {"x": SECRET}),
        (("job",), "name", [{"x": SECRET}]),
    ],
)
def test_no_error_prints_a_secret(table: tuple[str, ...], key: str, value: Any) -> None:
    data = deepcopy(MINIMAL)
    del data["kafka"]["librdkafka"]
    inner = data
    for part in table:
        inner = inner.setdefault(part, {})
    inner[key] = value
    with pytest.raises(ConfigErrors) as caught:
        from_mapping(data, ENVIRONMENT)
    assert SECRET.lower() not in everything_printed_of(caught.value).lower()


def test_pydantics_own_error_prints_no_secret_either() -> None:
    with pytest.raises(ValueError, match="kafka") as caught:
        Settings.model_validate({"kafka": {"password": SECRET}})
    assert SECRET not in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_broken_file_prints_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(f'[kafka.properties]\nsasl.password = "{SECRET}\n')
    with pytest.raises(ConfigErrors) as caught:
        load(path)
    assert SECRET.lower() not in everything_printed_of(caught.value).lower()


@pytest.mark.parametrize(
    "override",
    [
        f"kafka.sasl.password={SECRET}",
        f"kafka.bootstrap_servers.x={SECRET}",
        f"kafka.properties:sasl.password:{SECRET}",
        f"kafka.properties={{'sasl.password'=['{SECRET}']}}",
    ],
)
def test_a_wrong_override_prints_no_secret(tmp_path: Path, override: str) -> None:
    path = tmp_path / "job.toml"
    path.write_text(from_mapping({**MINIMAL, "kafka": {"bootstrap_servers": "a:1"}}).describe())
    with pytest.raises(ConfigErrors) as caught:
        load(path, [override])
    assert SECRET.lower() not in everything_printed_of(caught.value).lower()


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "sasl.jaas.config",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.key.pem",
        "SSL.KEYSTORE.PASSWORD",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "delegation.token",
        "basic.auth.user.info",
        "aws_access_key",
        "my.credential",
        "passphrase",
    ],
)
def test_names_that_mean_a_secret_are_masked(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "security.protocol",
        "sasl.mechanism",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.truststore.location",
        "sasl.kerberos.service.name",
        "client.id",
        "fetch.max.bytes",
    ],
)
def test_what_finds_a_fault_and_opens_nothing_is_shown(name: str) -> None:
    assert not is_secret(name, "value")


@pytest.mark.parametrize(
    "value",
    [
        "user=me;password=x",
        "Token: x",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----",
        "https://me:x@host/",
    ],
)
def test_values_that_hold_a_secret_are_masked_under_any_name(value: str) -> None:
    assert is_secret("client.id", value)
