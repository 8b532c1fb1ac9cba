"""The journal's files, and what is kept out of them."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from ops.deploy.errors import DeployError
from ops.deploy.journal import Journal, Result, Version, before, current, jobs_in
from ops.deploy.secrets import Scrubber, plain_secrets, storable


def version(number: int, result: Result, copy_of: int | None = None, job: str = "j") -> Version:
    return Version(
        number, "orders", "upgrade", 7, "[job]\n", ("a=b",), job_id=job, copy_of=copy_of
    ).ended(result)


def test_a_version_comes_back_as_it_was_written(tmp_path: Path) -> None:
    journal = Journal("Orders / EU", tmp_path)
    of_it = replace(version(1, Result.RUNNING), job="Orders / EU")
    written = journal.write(of_it.stopped("s3://b/sp-1", 9))
    assert journal.versions() == [written]
    assert journal.folder.parent == tmp_path
    assert [path.name for path in journal.folder.iterdir()] == ["0001.json"]
    assert journal.next_number() == 2


def test_a_file_that_is_not_ours_is_named(tmp_path: Path) -> None:
    journal = Journal("orders", tmp_path)
    journal.write(version(1, Result.RUNNING))
    (journal.folder / "0002.json").write_text("{}")
    with pytest.raises(DeployError, match=r"0002\.json"):
        journal.versions()


def test_two_jobs_whose_folders_would_have_one_name_are_told_apart(tmp_path: Path) -> None:
    Journal("a b", tmp_path).write(replace(version(1, Result.RUNNING), job="a b"))
    with pytest.raises(DeployError, match=r"is the journal of job a b"):
        Journal("a_b", tmp_path).versions()


def test_a_journal_is_known_by_its_jobs_name_and_not_by_its_folders(tmp_path: Path) -> None:
    Journal("Orders / EU", tmp_path).write(replace(version(1, Result.RUNNING), job="Orders / EU"))
    broken = Journal("broken", tmp_path)
    broken.write(version(1, Result.RUNNING))
    (broken.folder / "0001.json").write_text("{}")
    assert jobs_in(tmp_path) == ["Orders / EU", "broken"]
    assert jobs_in(tmp_path / "nowhere") == []


def test_a_child_holds_the_lock_for_as_long_as_it_lives(tmp_path: Path) -> None:
    journal = Journal("orders", tmp_path)
    with journal.alone():
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            pass_fds=journal.lock_files,
        )
    try:
        with (
            pytest.raises(DeployError, match="Another tablegate command"),
            Journal("orders", tmp_path).alone(),
        ):
            pass
    finally:
        child.communicate()
    with Journal("orders", tmp_path).alone():
        pass


def test_the_folder_is_made_for_its_owner_alone_and_one_that_is_there_stays_as_it_is(
    tmp_path: Path,
) -> None:
    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    written, locked = Journal("orders", tmp_path), Journal("b", tmp_path)
    written.write(version(1, Result.RUNNING))
    with locked.alone():
        assert [mode(written.folder), mode(locked.folder)] == [0o700, 0o700]
    # Several people who take turns widen it once.
    written.folder.chmod(0o770)
    written.write(version(2, Result.RUNNING))
    with written.alone():
        assert mode(written.folder) == 0o770


def test_two_commands_do_not_change_one_job_at_once(tmp_path: Path) -> None:
    journal = Journal("orders", tmp_path)
    with (
        journal.alone(),
        pytest.raises(DeployError, match="Another tablegate command"),
        Journal("orders", tmp_path).alone(),
    ):
        pass
    with journal.alone():
        assert journal.versions() == []


def test_the_current_version_is_the_last_one_that_nothing_replaced() -> None:
    replaced, running = version(1, Result.REPLACED), version(2, Result.RUNNING)
    failed = version(3, Result.FAILED)
    assert current([]) is None
    assert current([replaced, running, failed]) == running
    starting = version(3, Result.STARTING)
    assert current([replaced, running, starting]) == starting
    never_submitted = version(3, Result.STARTING, job="")
    assert current([replaced, running, never_submitted]) == running
    assert current([failed]) is None


def test_the_way_back_leads_to_the_last_one_that_had_run() -> None:
    versions = [
        version(1, Result.REPLACED),
        version(2, Result.FAILED),
        version(3, Result.REPLACED),
        version(4, Result.RUNNING),
    ]
    found = before(versions, 4)
    assert found is not None
    assert found.number == 3
    back = [*versions[:3], version(4, Result.REPLACED), version(5, Result.RUNNING, copy_of=3)]
    found = before(back, 5)
    assert found is not None
    assert found.number == 1
    assert before(versions, 1) is None


# --------------------------------------------------------------------------------------- secrets

REFERENCES = """
# password = "old-one"
[kafka.properties]
"sasl.jaas.config" = 'X required username="orders" password="${env:PW}";'
"ssl.key.password" = "${env:PW}"
"sasl.mechanism" = "SCRAM-SHA-512"
"ssl.keystore.location" = "/etc/x.p12"
"sasl.login.connect.timeout.ms" = "1000"
"""


def test_references_and_names_are_no_secrets() -> None:
    assert plain_secrets(storable(REFERENCES), ["job.name=x", "stream.topic=tokens"]) == []


@pytest.mark.parametrize(
    "name",
    [
        "sasl.mechanism",
        "sasl.username",
        "sasl.login.refresh.window.factor",
        "sasl.login.retry.backoff.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.kerberos.service.name",
        "sasl.kerberos.principal",
        "sasl.kerberos.keytab",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.assertion.private.key.file",
        "enable.sasl.oauthbearer.unsecure.jwt",
        "enable.ssl.certificate.verification",
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.cipher.suites",
        "ssl.curves.list",
        "ssl.ca.location",
        "ssl.ca.certificate.stores",
        "ssl.keystore.type",
        "ssl.secure.random.implementation",
        "basic.auth.credentials.source",
    ],
)
@pytest.mark.parametrize("value", ["true", "12", "TLSv1.3,TLSv1.2", "/etc/x.pem", "lower case"])
def test_what_is_public_by_its_name_may_say_anything(name: str, value: str) -> None:
    assert plain_secrets(f"[kafka.librdkafka]\n'{name}' = '{value}'") == []
    assert plain_secrets("", [f"kafka.librdkafka.{name}={value}"]) == []


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.truststore.password",
        "ssl.keystore.key",
        "ssl.key.pem",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.unheard.of",
        "basic.auth.user.info",
    ],
)
@pytest.mark.parametrize("value", ["90417735", "TOPSECRET-9", "true", "a b", "${env:X}9", "-1"])
def test_a_plain_secret_is_one_whatever_it_looks_like(name: str, value: str) -> None:
    where = f"kafka.librdkafka.{name}"
    for config in (
        f'[kafka.librdkafka]\n"{name}" = "{value}"',
        f"[kafka.librdkafka]\n{name} = '{value}'",
        f"kafka = {{librdkafka = {{'{name}' = '{value}'}}}}",
    ):
        assert plain_secrets(config) == [where]
    for override in (
        f"{where}={value}",
        f'kafka.librdkafka."{name}"={value}',
        f"kafka.librdkafka.'{name}'=\"{value}\"",
        f'kafka.librdkafka={{"{name}" = "{value}"}}',
        f"{where}='${{env:X}}'\nx={value}",
    ):
        assert plain_secrets("", [override]) == [f"--set {where}"]
    # Nothing is no secret, and neither is a reference alone.
    for given in ("", "${env:X}", "${env:X}${env:Y}"):
        assert plain_secrets(f"[kafka.librdkafka]\n'{name}' = '{given}'") == []


def test_a_password_of_digits_without_quotes_is_found() -> None:
    assert plain_secrets('[kafka.librdkafka]\n"sasl.password" = 90417735') != []


def test_a_login_line_holds_nothing_but_references_for_secrets() -> None:
    def found(options: str) -> bool:
        return bool(plain_secrets(f"[kafka.properties]\n\"sasl.jaas.config\" = '''{options}'''"))

    for options in (
        'X required username="ORDERS" password="${env:PW}";',
        "X required username=me password=${env:PW};",
        "${env:LOGIN}",
        'X required tokenauth="true" useKeyTab=true keyTab="/etc/k" principal="me@REALM";',
    ):
        assert not found(options)
    for options in (
        'X required password="90417735";',
        "X required password=ABC;",
        'X required password="a${env:PW}";',
        "X required password /* a comment */ = 'ABC';",
        'X required clientSecret="123";',
        'X required username="me" privatePin="123";',
        "X required username=${env:NAME} privatePin=ABC;",
    ):
        assert found(options), options


def test_a_field_of_a_row_may_be_called_what_it_likes() -> None:
    assert plain_secrets('[table.fields]\ntoken = "token"\n"user.password" = "is_set"') == []


@pytest.mark.parametrize(
    ("config", "overrides", "named"),
    [
        ('kafka.properties."ssl.key.password" = "hunter2"', [], "ssl.key.password"),
        (
            'kafka.properties."sasl.jaas.config" = \'X required password="hunter2";\'',
            [],
            "jaas",
        ),
        ('kafka.librdkafka."sasl.password" = "a${env:X}"', [], "sasl.password"),
        ("", ["kafka.properties.ssl.key.password=hunter2"], "--set"),
        ('a = 1  # password = "hunter2"', [], "line 1"),
        ('a = 1  # "sasl.password" = "hunter2"', [], "line 1"),
        ('kafka.bootstrap_servers = "x://u:hunter2@h:1"', [], "bootstrap_servers"),
    ],
)
def test_a_plain_secret_is_found(config: str, overrides: list[str], named: str) -> None:
    (found,) = plain_secrets(config, overrides)
    assert named in found
    assert "hunter2" not in found


def test_comments_are_not_stored_and_values_are() -> None:
    kept = storable(REFERENCES)
    assert "old-one" not in kept
    assert tomllib.loads(kept) == tomllib.loads(REFERENCES)
    tricky = 'a = """\n# not a comment\n"""\n'
    assert storable(tricky) == tricky


def test_the_scrubber_knows_the_values_of_the_variables_that_are_referred_to() -> None:
    scrub = Scrubber([REFERENCES], {"PW": "hunter2", "OTHER": "visible"})
    assert scrub("login hunter2 visible") == "login *** visible"
    assert Scrubber([REFERENCES], {"PW": "a"})("a b") == "a b"


def test_what_is_written_has_the_reference_and_not_the_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", "hunter2")
    journal = Journal("orders", tmp_path)
    journal.write(Version(1, "orders", "deploy", 1, storable(REFERENCES)))
    text = (journal.folder / "0001.json").read_text()
    assert "hunter2" not in text
    assert "${env:PW}" in json.loads(text)["config"]
