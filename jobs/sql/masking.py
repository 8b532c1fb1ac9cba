"""Secrets out of everything that is said of a statement, and that the shell shows or remembers.

The option lists that ``${...}`` puts in hold the clients' passwords, Flink repeats them in SHOW
CREATE TABLE and in errors, and people type further ones into a WITH clause of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from jobs.jaas import JaasSyntaxError, parse_jaas
from jobs.settings import Settings
from jobs.settings.secrets import MASK, is_secret

_OPTION = re.compile(r"('(?P<name>(?:[^']|'')*)'\s*=\s*)'(?P<value>(?:[^']|'')*)'")
_CLIENT = "properties."


class Masks:
    """What must not be shown, as it is and as SQL and JSON write it."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {
            form
            for secret in secrets
            if secret
            for form in (secret, secret.replace("'", "''"), json.dumps(secret)[1:-1])
        }
        # The longest first: a part of it would leave the rest to be read.
        self.forms = sorted(forms, key=len, reverse=True)

    @classmethod
    def of(cls, settings: Settings) -> Masks:
        """The secrets of ``[kafka]``, a login's password also by itself."""
        found = set(settings.kafka.properties.secret_values())
        found |= settings.kafka.librdkafka.secret_values()
        for secret in tuple(found):
            try:
                options = parse_jaas(secret).options
            except JaasSyntaxError:
                continue
            found |= {value for name, value in options.items() if is_secret(name, value)}
        return cls(found)

    def values(self, text: str) -> str:
        """The text with each secret as ``***``."""
        for form in self.forms:
            text = text.replace(form, MASK)
        return text

    def __call__(self, text: str) -> str:
        """The text with each secret, and each option of a secret's name, as ``***``."""
        return mask_options(self.values(text))


def mask_options(text: str) -> str:
    """``'name' = 'value'`` of a WITH clause or a SET, the value masked when the name says so."""

    def masked(option: re.Match[str]) -> str:
        name = option["name"].removeprefix(_CLIENT)
        return f"{option[1]}'{MASK}'" if is_secret(name, option["value"]) else option[0]

    return _OPTION.sub(masked, text)
