"""Keeps secrets out of the journal: its config texts are stored, so they may hold references only.

A secret is given as ``${env:NAME}``. One that stands in the file as plain text would have to be
written into the journal, or the version could never be started again; so it is refused.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jobs.jaas import JaasSyntaxError, parse_jaas
from jobs.settings.secrets import MASK, is_secret

_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_LITERAL = re.compile(
    r"(passw\w*|passphrase|secret\w*|token|api[._-]?key|credentials?)[\"']?\s*[=:]\s*"
    r"(\"[^\"]+\"|'[^']+'|[^\s\"';]+)|PRIVATE KEY-----|://[^/@\s]*:[^/@\s]+@",
    re.IGNORECASE,
)
_JAAS = "jaas.config"
# Options of login modules, where `useKeyTab` and `tokenauth` are switches.
_JAAS_SECRET = re.compile(
    r"passw|passphrase|secret|token$|api_?key|credential|private", re.IGNORECASE
)
# For a reference, where the line around it is read: a word, as some stand without quotes.
_STAND_IN = "_reference_"
# Its keys are fields of the user's rows, whatever they are called.
_FIELDS = "table.fields."
# Shorter ones stand in every other word, and a text with all of these masked says nothing.
_SHORTEST = 4


def storable(text: str) -> str:
    """A TOML text without its comment lines: an old password may stand in one."""
    kept = "".join(
        line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#")
    )
    try:
        # A line of a text in triple quotes may begin with the sign as well.
        return kept if tomllib.loads(kept) == tomllib.loads(text) else text
    except tomllib.TOMLDecodeError:
        return text


def plain_secrets(config: str, overrides: Sequence[str] = ()) -> list[str]:
    """Dotted names of the settings whose secret stands there as plain text.

    Whether a setting is a secret says its name alone: a password may look like anything.

    Args:
        config: the TOML text. One that cannot be parsed yields nothing: loading it says why.
        overrides: each ``dotted.key=value``.
    """
    try:
        data: Mapping[str, Any] = tomllib.loads(config)
    except tomllib.TOMLDecodeError:
        data = {}
    found = [name for name, value in _leaves(data) if _is_plain_secret(name, value)]
    for override in overrides:
        name, _, value = override.partition("=")
        # A key may stand in quotes here as in the file.
        name = re.sub("[\"']", "", name).strip()
        leaves = _leaves({name: _parsed(value)})
        found += [f"--set {leaf}" for leaf, text in leaves if _is_plain_secret(leaf, text)]
    if not found:
        # What no key leads to: a comment behind a value.
        numbers = [
            number
            for number, line in enumerate(config.splitlines(), start=1)
            if "#" in line
            and _LITERAL.search(_REFERENCE.sub("", line))
            and "PRIVATE KEY" not in line
        ]
        found += [f"line {number} of the config" for number in numbers]
    return found


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{name}.")
        else:
            # A password of digits may stand there without quotes; the settings take it as text.
            yield name, str(value)


def _parsed(value: str) -> Any:
    # As `jobs.settings.load` reads an override: TOML where it is any, else text.
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        parsed = {}
    # A line break in the text could start a second key.
    return parsed["value"] if len(parsed) == 1 else value


def _is_plain_secret(name: str, value: str) -> bool:
    rest = _REFERENCE.sub("", value).strip()
    if _LITERAL.search(rest):
        return True
    if name.endswith(_JAAS):
        return _is_plain_login(value)
    return bool(rest) and is_secret(name) and not name.startswith(_FIELDS)


def _is_plain_login(line: str) -> bool:
    # Around the references of a JAAS line stand the module's name and the user's.
    try:
        options = parse_jaas(_REFERENCE.sub(_STAND_IN, line)).options
    except JaasSyntaxError:
        # All of it is one reference, or loading it says what is wrong.
        return False
    return any(
        text.replace(_STAND_IN, "") and _JAAS_SECRET.search(option)
        for option, text in options.items()
    )


class Scrubber:
    """Masks the values of the environment variables that a config refers to.

    For texts that others write, e.g. the client's output: what they quote is not ours to know.
    """

    def __init__(self, texts: Iterable[str], environment: Mapping[str, str]) -> None:
        names = {name for text in texts for name in _REFERENCE.findall(text)}
        values = {environment.get(name, "") for name in names}
        # Longest first: one may be a part of another.
        self._values = sorted((v for v in values if len(v) >= _SHORTEST), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """``text`` with the values masked."""
        for value in self._values:
            text = text.replace(value, MASK)
        return text
