"""``${env:NAME}`` in client settings: secrets come from the environment, not from the file."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jobs.settings.secrets import Shown
from udfs.core.errors import ConfigError

_REFERENCE = re.compile(r"\$\{env:([^}]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_JAAS_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "'": "\\'", "\n": "\\n", "\r": "\\r"})


def substitute(
    key: str, template: str, environment: Mapping[str, str]
) -> tuple[str, list[ConfigError]]:
    """``template`` with its references replaced, once: a variable's text is not searched again.

    In a JAAS line a reference between quotes is escaped for them, so that a password may hold any
    character. Returns also what is wrong with the references.
    """
    problems: list[ConfigError] = []

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if not match[0].endswith("}") or not _NAME.fullmatch(name):
            problems.append(
                ConfigError(
                    key, Shown("${env:..."), "write it as ${env:NAME}, letters, digits and _"
                )
            )
            return ""
        text = environment.get(name, "")
        if not text:
            state = "is empty" if name in environment else "is not set"
            remedy = f"the environment variable {name} {state}: set it"
            problems.append(ConfigError(key, Shown(match[0]), remedy))
        if key.endswith("jaas.config") and _inside_quotes(template[: match.start()]):
            return text.translate(_JAAS_ESCAPES)
        return text

    return _REFERENCE.sub(value, template), problems


def _inside_quotes(text: str) -> bool:
    quote = ""
    escaped = False
    for char in text:
        if escaped:
            escaped = False
        elif char == "\\" and quote:
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
    return bool(quote)
