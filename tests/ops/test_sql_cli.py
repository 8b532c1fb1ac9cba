"""`tablegate sql` with statements: what is read and refused before a session opens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.cli import app
from ops.paths import ROOT
from ops.sql.errors import Exit

_CONFIG = ROOT / "conf" / "orders.toml"


class Sessions:
    """Sessions that take any text."""

    def __init__(self) -> None:
        self.opened = 0
        self.ran: list[tuple[str, Path]] = []

    @contextmanager
    def open(self, *_: object) -> Iterator[Sessions]:
        self.opened += 1
        yield self

    def run(self, inputs: list[tuple[str, Path]]) -> Exit:
        self.ran += inputs
        return Exit.DONE


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    made = Sessions()
    monkeypatch.setattr("ops.sql.cli.opened", made.open)
    monkeypatch.setattr("ops.sql.cli.choose", lambda *_: None)
    return made


def _run(*arguments: str, typed: bytes = b"") -> Any:
    return CliRunner().invoke(app, ["sql", "--config", str(_CONFIG), *arguments], input=typed)


def test_a_statement_may_end_with_a_comment(sessions: Sessions) -> None:
    assert _run("-e", "VALUES (1) -- one", "-e", "\\jobs").exit_code == 0
    assert [text for text, _ in sessions.ran] == ["VALUES (1) -- one\n;", "\\jobs"]


@pytest.mark.parametrize("arguments", [("-e", "SELECT '"), ("-f",), ()])
def test_a_text_that_does_not_end_is_refused_before_a_session_opens(
    arguments: tuple[str, ...], sessions: Sessions, tmp_path: Path
) -> None:
    file = tmp_path / "a.sql"
    file.write_text("SELECT 1;\nSELECT '")
    given = ("-f", str(file)) if arguments == ("-f",) else arguments
    done = _run(*given, typed=b"SELECT '")
    assert (done.exit_code, sessions.opened) == (Exit.REFUSED, 0)
    assert "this quote (') is not closed" in done.stderr


@pytest.mark.parametrize("from_file", [True, False])
def test_a_text_of_other_bytes_than_utf_8_is_refused_with_its_line(
    from_file: bool, sessions: Sessions, tmp_path: Path
) -> None:
    raw = b"SELECT 1;\nSELECT '\xe9';"
    (tmp_path / "a.sql").write_bytes(raw)
    done = _run("-f", str(tmp_path / "a.sql")) if from_file else _run(typed=raw)
    assert (done.exit_code, sessions.opened) == (Exit.REFUSED, 0)
    assert ":2: this is not UTF-8" in done.stderr
