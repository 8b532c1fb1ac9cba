"""The client of the preflight, as far as it goes without brokers: its configuration, its texts."""

from typing import Any

import pytest

from jobs.preflight.admin import Admin
from jobs.settings import Settings, from_mapping
from udfs.core.errors import ConfigError, PreflightError

SECRET = "hunter2-Zq"  # noqa: S105 (what must not be seen again)


def settings(properties: dict[str, Any], librdkafka: dict[str, Any] | None = None) -> Settings:
    return from_mapping(
        {
            "job": {"name": "preflight"},
            "kafka": {
                "bootstrap_servers": "127.0.0.1:1",
                "properties": properties,
                "librdkafka": librdkafka or {},
            },
            "stream": {"topic": "orders", "key": {"from": "key"}},
            "table": {"topic": "customers", "fields": {"tier": "tier"}},
            "output": {"enriched": "e", "retry": "r", "dead": "d"},
        },
        {"SECRET": SECRET},
    )


def test_a_property_that_librdkafka_does_not_know_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError) as caught:
        Admin(settings({}, {"no.such.property": SECRET}))
    assert caught.value.key == "kafka.librdkafka.no.such.property"
    assert SECRET not in str(caught.value)


def test_a_certificate_that_cannot_be_read_is_told_quietly(
    capfd: pytest.CaptureFixture[str],
) -> None:
    tls = {"security.protocol": "SSL", "ssl.truststore.type": "PEM"}
    with pytest.raises(PreflightError, match=r"cannot use its configuration.*ssl\.ca\.location"):
        Admin(settings({**tls, "ssl.truststore.location": "/no/such/file"}))
    assert capfd.readouterr() == ("", "")


def test_librdkafkas_own_texts_lose_our_secrets() -> None:
    # It quotes values that it does not understand.
    with pytest.raises(PreflightError, match="Invalid value") as caught:
        Admin(settings({}, {"client.dns.lookup": "${env:SECRET}"}))
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(("quoted", "password"), [('p\\"w', 'p"w'), ("pw", "pw")])
def test_every_form_of_a_password_is_scrubbed(quoted: str, password: str) -> None:
    jaas = f'a.PlainLoginModule required username="me" password="{quoted}";'
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    with Admin(settings(login)) as admin:
        assert admin.scrub(f"said {password} and {jaas}") == "said *** and ***"
