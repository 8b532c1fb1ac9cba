"""Turns what is wrong with a configuration into errors for the person who wrote it.

Pydantic's own messages are for programmers, and they quote the input, which may be a password.
Here each becomes a ``ConfigError`` with the key as it stands in the file, a value that is safe to
print, and what to write instead.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from jobs.settings.secrets import MASK, UNSET, ClientProperties, Shown, is_secret
from udfs.core.errors import ConfigError

_LONGEST_SHOWN = 80
_NEVER_A_SECRET = (bool, int, float)
_NOUNS = {
    "string_type": "a text in quotes",
    "int_type": "a whole number without quotes",
    "int_from_float": "a whole number without a decimal point",
    "bool_type": "true or false, without quotes",
    "model_type": "a table, i.e. keys under a [header] of this name",
    "is_instance_of": "a table of keys and texts",
}
_REMEDIES = {
    "literal_error": "give one of {expected}",
    "greater_than_equal": "give at least {ge}",
    "less_than_equal": "give at most {le}",
}


class ConfigErrors(ConfigError):
    """Everything that is wrong with the configuration at once; nothing was submitted.

    ``problems`` holds one ``ConfigError`` each. ``key``, ``value`` and ``remedy`` are the first's.
    """

    def __init__(self, problems: Iterable[ConfigError]) -> None:
        self.problems: tuple[ConfigError, ...] = tuple(problems)
        first = self.problems[0]
        super().__init__(first.key, first.value, first.remedy)
        if len(self.problems) > 1:
            lines = "\n".join(f"  - {problem}" for problem in self.problems)
            self.args = (f"{len(self.problems)} settings are wrong:\n{lines}",)

    # The base class rebuilds itself from one key, value and remedy; this one from its problems.
    def __reduce__(self) -> tuple[type[ConfigErrors], tuple[tuple[ConfigError, ...]]]:  # type: ignore[override]
        return (type(self), (self.problems,))


def shown(key: str, value: object) -> object:
    """``value`` as an error about ``key`` may print it."""
    if value is None or isinstance(value, Shown):
        return UNSET if value is None else value
    if is_secret(key, str(value)):
        return MASK
    if isinstance(value, _NEVER_A_SECRET):
        return value
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "..."
    if isinstance(value, ClientProperties | Mapping):
        return Shown("(a table)")
    return Shown("(a list)") if isinstance(value, list) else Shown(f"({type(value).__name__})")


def dotted(location: Sequence[int | str]) -> str:
    """``("stream", "key", "from")`` as ``stream.key.from``."""
    return ".".join(str(part) for part in location)


def from_pydantic(error: ErrorDetails, known: Iterable[str]) -> ConfigError:
    """One of pydantic's errors, as ours. ``known`` are all settings' dotted names."""
    key, kind = dotted(error["loc"]), error["type"]
    context: Mapping[str, Any] = error.get("ctx", {})
    if kind == "extra_forbidden":
        # Whatever stands under a misspelt name may be a password, so it is not shown at all.
        return ConfigError(key, MASK, f"there is no such setting{did_you_mean(key, known)}")
    if kind == "missing":
        inner = [name for name in known if name.startswith(key + ".")]
        if inner:
            required = ", ".join(name.removeprefix(key + ".") for name in inner)
            return ConfigError(key, UNSET, f"add the table [{key}]; its settings are {required}")
        return ConfigError(key, UNSET, "this setting has no default; add it to the file")
    if kind in _NOUNS:
        remedy = f"give {_NOUNS[kind]}"
    elif kind in _REMEDIES:
        remedy = _REMEDIES[kind].format(**context)
    else:
        # Validators of ours explain themselves; pydantic wraps their sentence.
        remedy = str(context.get("error", error["msg"]))
    return ConfigError(key, shown(key, error["input"]), remedy)


def did_you_mean(key: str, known: Iterable[str]) -> str:
    """A closing `` (did you mean ...?)``, or nothing when no known name is near."""
    names = sorted(known)
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.8)
    if not near:
        # Right word, wrong table: compare the last part alone.
        leaves = {name.rpartition(".")[2]: name for name in names}
        near = [
            leaves[leaf]
            for leaf in difflib.get_close_matches(key.rpartition(".")[2], leaves, n=1, cutoff=0.8)
        ]
    return f" (did you mean {near[0]}?)" if near else ""
