"""The prompt as somebody types into it."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from jobs.sql.masking import Masks
from ops.sql.prompt import Prompt, Words, _enter, history_file
from ops.sql.words import Vocabulary

_KNOWN = Vocabulary(("DEAD_TOPIC",), {"misses": ["verdict"]})


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


@pytest.fixture
def prompt(keys: PipeInput, tmp_path: Path) -> Prompt:
    return Prompt("orders", lambda: _KNOWN, tmp_path / "state" / "history", Masks(["s3cret"]))


def test_enter_sends_a_statement_that_has_ended(keys: PipeInput, prompt: Prompt) -> None:
    keys.send_text("SELECT 1;\r")
    assert prompt.ask() == "SELECT 1;"


def test_enter_goes_on_with_the_next_line_until_then(keys: PipeInput, prompt: Prompt) -> None:
    keys.send_text("SELECT ';'\rFROM misses -- ;\r;\r")
    assert prompt.ask() == "SELECT ';'\nFROM misses -- ;\n;"


def test_a_command_needs_no_semicolon(keys: PipeInput, prompt: Prompt) -> None:
    keys.send_text("\\jobs\r")
    assert prompt.ask() == "\\jobs"


def test_completions_stand_for_the_word_that_was_begun() -> None:
    typed = Document("SELECT * FROM mis")
    (found,) = Words(lambda: _KNOWN).get_completions(typed, CompleteEvent())
    assert (found.text, found.start_position) == ("misses", -3)


def test_enter_on_a_completion_only_takes_the_word() -> None:
    buffer = Buffer(document=Document("SELECT 1;"))
    buffer.complete_state = CompletionState(buffer.document, [Completion(";")], 0)
    _enter(buffer)
    assert buffer.text == "SELECT 1;"
    assert not buffer.complete_state


def test_ctrl_c_drops_what_was_typed_and_ctrl_d_leaves(keys: PipeInput, prompt: Prompt) -> None:
    keys.send_text("SELECT\x03")
    with pytest.raises(KeyboardInterrupt):
        prompt.ask()
    keys.send_text("\x04")
    with pytest.raises(EOFError):
        prompt.ask()


def test_the_history_is_kept_for_its_owner_alone_and_without_secrets(
    keys: PipeInput, prompt: Prompt, tmp_path: Path
) -> None:
    keys.send_text("SELECT 's3cret' WITH ('ssl.key.password' = 'pw');\r")
    prompt.ask()
    file = tmp_path / "state" / "history"
    assert "SELECT '***' WITH ('ssl.key.password' = '***');" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # In the next session it is the line above.
    keys.send_text("\x1b[A\r")
    again = Prompt("orders", lambda: _KNOWN, file, Masks(["s3cret"]))
    assert again.ask().startswith("SELECT '***'")


def test_the_history_is_where_xdg_says() -> None:
    assert history_file({"XDG_STATE_HOME": "/s"}) == Path("/s/tablegate/sql_history")
    assert history_file({}).parts[-4:] == (".local", "state", "tablegate", "sql_history")
