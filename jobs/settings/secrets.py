"""What must never be printed, and the two tables of text that settings hold.

A property is secret by its name (a password, a token, a private key ...), by the shape of its value
(``password=...`` inside a JAAS line, a PEM private key), or because it came from the environment:
who puts a value into a variable rarely wants it in a log. The rule errs on the side of hiding:
a masked path costs a second look, a printed password costs a rotation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


class Shown(str):
    """Text that an error prints as it stands, without quotes: ``***``, ``(not set)``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


MASK = Shown("***")
UNSET = Shown("(not set)")

_SECRET_NAME = re.compile(
    r"passw|passphrase|pwd|secret|jaas|token|credential|assertion|private|user[._]?info"
    r"|keytab|api[._]?key|access[._]?key|auth[._]?key|(^|[._])(ssl|sasl)[._]"
)
# What finds a fault and opens nothing: a path, a type, the name of a mechanism or a class, a time,
# a switch. Deploys go by it too: of what looks secret they take plain values of such names only.
_OPEN_NAME = re.compile(
    r"\.(location|type|algorithm|class|name|username|principal|mechanisms?|method|protocols?|suites"
    r"|providers?|verification|implementation|list|stores|source|scope|file|keytab|url|client\.id"
    r"|ms|seconds|factor|jitter|relogin|include|urlencode|unsecure\.jwt)$"
)
_SECRET_VALUE = re.compile(
    r"(passw\w*|passphrase|secret\w*|token|api[._-]?key|credentials?)\s*[=:]|PRIVATE KEY-----|://[^/@\s]*:[^/@\s]*@",
    re.IGNORECASE,
)


def is_secret(name: str, value: str = "") -> bool:
    """Whether the value of a client property must be masked wherever it is printed."""
    if _SECRET_VALUE.search(value):
        return True
    name = name.lower()
    return bool(_SECRET_NAME.search(name)) and not _OPEN_NAME.search(name)


class TextTable(Mapping[str, str]):
    """A TOML table of free keys to text: immutable, hashable, in the file's order."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> str:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._items!r})"

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return _from_texts(cls, dict)


class ClientProperties:
    """Client property names to values, masked in everything but :meth:`plain`.

    Deliberately no ``Mapping``: ``dict(...)``, ``.items()`` and a failed assertion's diff would
    print what this class is there to hide.
    """

    __slots__ = ("_hidden", "_values")

    def __init__(self, values: Mapping[str, str] | None = None, hidden: Iterable[str] = ()) -> None:
        self._values = dict(values or {})
        self._hidden = frozenset(
            name for name, value in self._values.items() if is_secret(name, value)
        ) | frozenset(hidden)

    def plain(self) -> dict[str, str]:
        """A new dict with the real values, for a client's constructor and nothing else."""
        return dict(self._values)

    def masked(self) -> dict[str, str]:
        """A new dict for printing: a secret's value is ``***``."""
        return {name: self.shown(name) for name in self._values}

    def shown(self, name: str) -> str:
        """The value of one property as it may be printed; ``(not set)`` when there is none."""
        if name not in self._values:
            return UNSET
        return MASK if name in self._hidden else self._values[name]

    def secret_values(self) -> frozenset[str]:
        """The values behind the masks, for scrubbing texts that others write."""
        return frozenset(self._values[name] for name in self._hidden if self._values[name])

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClientProperties) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"ClientProperties({self.masked()!r})"

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        # Dumped settings are for looking at; clients get theirs from plain().
        return _from_texts(cls, cls.masked)


def _from_texts(cls: Callable[[Mapping[str, str]], Any], dump: Callable[[Any], Any]) -> CoreSchema:
    def convert(value: object) -> object:
        if isinstance(value, Mapping) and all(isinstance(v, str) for v in value.values()):
            return cls(value)
        return value

    return core_schema.no_info_before_validator_function(
        convert,
        core_schema.is_instance_schema(cls),
        serialization=core_schema.plain_serializer_function_ser_schema(dump),
    )
