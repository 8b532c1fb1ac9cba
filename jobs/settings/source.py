"""From a TOML file, ``--set`` overrides and the environment to checked settings.

All problems are collected and raised together: who fixes a configuration wants one list, not one
round per mistake. To get past a wrong value and look for further ones, it is replaced by a valid
stand-in, and whatever depends on that value is left unchecked.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from jobs.settings.environment import substitute
from jobs.settings.model import Settings, key_names
from jobs.settings.problems import ConfigErrors, dotted, from_pydantic, shown
from jobs.settings.rules import broken_rules
from jobs.settings.secrets import MASK, ClientProperties
from udfs.core.errors import ConfigError

# Tables whose keys are the user's own and may hold dots.
_PROPERTY_TABLES = (("kafka", "properties"), ("kafka", "librdkafka"))
_FREE_TABLES = (*_PROPERTY_TABLES, ("table", "fields"), ("output", "also"))

_STAND_IN: Mapping[str, Any] = {
    "job": {"name": "stand-in"},
    "kafka": {"bootstrap_servers": "stand-in:9092"},
    "stream": {"topic": "stand-in.stream", "key": {"from": "key"}},
    "table": {"topic": "stand-in.table", "key": {"from": "key"}, "fields": {"a": "a"}},
    "output": {"enriched": "stand-in.e", "retry": "stand-in.r", "dead": "stand-in.d"},
}


def load(path: str | Path, overrides: Sequence[str] = ()) -> Settings:
    """The settings in the TOML file ``path``, changed by ``overrides`` such as ``job.name=orders``.

    An override's value is read as TOML where that fits the setting, and taken as text otherwise.
    ``${env:NAME}`` in values under ``[kafka]`` is replaced from the process's environment.

    Raises:
        ConfigErrors: with everything that is wrong, in ``problems``.
    """
    data, problems = _read(Path(path))
    if data is None:
        raise ConfigErrors(problems)
    for number, text in enumerate(overrides, start=1):
        problem = _override(data, number, text)
        if problem is not None:
            problems.append(problem)
    return _checked(data, os.environ, problems)


def from_mapping(data: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """The settings in a mapping shaped like the TOML file.

    Raises:
        ConfigErrors: with everything that is wrong, in ``problems``.
    """
    return _checked(dict(deepcopy(data)), os.environ if environment is None else environment, [])


# ------------------------------------------------------------------------------- file, overrides


def _read(path: Path) -> tuple[dict[str, Any] | None, list[ConfigError]]:
    # Errors are returned, not raised here: raised inside `except` they would carry the parser's
    # error along, and with it the text that it was parsing.
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig")), []
    except OSError as error:
        remedy = f"the file cannot be read ({error.strerror}): check the path and its rights"
    except UnicodeDecodeError:
        remedy = "the file is not UTF-8 text: save it as UTF-8"
    except tomllib.TOMLDecodeError as error:
        remedy = f"the file is not valid TOML: {error}"
    return None, [ConfigError("--config", str(path), remedy)]


def _override(data: dict[str, Any], number: int, text: str) -> ConfigError | None:
    key, equals, value = text.partition("=")
    path = _split_key(key.strip())
    if not equals or not all(path):
        # Without a key there is no telling whether the text holds a secret.
        return ConfigError(
            f"--set number {number}", MASK, "write it as key=value, e.g. job.name=orders"
        )
    table = data
    for position, part in enumerate(path[:-1], start=1):
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            outer = dotted(path[:position])
            return ConfigError(f"--set {dotted(path)}", MASK, f"{outer} is one value, not a table")
    table[path[-1]] = _override_value(path, value)
    return None


def _split_key(key: str) -> tuple[str, ...]:
    for free in _FREE_TABLES:
        prefix = dotted(free) + "."
        if key.startswith(prefix):
            return (*free, key.removeprefix(prefix).strip("\"'"))
    return tuple(key.split("."))


def _override_value(path: tuple[str, ...], text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    # A line break in the text could start a second key.
    value = parsed["value"] if len(parsed) == 1 else text
    wants_text = path[:-1] in _FREE_TABLES or key_names().get(dotted(path)) is str
    # A password of digits or a topic called 2024 is a text, whatever TOML would read into it.
    return text if wants_text and not isinstance(value, str) else value


# ------------------------------------------------------------------------------------- free tables


def _free_table(
    data: dict[str, Any], path: tuple[str, str], problems: list[ConfigError]
) -> dict[str, str] | None:
    """The table flattened to dotted keys and texts, or None when there is none to flatten.

    TOML reads ``ssl.key.password = "x"`` without quotes as nested tables; meant is one key.
    """
    section = data.get(path[0])
    if not isinstance(section, dict) or not isinstance(section.get(path[1]), dict):
        return None
    flat: dict[str, str] = {}

    def add(table: dict[str, Any], prefix: str) -> None:
        for name, value in table.items():
            key = prefix + name
            where = f"{dotted(path)}.{key}"
            if isinstance(value, dict):
                add(value, key + ".")
            elif key in flat:
                problems.append(ConfigError(where, MASK, "the key is given twice: keep one"))
            elif isinstance(value, int) and path in _PROPERTY_TABLES:
                # Kafka's manuals write such values without quotes; Java's true is lower case.
                flat[key] = str(value).lower()
            elif isinstance(value, str):
                flat[key] = value
            else:
                problems.append(ConfigError(where, shown(where, value), "give a text in quotes"))

    add(section[path[1]], "")
    section[path[1]] = flat
    return flat


def _fill_in(
    data: dict[str, Any], environment: Mapping[str, str], problems: list[ConfigError]
) -> None:
    """Flattens the free tables and puts the environment into ``[kafka]``."""
    for path in _FREE_TABLES:
        flat = _free_table(data, path, problems)
        if flat is None or path not in _PROPERTY_TABLES:
            continue
        hidden = set()
        for name, template in flat.items():
            where = f"{dotted(path)}.{name}"
            value, found = substitute(where, template, environment)
            problems += found
            if value != template:
                hidden.add(name)
                flat[name] = value
        data[path[0]][path[1]] = ClientProperties(flat, hidden)
    kafka = data.get("kafka")
    if isinstance(kafka, dict) and isinstance(kafka.get("bootstrap_servers"), str):
        where = "kafka.bootstrap_servers"
        kafka["bootstrap_servers"], found = substitute(
            where, kafka["bootstrap_servers"], environment
        )
        problems += found


# -------------------------------------------------------------------------------------- checking


def _checked(
    data: dict[str, Any], environment: Mapping[str, str], problems: list[ConfigError]
) -> Settings:
    _fill_in(data, environment, problems)
    faulty = {problem.key for problem in problems}
    known = key_names()
    settings: Settings | None = None
    while settings is None:
        settings, errors = _shapes(data)
        for error in errors:
            key = dotted(error["loc"])
            if not any(key == bad or key.startswith(bad + ".") for bad in faulty):
                problems.append(from_pydantic(error, known))
            faulty.add(key)
            _stand_in(data, error)
    problems += broken_rules(settings, faulty)
    if problems:
        raise ConfigErrors(problems)
    return settings


def _shapes(data: dict[str, Any]) -> tuple[Settings | None, list[ErrorDetails]]:
    try:
        return Settings.model_validate(data, context={"shapes_only": True}), []
    except ValidationError as error:
        return None, error.errors(include_url=False)


def _stand_in(data: dict[str, Any], error: ErrorDetails) -> None:
    """Removes the value that ``error`` complains of, or puts a valid one in its place."""
    table: Any = data
    valid: Any = _STAND_IN
    *outer, last = error["loc"]
    for part in outer:
        table = table[part]
        valid = valid.get(part, {}) if isinstance(valid, Mapping) else {}
    if error["type"] != "extra_forbidden" and last in valid:
        table[last] = deepcopy(valid[last])
    else:
        table.pop(last, None)
