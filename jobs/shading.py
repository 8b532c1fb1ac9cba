"""Class names for Flink's SQL connector, whose jar holds Kafka's client under another package.

``flink-sql-connector-kafka`` relocates ``org.apache.kafka`` to ``org.apache.flink.kafka.shaded``,
so a login module by its usual name is not found there (*measured* on 5.0.0-2.2: "No LoginModule
found for org.apache.kafka.common.security.scram.ScramLoginModule"). People go on writing the usual
name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

RELOCATED = "org.apache.flink.kafka.shaded."

# A login line is `class flag option=value ...;`: a class stands at the start or behind a semicolon.
# Behind a semicolon within a password it would too, so quoted text is stepped over.
_LOGIN_CLASS = re.compile(r'("(?:[^"\\]|\\.)*")|((?:\A|;)\s*)(?=org\.apache\.kafka\.)', re.DOTALL)
_CLASS = re.compile(r"(?:(?<=,)|\A)(\s*)(?=org\.apache\.kafka\.)")


def for_connector(properties: Mapping[str, str]) -> dict[str, str]:
    """Java client properties with the class names of Kafka's own package as the connector has them.

    Only properties that hold classes are looked at; a user's own classes stay as they are.
    """
    return {name: _relocate(name, value) for name, value in properties.items()}


def _relocate(name: str, value: str) -> str:
    if name.endswith("sasl.jaas.config"):
        return _LOGIN_CLASS.sub(lambda m: m[1] or m[2] + RELOCATED, value)
    if name.endswith((".class", ".classes", "metric.reporters")):
        return _CLASS.sub(rf"\1{RELOCATED}", value)
    return value
