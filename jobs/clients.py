"""One set of Kafka client properties for two clients: Java's in Flink, librdkafka in Python.

People write Java's names, as every Kafka manual does. The gate's worker and the preflight use
librdkafka, which knows most of the same things by other names. Whatever decides *whether and as
whom* the brokers are reached is translated, or refused with the librdkafka settings to add; it is
never dropped in silence. What only tunes throughput is dropped: Python reads a few records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobs.jaas import JaasSyntaxError, parse_jaas
from udfs.core.errors import ConfigError

if TYPE_CHECKING:
    from jobs.settings import Settings

_ADD = "add under [kafka.librdkafka]"

# Same name, same meaning, same values.
SAME_NAME = frozenset({"client.id", "client.rack", "client.dns.lookup", "security.protocol"})
# They narrow or tune how Java does TLS or logs in, and librdkafka has no such setting. Saying so is
# enough: brokers decide what they accept.
JAVA_ONLY = frozenset(
    {
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.provider",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.secure.random.implementation",
        "security.providers",
        "sasl.login.class",
        "sasl.login.callback.handler.class",
        "sasl.client.callback.handler.class",
    }
)
_LOGIN_TIMING = re.compile(
    r"sasl\.login\.(refresh\.|retry\.|connect\.timeout|read\.timeout)"
    r"|sasl\.kerberos\.(ticket\.renew|min\.time|kinit)"
)
_SECURITY_LOOKING = re.compile(
    r"^(ssl|sasl|security)\.|auth|passw|secret|token|credential|certificate|keystore|truststore"
)
_PASSWORD_MECHANISMS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
_TRUST = frozenset(
    {
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.ca.certificate.stores",
        "enable.ssl.certificate.verification",
    }
)
_IDENTITY = frozenset(
    {
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.keystore.location",
        "ssl.certificate.location",
        "ssl.certificate.pem",
    }
)


@dataclass
class Translation:
    """Java properties as librdkafka's, and what a person should know about it."""

    # Without bootstrap.servers and without the overrides.
    config: dict[str, str] = field(default_factory=dict, repr=False)
    notes: list[str] = field(default_factory=list)
    problems: list[ConfigError] = field(default_factory=list)


def _hide(_: str) -> object:
    return "***"


def java_properties(settings: Settings) -> dict[str, str]:
    """The Java client properties for Flink's connector, with the brokers; holds plain secrets."""
    kafka = settings.kafka
    return {**kafka.properties.plain(), "bootstrap.servers": kafka.bootstrap_servers}


def librdkafka_config(settings: Settings) -> dict[str, str]:
    """The same client for Python: a plain, picklable dict; holds plain secrets.

    Raises:
        ConfigError: for the first property that has no translation.
    """
    kafka = settings.kafka
    overrides = kafka.librdkafka.plain()
    translation = translate(kafka.properties.plain(), overrides)
    if translation.problems:
        raise translation.problems[0]
    return {
        **translation.config,
        **_one_mechanism_name(overrides),
        "bootstrap.servers": kafka.bootstrap_servers,
    }


def translate(
    properties: Mapping[str, str],
    overrides: Mapping[str, str],
    shown: Callable[[str], object] = _hide,
) -> Translation:
    """Translates Java client properties, given what ``[kafka.librdkafka]`` says already.

    ``shown`` gives the value of a property as an error may print it.
    """
    return _Translator(properties, overrides, shown).run()


def _one_mechanism_name(overrides: Mapping[str, str]) -> dict[str, str]:
    # librdkafka takes both names for one setting; of a mixture the later would win.
    names = {"sasl.mechanism": "sasl.mechanisms"}
    return {names.get(name, name): value for name, value in overrides.items()}


class _Translator:
    def __init__(
        self,
        properties: Mapping[str, str],
        overrides: Mapping[str, str],
        shown: Callable[[str], object],
    ) -> None:
        self._java = properties
        self._own = overrides
        self._shown = shown
        self._result = Translation()
        self._seen: set[str] = set()

    def run(self) -> Translation:
        protocol = self._own.get("security.protocol") or self._take("security.protocol")
        protocol = (protocol or "PLAINTEXT").strip().upper()
        if "security.protocol" in self._java:
            self._put("security.protocol", self._java["security.protocol"].strip())
        self._unused_family("sasl.", protocol, needs="SASL_", example="SASL_SSL")
        self._unused_family("ssl.", protocol, needs="SSL", example="SSL")
        if protocol.startswith("SASL_"):
            self._sasl()
        if protocol.endswith("SSL"):
            self._trust()
            self._identity()
            self._tls()
        self._rest()
        return self._result

    # ------------------------------------------------------------------------------- SASL

    def _sasl(self) -> None:
        # Java's default, and librdkafka's.
        java_mechanism = (self._take("sasl.mechanism") or "GSSAPI").strip()
        own = self._own.get("sasl.mechanisms") or self._own.get("sasl.mechanism")
        mechanism = (own or java_mechanism).upper()
        jaas = self._take("sasl.jaas.config")
        self._put("sasl.mechanisms", mechanism)
        if mechanism in _PASSWORD_MECHANISMS:
            self._username_and_password(mechanism, jaas)
        elif not any(re.match(r"(enable\.)?sasl\.(?!mechanisms?$)", name) for name in self._own):
            self._refuse("sasl.mechanism", self._mechanism_remedy(mechanism))
        if mechanism == "GSSAPI":
            service = self._take("sasl.kerberos.service.name")
            if service:
                self._put("sasl.kerberos.service.name", service)
        if mechanism == "OAUTHBEARER":
            self._seen.update(name for name in self._java if name.startswith("sasl.oauthbearer."))

    @staticmethod
    def _mechanism_remedy(mechanism: str) -> str:
        if mechanism == "GSSAPI":
            return (
                f"(GSSAPI is the default) Kerberos differs between Java and Python: {_ADD} "
                "sasl.kerberos.principal and sasl.kerberos.keytab, and install a confluent-kafka "
                "that is built with Kerberos, which its wheels are not"
            )
        if mechanism == "OAUTHBEARER":
            return (
                f"Java's login callback does not serve Python: {_ADD} sasl.oauthbearer.method = "
                '"oidc" with sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.client.id and '
                "sasl.oauthbearer.client.secret"
            )
        return (
            f"Python's client knows PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER: {_ADD} "
            "sasl.mechanisms and its credentials for the same brokers"
        )

    def _username_and_password(self, mechanism: str, jaas: str | None) -> None:
        name = "sasl.jaas.config"
        wanted = [n for n in ("sasl.username", "sasl.password") if n not in self._own]
        if not wanted:
            return
        also = f", or {_ADD} sasl.username and sasl.password"
        if not jaas:
            self._refuse(name, f"{mechanism} needs a login: set it{also}")
            return
        try:
            module = parse_jaas(jaas)
        except JaasSyntaxError as error:
            problem = str(error)
        else:
            problem = self._from_options(module.options, wanted)
        if problem:
            # Outside the except clause, so that no context carries the line along.
            self._refuse(name, problem + also)

    def _from_options(self, options: Mapping[str, str], wanted: Iterable[str]) -> str:
        if options.get("tokenauth", "").lower() == "true":
            return "it logs in by delegation token, which librdkafka cannot: use a user's login"
        for target in wanted:
            option = target.removeprefix("sasl.")
            if not options.get(option):
                return f"its login module has no option {option}: add it"
            self._put(target, options[option])
        return ""

    # -------------------------------------------------------------------------------- TLS

    def _trust(self) -> None:
        kind = self._store_type("ssl.truststore.type")
        location = self._take("ssl.truststore.location")
        certificates = self._take("ssl.truststore.certificates")
        self._take("ssl.truststore.password")
        if _TRUST & self._own.keys():
            return
        pem = f"{_ADD} ssl.ca.location with the certificates as a PEM file"
        if certificates:
            if kind != "PEM":
                self._refuse("ssl.truststore.type", "ssl.truststore.certificates needs PEM")
            self._put("ssl.ca.pem", certificates)
        elif location and kind == "PEM":
            self._put("ssl.ca.location", location)
        elif location:
            self._refuse("ssl.truststore.location", f"Python cannot read this type: {pem}")

    def _identity(self) -> None:
        kind = self._store_type("ssl.keystore.type")
        location = self._take("ssl.keystore.location")
        store_password = self._take("ssl.keystore.password")
        key, chain = self._take("ssl.keystore.key"), self._take("ssl.keystore.certificate.chain")
        key_password = self._take("ssl.key.password")
        if _IDENTITY & self._own.keys():
            return
        if key or chain:
            self._inline_identity(kind, key, chain)
        elif location and kind == "PEM":
            # One file holds both; each reader skips the blocks that it does not look for.
            self._put("ssl.key.location", location)
            self._put("ssl.certificate.location", location)
        elif location and kind == "PKCS12":
            self._put("ssl.keystore.location", location)
            if store_password:
                self._put("ssl.keystore.password", store_password)
            return
        elif location:
            self._refuse(
                "ssl.keystore.location",
                "Python cannot read this type (the default is JKS): set ssl.keystore.type to "
                f"PKCS12 or PEM if it is one, or {_ADD} ssl.key.location, ssl.key.password and "
                "ssl.certificate.location with PEM files",
            )
            return
        if key_password and (location or key):
            self._put("ssl.key.password", key_password)

    def _inline_identity(self, kind: str, key: str | None, chain: str | None) -> None:
        if kind != "PEM":
            self._refuse("ssl.keystore.type", "ssl.keystore.key needs PEM")
        if not key or not chain:
            missing = "ssl.keystore.certificate.chain" if key else "ssl.keystore.key"
            self._refuse(missing, "ssl.keystore.key and ssl.keystore.certificate.chain go together")
            return
        self._put("ssl.key.pem", key)
        self._put("ssl.certificate.pem", chain)

    def _tls(self) -> None:
        algorithm = self._take("ssl.endpoint.identification.algorithm")
        if algorithm is not None:
            value = algorithm.strip().lower() or "none"
            self._put("ssl.endpoint.identification.algorithm", value)
            if value not in {"none", "https"}:
                self._refuse("ssl.endpoint.identification.algorithm", 'give "https" or ""')
        self._needs_own(
            "ssl.cipher.suites",
            {"ssl.cipher.suites"},
            f"Python names them as OpenSSL does: {_ADD} ssl.cipher.suites",
        )
        self._needs_own(
            "ssl.engine.factory.class",
            _TRUST | _IDENTITY,
            f"Python cannot run a Java class: {_ADD} ssl.ca.location, and ssl.key.location and "
            "ssl.certificate.location if the brokers ask for a certificate",
        )

    def _needs_own(self, name: str, replacements: AbstractSet[str], remedy: str) -> None:
        value = self._take(name)
        if value is not None and not replacements & self._own.keys():
            self._refuse(name, remedy)

    # ------------------------------------------------------------------------------- rest

    def _unused_family(self, family: str, protocol: str, *, needs: str, example: str) -> None:
        if needs in protocol:
            return
        for name in self._java:
            if name.startswith(family):
                self._seen.add(name)
                self._refuse(
                    name,
                    f"has no effect with this security.protocol: set that to {example} "
                    "or remove this",
                )

    def _rest(self) -> None:
        for name, value in self._java.items():
            if name in self._seen or name in self._own or _LOGIN_TIMING.match(name):
                continue
            if name in SAME_NAME:
                self._put(name, value)
            elif name in JAVA_ONLY:
                self._result.notes.append(
                    f"kafka.properties.{name} is for Java alone: the gate's Python client does "
                    "without it"
                )
            elif _SECURITY_LOOKING.search(name):
                family = name.partition(".")[0] + "."
                if any(own.startswith(family) for own in self._own):
                    self._result.notes.append(
                        f"kafka.properties.{name} has no translation for the gate's Python client, "
                        "which uses [kafka.librdkafka]"
                    )
                else:
                    self._refuse(name, f"it has no translation for Python: {_ADD} what replaces it")

    def _store_type(self, name: str) -> str:
        kind = (self._take(name) or "JKS").strip().upper()
        return "PKCS12" if kind in {"PKCS12", "P12", "PFX"} else kind

    def _take(self, name: str) -> str | None:
        self._seen.add(name)
        return self._java.get(name)

    def _put(self, name: str, value: str) -> None:
        self._result.config[name] = value
        self._seen.add(name)

    def _refuse(self, name: str, remedy: str) -> None:
        # No remedy quotes a property's value either: any of them may come from the environment.
        key = f"kafka.properties.{name}"
        self._result.problems.append(ConfigError(key, self._shown(name), remedy))
