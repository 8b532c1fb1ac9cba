"""How `tablegate sql` ends, and what it says when it does not do what it was asked."""

from __future__ import annotations

from enum import IntEnum

from jobs.sql.files import SqlError
from udfs.core.errors import ConfigError, StackError, TablegateError


class Exit(IntEnum):
    """Exit codes of `tablegate sql`."""

    DONE = 0
    # A job failed, the cluster or the brokers did not answer, or an audit returned rows.
    FAILED = 1
    # The settings or a statement were refused: of what was asked nothing was submitted.
    REFUSED = 2
    # As a shell reports a process that Ctrl-C ended.
    INTERRUPTED = 130


class ShellError(StackError):
    """A command or a query that did not come to its end: what happened, what to do."""

    def __init__(self, what: str, remedy: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(what, remedy)
        self.code = code

    def __reduce__(self) -> tuple[type[ShellError], tuple[str, str, Exit]]:  # type: ignore[override]
        return (type(self), (self.what, self.remedy, self.code))


def exit_code(error: TablegateError) -> Exit:
    """How the command ends with this error."""
    if isinstance(error, ShellError):
        return error.code
    return Exit.REFUSED if isinstance(error, SqlError | ConfigError) else Exit.FAILED
