"""A quiet, bounded client for questions to the brokers; no secret leaves it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from jobs.clients import librdkafka_config
from jobs.settings import Settings
from jobs.settings.secrets import MASK, is_secret
from udfs.core.errors import ConfigError, PreflightError

log = logging.getLogger(__name__)

# For each question. A broker that needs longer to describe a topic is not one to start a job on.
TIMEOUT_S = 10.0
# Asking again does not help against these.
_FINAL = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})  # noqa: SLF001 (their only names)
# Its text says how many brokers are down; the one before it says why.
_NO_REASON = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001
_UNKNOWN_PROPERTY = re.compile(r'No such configuration property: "([^"]+)"')
_STATE = re.compile(r" \(after \d+ms in state \w+.*\)$")


class Admin:
    """Kafka's admin client with our settings.

    librdkafka writes to stderr by default, once for every failed connection. Here its lines go to
    this module's logger at DEBUG, scrubbed, and the last one serves as the reason in our error.

    Raises:
        ConfigError: for a setting that librdkafka does not know.
        PreflightError: for a configuration that it cannot use, e.g. a missing certificate file.
    """

    def __init__(self, settings: Settings) -> None:
        config = librdkafka_config(settings)
        self._brokers = settings.kafka.bootstrap_servers
        self._secrets = _secrets(settings, config)
        self._reason = ""
        self._gave_up = False
        problem = self._connect(config)
        if problem:
            unknown = _UNKNOWN_PROPERTY.search(problem)
            if unknown:
                raise ConfigError(
                    f"kafka.librdkafka.{unknown[1]}", MASK, "librdkafka has no such property"
                )
            raise PreflightError(
                f"Kafka's Python client cannot use its configuration: {problem}.",
                "Correct [kafka.properties] or [kafka.librdkafka].",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The client and this object hold each other; its threads would go on until a collection.
        del self._client

    def _connect(self, config: Mapping[str, str]) -> str:
        try:
            self._client = AdminClient(dict(config), error_cb=self._on_error, logger=self)
        except KafkaException as error:
            # The caller raises, outside this clause: librdkafka's error may quote a value.
            return self.scrub(_text(error))
        return ""

    @property
    def client(self) -> AdminClient:
        """For starting a question with ``request_timeout=TIMEOUT_S``."""
        return self._client

    def answer(self, question: Future[Any], what: str) -> Any:
        """The answer to ``question``; ``what`` it asks for goes into the error.

        Raises:
            PreflightError: when nobody answers in time, or nobody lets us in.
            KafkaException: when the brokers answer with an error.
        """
        # A little more than the request's own timeout, so that its error comes first.
        deadline = time.monotonic() + TIMEOUT_S + 1
        while not question.done() and not self._gave_up and time.monotonic() < deadline:
            # Serves the callbacks meanwhile.
            self._client.poll(0.05)
        if question.done():
            error = question.exception()
            if not (isinstance(error, KafkaException) and _is_local(error)):
                return question.result()
        reason = f": {self._reason}" if self._reason else ""
        if self._gave_up:
            raise PreflightError(
                f"The brokers at {self._brokers} refuse the connection{reason}.",
                "Check security.protocol, sasl.* and ssl.* in [kafka.properties].",
            )
        raise PreflightError(
            f"The brokers at {self._brokers} did not answer within {TIMEOUT_S:.0f} s when asked "
            f"for {what}{reason}.",
            "Check kafka.bootstrap_servers, that the brokers run, and that security.protocol is "
            "that of this listener.",
        )

    def scrub(self, text: str) -> str:
        """``text`` without any of the secrets that this client was given."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def log(self, _level: int, message: str, *args: object) -> None:
        """Takes the place of a ``logging.Logger`` for librdkafka."""
        line = self.scrub(message % args)
        self._reason = self._reason or _without_prefix(line)
        log.debug("%s", line)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != _NO_REASON:
            self._reason = self.scrub(_STATE.sub("", error.str()))
        self._gave_up = self._gave_up or error.code() in _FINAL


def _secrets(settings: Settings, config: Mapping[str, str]) -> list[str]:
    kafka = settings.kafka
    found = {value for name, value in config.items() if is_secret(name, value)}
    found |= kafka.properties.secret_values() | kafka.librdkafka.secret_values()
    # Longest first: one may be a part of another.
    return sorted(found - {""}, key=len, reverse=True)


def _text(error: KafkaException) -> str:
    return str(error.args[0].str())


def _is_local(error: KafkaException) -> bool:
    # Negative codes are the client's own: timed out, no connection. Brokers' are positive.
    return bool(error.args[0].code() < 0)


def _without_prefix(line: str) -> str:
    # librdkafka puts its facility, its name and the thread's in front, the last one in brackets.
    return _STATE.sub("", line.rpartition("]: ")[2])
