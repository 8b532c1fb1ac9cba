"""SQL files as statements: comments dropped, ``${NAME}`` replaced, lines remembered.

Pure text; Flink's own parser judges the rest (``jobs.sql.run``). Rules:

- A statement ends with a semicolon. Quotes ('...', `...`) and comments (-- and /* */) may hold one.
- A hint (/*+ */) is no comment: it stays.
- ``${NAME}`` stands for a text that the job knows, put in as it is, also within quotes; not in a
  comment. There are no expressions, defaults or conditions.
- Files of a folder are read in the order of their names.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from udfs.core.errors import TablegateError

_NAME = re.compile(r"\$\{([^}\n]*)\}")
# What is to be skipped over as a whole, and what ends a statement. An opened quote or comment that
# is never closed is found by its begin alone.
_TOKEN = re.compile(r"'(?:[^']|'')*'|`[^`]*`|--[^\n]*|/\*.*?\*/|;|'|`|/\*", re.DOTALL)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_UNCLOSED = {"'": "quote (')", "`": "quote (`)", "/*": "comment (/*)"}


class SqlError(TablegateError):
    """A statement cannot be taken: where it stands, what is wrong, what to do. Nothing was run."""

    def __init__(self, file: Path, line: int, what: str, remedy: str) -> None:
        self.file, self.line, self.what, self.remedy = file, line, what, remedy
        super().__init__(f"{file}:{line}: {what} {remedy}")

    def __reduce__(self) -> tuple[type[SqlError], tuple[Path, int, str, str]]:
        return (type(self), (self.file, self.line, self.what, self.remedy))


@dataclass(frozen=True)
class Statement:
    """One statement, ready for Flink, without its semicolon.

    ``lines`` has for each line of ``text`` the line of ``file`` that it came from: what is put in
    for a name may have several. ``text`` may hold secrets, and is not to be shown.
    """

    file: Path
    text: str
    lines: tuple[int, ...]

    @property
    def line(self) -> int:
        """Where the statement begins."""
        return self.lines[0]

    def error(self, what: str, remedy: str, line: int = 1) -> SqlError:
        """An error at a line of ``text``, counted from 1."""
        return SqlError(self.file, self.lines[min(line, len(self.lines)) - 1], what, remedy)


def statements(folder: Path, names: Mapping[str, str]) -> list[Statement]:
    """All statements of the folder's ``*.sql`` files.

    Raises SqlError for a name that ``names`` lacks, a quote or comment that is not closed, and a
    statement without its semicolon.
    """
    return [
        statement
        for file in sorted(folder.glob("*.sql"))
        for statement in of_text(file, read_text(file), names)
    ]


def read_text(file: Path) -> str:
    """A file's text; a byte order mark before it is dropped.

    Raises SqlError when it is not UTF-8, and OSError when it cannot be read.
    """
    return decoded(file, file.read_bytes())


def decoded(file: Path, raw: bytes) -> str:
    """The text of ``raw``, which came from ``file``. Raises SqlError as :func:`read_text` does."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SqlError(
            file,
            raw.count(b"\n", 0, error.start) + 1,
            f"this is not UTF-8: byte 0x{raw[error.start]:02x}.",
            "Save the file as UTF-8.",
        ) from None
    return text.replace("\r\n", "\n")


def of_text(file: Path, text: str, names: Mapping[str, str]) -> list[Statement]:
    """The statements of one file's text. Raises SqlError as :func:`statements` does."""
    return [_filled(file, begin, part, names) for begin, part in _parts(file, text)]


def require_whole(file: Path, text: str) -> None:
    """See that what begins in a text ends in it; names are not looked at. Raises SqlError."""
    for _ in _parts(file, text):
        pass


def with_names(text: str, names: Mapping[str, str]) -> str:
    """The text with its comments, the names outside of them replaced as far as there are any."""
    filled: list[str] = []
    at = 0
    for token in _TOKEN.finditer(text):
        if _is_comment(token[0]):
            filled += [_replaced(text[at : token.start()], names), token[0]]
            at = token.end()
    return "".join([*filled, _replaced(text[at:], names)])


def is_open(text: str) -> bool:
    """Whether a statement, a quote or a comment has begun in ``text`` and not ended."""
    behind = 0
    for token in _TOKEN.finditer(text):
        if token[0] in _UNCLOSED:
            return True
        if token[0] == ";":
            behind = token.end()
    return bool(_COMMENT.sub("", text[behind:]).strip())


def literal(text: str) -> str:
    """``text`` as a SQL string."""
    return "'" + text.replace("'", "''") + "'"


def option_list(options: Mapping[str, str]) -> str:
    """The inside of a WITH clause."""
    return ", ".join(f"{literal(name)} = {literal(value)}" for name, value in options.items())


def _parts(file: Path, text: str) -> Iterator[tuple[int, str]]:
    """Statements with the line (from 1) that they begin at."""
    kept: list[str] = []
    at = line = 0
    for token in _TOKEN.finditer(text):
        found = token[0]
        if found in _UNCLOSED:
            raise SqlError(
                file,
                text.count("\n", 0, token.start()) + 1,
                f"this {_UNCLOSED[found]} is not closed.",
                "Close it where it shall end.",
            )
        kept.append(text[at : token.start()])
        at = token.end()
        if found == ";":
            yield from _stripped(line, "".join(kept))
            line = text.count("\n", 0, at)
            kept = []
        elif _is_comment(found):
            # Its line breaks stay, and with them the count of lines.
            kept.append(" " + "\n" * found.count("\n"))
        else:
            kept.append(found)
    for begin, _ in _stripped(line, "".join(kept) + text[at:]):
        raise SqlError(file, begin, "this statement does not end.", "Put a semicolon behind it.")


def _is_comment(token: str) -> bool:
    return token.startswith(("--", "/*")) and not token.startswith("/*+")


def _replaced(text: str, names: Mapping[str, str]) -> str:
    return _NAME.sub(lambda match: names.get(match[1], match[0]), text)


def _stripped(line: int, part: str) -> Iterator[tuple[int, str]]:
    body = part.lstrip()
    if body:
        yield line + part[: len(part) - len(body)].count("\n") + 1, body.rstrip()


def _filled(file: Path, begin: int, part: str, names: Mapping[str, str]) -> Statement:
    filled: list[str] = []
    lines: list[int] = []
    for number, template in enumerate(part.split("\n"), start=begin):

        def known(match: re.Match[str], number: int = number) -> str:
            name = match[1]
            if name in names:
                return names[name]
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"Did you mean ${{{near[0]}}}?" if near else f"Known are {', '.join(names)}."
            raise SqlError(file, number, f"there is no name ${{{name}}}.", hint)

        line = _NAME.sub(known, template)
        filled.append(line)
        lines += [number] * (line.count("\n") + 1)
    return Statement(file, "\n".join(filled), tuple(lines))
