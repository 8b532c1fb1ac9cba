"""Settings as text that reads like the file they came from, with secrets masked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from jobs.settings.secrets import ClientProperties, TextTable

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def describe(model: BaseModel) -> str:
    """TOML of all tables below ``model``, defaults included; secrets are ``***``."""
    return "\n".join(_table(model, "")).lstrip("\n") + "\n"


def _table(model: BaseModel, header: str) -> Iterator[str]:
    values: dict[str, object] = {}
    tables: dict[str, BaseModel | Mapping[str, str]] = {}
    for attribute, field in type(model).model_fields.items():
        name, value = field.alias or attribute, getattr(model, attribute)
        if isinstance(value, BaseModel | TextTable):
            tables[name] = value
        elif isinstance(value, ClientProperties):
            tables[name] = value.masked()
        elif value is not None and not _says_nothing(model, name):
            values[name] = value
    if values:
        yield from ("", f"[{header}]") if header else ()
        yield from (f"{_key(name)} = {_value(value)}" for name, value in values.items())
    for name, inner in tables.items():
        path = f"{header}.{name}" if header else name
        if isinstance(inner, BaseModel):
            yield from _table(inner, path)
        elif inner:
            yield from ("", f"[{path}]")
            yield from (f"{_key(key)} = {_value(text)}" for key, text in inner.items())


def _says_nothing(model: BaseModel, name: str) -> bool:
    # Refused when set: printed settings must be accepted again.
    return name == "format" and getattr(model, "from_", "key") == "value"


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _value(name)


def _value(value: object) -> str:
    # JSON's strings, integers and booleans are TOML's as well, but for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
