"""The prompt: statements of several lines, with history, completion and colours."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from jobs.sql.files import is_open
from jobs.sql.masking import Masks
from ops.sql.words import Vocabulary, suggestions


def history_file(environment: Mapping[str, str] | None = None) -> Path:
    """Where the history is kept: in the folder that XDG_STATE_HOME names."""
    env = os.environ if environment is None else environment
    state = env.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "tablegate" / "sql_history"


class MaskedHistory(FileHistory):
    """History in a file that only its owner may read, without the secrets that were typed."""

    def __init__(self, file: Path, masks: Masks) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        super().__init__(str(file))
        self._masks = masks

    def store_string(self, string: str) -> None:
        """Append one input."""
        super().store_string(self._masks(string))


class Words(Completer):
    """Completion by ``ops.sql.words``."""

    def __init__(self, vocabulary: Callable[[], Vocabulary]) -> None:
        self._vocabulary = vocabulary

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """What could stand at the cursor."""
        before, after = document.text_before_cursor, document.text_after_cursor
        for found in suggestions(before, after, self._vocabulary()):
            yield Completion(found.text, start_position=-found.length, display_meta=found.what)


def is_done(text: str) -> bool:
    """Whether Enter sends what was typed: a command, nothing, or statements that all ended."""
    return text.lstrip().startswith("\\") or not is_open(text)


class Prompt:
    """Asks for statements.

    Args:
        name: what the prompt begins with.
        vocabulary: what there is, asked at each completion.
        history: the file of the history.
        masks: what must not get into it.
    """

    def __init__(
        self, name: str, vocabulary: Callable[[], Vocabulary], history: Path, masks: Masks
    ) -> None:
        message = f"{name}> "
        self._session: PromptSession[str] = PromptSession(
            message,
            multiline=True,
            prompt_continuation=lambda width, *_: "-> ".rjust(width),
            history=MaskedHistory(history, masks),
            auto_suggest=AutoSuggestFromHistory(),
            completer=Words(vocabulary),
            complete_while_typing=True,
            lexer=PygmentsLexer(SqlLexer),
            key_bindings=_keys(),
        )

    def ask(self) -> str:
        """What was typed.

        Raises:
            EOFError: Ctrl-D on an empty prompt.
            KeyboardInterrupt: Ctrl-C; what stood there is gone.
        """
        return self._session.prompt()


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=has_focus(DEFAULT_BUFFER))
    def enter(event: KeyPressEvent) -> None:
        _enter(event.current_buffer)

    return keys


def _enter(buffer: Buffer) -> None:
    chosen = buffer.complete_state and buffer.complete_state.current_completion
    if chosen:
        # The word stands in the text already; only the menu goes.
        buffer.complete_state = None
    elif is_done(buffer.text):
        buffer.validate_and_handle()
    else:
        buffer.newline(copy_margin=False)
