"""Reads a ``sasl.jaas.config`` line the way Kafka's Java client does.

Java reads it with ``java.io.StreamTokenizer`` (``org.apache.kafka.common.security.JaasConfig``):
quoted text with C escapes, ``//`` and ``/* */`` comments, bare words of few characters. The same
rules are followed here, or the two clients would log in with different passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# StreamTokenizer's default word characters, and those that JaasConfig adds. A word goes on with
# digits, dots and dashes, but what starts with one of these is no text (a number, to Java), and
# is refused like any other mark. A lone slash begins a comment too, which is the tokenizer's
# default; it swallows a line break that follows at once.
# Compared with Kafka 4.1.1's own reader on 120,000 random lines: the only difference is that an
# option without a name is refused here.
_TOKEN = re.compile(
    r"""
    (?P<skip>[\x00-\x20]+ | //[^\r\n]* | /\*.*?(?:\*/|\Z) | /(?:.[^\r\n]*)?)
  | "(?P<double>(?:\\.|[^"\\\r\n])*)(?:"|\\?\Z|(?=[\r\n]))
  | '(?P<single>(?:\\.|[^'\\\r\n])*)(?:'|\\?\Z|(?=[\r\n]))
  | (?P<word>[A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9_$.\u00a0-\U0010ffff-]*)
  | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_NAMED_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = {"required", "requisite", "sufficient", "optional"}


@dataclass(frozen=True)
class LoginModule:
    """One JAAS entry: the login module's class and its options."""

    name: str
    # Passwords: never in a repr.
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name!r}, options={sorted(self.options)})"


class JaasSyntaxError(ValueError):
    """The line cannot be read; the message quotes none of it, for it holds a password."""


def parse_jaas(text: str) -> LoginModule:
    """The only entry of a ``sasl.jaas.config`` value.

    Raises:
        JaasSyntaxError: when the line is no entry, or holds more than one.
    """
    tokens = _tokens(text)
    name, _ = next(tokens, ("", False))
    if not name:
        raise JaasSyntaxError("it names no login module")
    flag, _ = next(tokens, ("", False))
    if flag.lower() not in _FLAGS:
        raise JaasSyntaxError(
            f"the login module must be followed by {', '.join(sorted(_FLAGS))}; usual is required"
        )
    options: dict[str, str] = {}
    for key, is_mark in tokens:
        if is_mark and key == ";":
            if next(tokens, None) is not None:
                raise JaasSyntaxError("it must hold one entry, and there is text after its ';'")
            return LoginModule(name, options)
        equals, value = next(tokens, ("", True)), next(tokens, ("", True))
        if is_mark or equals != ("=", True) or value[1]:
            raise JaasSyntaxError(
                f'option number {len(options) + 1} is not of the form name="value"'
            )
        options[key] = value[0]
    raise JaasSyntaxError("it must end with ';'")


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Texts (``False``) and marks such as ``=`` and ``;`` (``True``) in order."""
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind in {"double", "single"}:
            yield _ESCAPE.sub(_unescape, match[kind]), False
        elif kind == "word":
            yield match["word"], False
        elif kind == "mark":
            yield match[0], True


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _NAMED_ESCAPES.get(code, code)
