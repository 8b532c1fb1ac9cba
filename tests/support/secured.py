"""A real broker that asks who comes: SASL on one listener, TLS with client certificates on another.

Always the embedded broker: its listeners are what is tested, and a container cannot be given ours.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ops.paths import BROKER_JARS
from ops.stack.broker import Broker
from ops.stack.ports import free_ports
from tests.support.kafka import Kafka

# Hard to quote on purpose.
USER, PASSWORD = "orders", 'p"w\\ ;=1'
KEY_PASSWORD = "key-pw"  # noqa: S105 (of a key that lives for one test run)
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True)
class SecuredKafka:
    """One broker by three addresses, and the files of its clients.

    ``plain`` is for creating topics. ``certificates`` holds ca.pem, client.pem (encrypted key and
    certificate in one file) and client.p12, both under KEY_PASSWORD.
    """

    plain: Kafka
    sasl: str
    tls: str
    certificates: Path


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredKafka]:
    """Start it in ``folder``; it creates topics that are asked for, as brokers do by default."""
    certificates = _make_certificates(folder / "certificates")
    client, controller, sasl, tls = free_ports(4)
    (folder / "broker").mkdir()
    # The broker would choose the first two itself, and the listeners name all four.
    (folder / "broker" / "ports.json").write_text(json.dumps([client, controller]))
    jaas = f"{_PLAIN} required user_{USER}={_quoted(PASSWORD)};"
    properties = {
        "listeners": (
            f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller},"
            f"LOGIN://127.0.0.1:{sasl},TLS://127.0.0.1:{tls}"
        ),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT,TLS:SSL"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "auto.create.topics.enable": "true",
        "transaction.max.timeout.ms": "60000",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.login.plain.sasl.jaas.config": jaas.replace("\\", "\\\\"),
        "listener.name.login.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "listener.name.tls.ssl.keystore.type": "PEM",
        "listener.name.tls.ssl.keystore.location": str(certificates / "broker.pem"),
        "listener.name.tls.ssl.truststore.type": "PEM",
        "listener.name.tls.ssl.truststore.location": str(certificates / "ca.pem"),
        "listener.name.tls.ssl.client.auth": "required",
    }
    with Broker(folder / "broker", heap="512m", properties=properties) as broker:
        plain = Kafka(broker.bootstrap_servers, broker)
        _add_scram_user(plain.admin)
        yield SecuredKafka(plain, f"127.0.0.1:{sasl}", f"127.0.0.1:{tls}", certificates)


def java_can_describe(topic: str, properties: Mapping[str, str], folder: Path) -> str:
    """What Kafka's own Java client, with these properties, says of a topic; its errors raise."""
    config = folder / "client.properties"
    escaped = {name: value.replace("\\", "\\\\") for name, value in properties.items()}
    config.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()))
    command = ["java", "-Xmx128m", "-cp", f"{BROKER_JARS}/*", "kafka.admin.ConfigCommand"]
    options = ["--bootstrap-server", properties["bootstrap.servers"], "--command-config", config]
    asked = ["--describe", "--entity-type", "topics", "--entity-name", topic]
    done = subprocess.run(
        [*command, *map(str, options), *asked],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _add_scram_user(admin: AdminClient) -> None:
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    upsertion = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
    admin.alter_user_scram_credentials([upsertion])[USER].result(10)


def _make_certificates(folder: Path) -> Path:
    folder.mkdir(parents=True)

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)  # noqa: S607

    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *new, "-subj", "/CN=test-ca", "-keyout", "ca.key", "-out", "ca.pem")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name in ("broker", "client"):
        openssl(
            "req", *new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"
        )
        sign = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names"]
        openssl("x509", "-req", "-in", f"{name}.csr", *sign, "-out", f"{name}.crt")
    secret = ["-passout", f"pass:{KEY_PASSWORD}"]
    # Java 17 reads encrypted PEM keys only of the older kind.
    old = ["-v1", "PBE-SHA1-3DES"]
    openssl("pkcs8", "-topk8", *old, "-in", "client.key", *secret, "-out", "client.enc")
    p12 = ["-inkey", "client.key", "-in", "client.crt", "-certfile", "ca.pem", "-name", "client"]
    openssl("pkcs12", "-export", *p12, *secret, "-out", "client.p12")
    for name, key in (("broker", "broker.key"), ("client", "client.enc")):
        whole = (folder / key).read_text() + (folder / f"{name}.crt").read_text()
        (folder / f"{name}.pem").write_text(whole)
    return folder
